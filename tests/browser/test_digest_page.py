"""The page of a digest in Chromium: strips, the chosen time, and the flame graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.pages import digest_of_a_week

if TYPE_CHECKING:
    from tests.browser.conftest import Open


def test_a_cell_leads_to_its_captures_and_to_the_flame_graph_of_its_time(open_page: Open) -> None:
    with open_page(digest_of_a_week()) as opened:
        page = opened.page
        assert page.locator("#flame-range").inner_text().startswith("84 scheduled captures, 2026-11-16 00:00 to")
        assert opened.bar("RunAutomaton.step").count() == 1
        # The second strip is that of the spikes.
        strip = page.locator(".strip").nth(1)
        cell = strip.locator("rect.hot").first
        cell.scroll_into_view_if_needed()
        box = cell.bounding_box()
        assert box
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert page.locator("#cell-title").inner_text() == (
            "search: in 1 of 1 captures at spikes, 2026-11-17 14:00 to 2026-11-17 16:00 UTC"
        )
        link = page.locator("#cell-captures a")
        assert link.get_attribute("href") == "reports/spikes/2026-11-17T1407.txt"
        assert page.locator("#flame-range").inner_text().startswith("1 capture at spikes, 2026-11-17 14:00")
        bars = opened.bars()
        assert not [name for name in bars if "write" in name]
        page.get_by_role("button", name="All of the time").click()
        assert page.locator("#flame-range").inner_text().startswith("3 captures at spikes, 2026-11-16 00:00")


def test_several_cells_can_be_chosen_with_the_mouse_or_the_form(open_page: Open) -> None:
    with open_page(digest_of_a_week()) as opened:
        page = opened.page
        row = page.locator(".strip svg").first
        row.scroll_into_view_if_needed()
        box = row.bounding_box()
        assert box
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.5 / 84, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 3.5 / 84, middle)
        page.mouse.up()
        chosen = "4 scheduled captures, 2026-11-16 00:00 to 2026-11-16 08:00 UTC; the average of a capture."
        assert page.locator("#flame-range").inner_text() == chosen
        page.locator("#brush-to").select_option("5")
        assert page.locator("#flame-range").inner_text().startswith("6 scheduled captures, 2026-11-16 00:00")
        page.locator("#brush-pool").select_option(label="write")
        assert page.locator("#cell-title").inner_text().startswith("write: in 4 of 6 scheduled captures")


def test_without_scripts_the_tables_can_be_read(open_page: Open) -> None:
    with open_page(digest_of_a_week(), java_script_enabled=False) as opened:
        # Another table, of those that saw a task, follows.
        assert opened.column("84 scheduled captures", 2)[:3] == ["84 of 84", "42 of 84", "42 of 84"]
        assert opened.page.get_by_text("drawn by scripts of this page").is_visible()
