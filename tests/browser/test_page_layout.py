"""The tables and the layout of the page of a capture: on wide and narrow screens, light and dark, printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.cluster.page import assets as page_assets
from tests.browser.pages import digest_of_a_week, made, one, several, with_tasks
from tests.unit.cluster.made_pages import attacked

if TYPE_CHECKING:
    from tests.browser.conftest import Open


class TestTables:
    def test_a_click_on_a_heading_sorts(self, open_page: Open) -> None:
        with open_page(one()) as opened:
            table = opened.page.locator("table", has=opened.page.locator("caption", has_text="By thread pool"))
            heading = table.get_by_role("columnheader", name="CPU")
            assert heading.get_attribute("aria-sort") == "descending"
            heading.get_by_role("button").click()
            assert opened.column("By thread pool", 1)[0] == "management"
            assert heading.get_attribute("aria-sort") == "ascending"
            table.get_by_role("button", name="Thread pool").click()
            assert opened.column("By thread pool", 1) == sorted(opened.column("By thread pool", 1))
            assert heading.get_attribute("aria-sort") is None


class TestTasks:
    def test_all_columns_have_room_on_a_wide_screen(self, open_page: Open) -> None:
        with open_page(with_tasks(), size=(1400, 900)) as opened:
            tables = opened.page.locator("[aria-labelledby=behind] .table").all()
            assert len(tables) == 6
            assert not [table for table in tables if table.evaluate("(one) => one.scrollWidth > one.clientWidth")]

    def test_on_a_phone_a_row_shows_no_empty_cells(self, open_page: Open) -> None:
        with open_page(with_tasks(), size=(400, 800)) as opened:
            row = opened.page.locator("tr", has_text="not explained").first
            shown = [cell.get_attribute("data-column") for cell in row.locator("th, td").all() if cell.is_visible()]
            assert shown == ["X-Opaque-Id", "Share of node"]


class TestWithoutScripts:
    def test_tables_and_texts_can_be_read(self, open_page: Open) -> None:
        with open_page(several(), java_script_enabled=False) as opened:
            page = opened.page
            assert opened.column("By thread pool", 1)[0] == "search"
            assert page.get_by_text("The flame graph is drawn by a script").is_visible()
            assert page.locator("#flame-legend").is_hidden()
            assert page.locator("#flame-controls").is_hidden()
            page.locator("summary").first.click()
            assert page.locator("pre").first.inner_text().startswith("::: {Node")


class TestLayout:
    @pytest.mark.parametrize(
        "html",
        [one(), several(), with_tasks(), attacked(), digest_of_a_week()],
        ids=["one", "several", "tasks", "attacked", "digest"],
    )
    def test_no_window_has_to_be_scrolled_sideways(self, open_page: Open, html: str) -> None:
        with open_page(html) as opened:
            opened.bars()
            for details in opened.page.locator("summary").all():
                details.click()
            for width in (1920, 1366, 1024, 768, 360):
                opened.page.set_viewport_size({"width": width, "height": 768})
                opened.bars()
                assert opened.page.evaluate("document.documentElement.scrollWidth") <= width

    def test_a_laptop_shows_what_is_hot_at_once(self, open_page: Open) -> None:
        with open_page(one()) as opened:
            for caption in ("By thread pool", "By top frame", "By node"):
                box = opened.page.locator("table", has=opened.page.locator("caption", has_text=caption)).bounding_box()
                assert box
                assert box["y"] + box["height"] <= 768

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_colors_keep_texts_readable(self, open_page: Open, scheme: str) -> None:
        with open_page(one(), color_scheme=scheme) as opened:
            names = re.findall(r"^  --([a-z]+): ", page_assets.style(), re.MULTILINE)
            colors: dict[str, str] = opened.page.evaluate(
                """(names) => {
                    const style = getComputedStyle(document.documentElement);
                    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`)]));
                }""",
                names,
            )
            assert colors["page"] == {"light": "#fff", "dark": "#0d1117"}[scheme]
            texts = {name: colors.pop(name) for name in ("text", "aside", "link")}
            for ground in colors.keys() - {"line", "remark", "shadow"}:
                assert contrast(texts["text"], colors[ground]) >= 4.5, ground
            for text in texts.values():
                assert contrast(text, colors["page"]) >= 4.5
                assert contrast(text, colors["raised"]) >= 4.5

    @pytest.mark.parametrize(
        "html", [one(), several(), with_tasks(), made("hello world")], ids=["one", "several", "tasks", "none"]
    )
    def test_on_a_phone_tables_are_lists_and_names_of_nodes_stay_whole(self, open_page: Open, html: str) -> None:
        with open_page(html, size=(400, 800)) as opened:
            page = opened.page
            assert page.evaluate("document.documentElement.scrollWidth") <= 400
            hidden = "(table) => table.scrollWidth > table.clientWidth"
            assert not [table for table in page.locator(".table").all() if table.evaluate(hidden)]
            for cell in page.locator("[data-column='Node'], [data-column='Nodes']").all():
                box = cell.bounding_box()
                assert box
                assert box["height"] < 40  # one line
            if page.locator("td").count():
                label = "(cell) => getComputedStyle(cell, '::before').content"
                assert page.locator("td").first.evaluate(label) == '"CPU"' or "highest" in page.locator(
                    "td"
                ).first.evaluate(label)

    def test_page_prints(self, open_page: Open) -> None:
        with open_page(several(), color_scheme="dark") as opened:
            opened.bars()
            opened.page.emulate_media(media="print")
            opened.page.set_viewport_size({"width": 700, "height": 1000})
            assert opened.width("#flame-graph svg") == pytest.approx(700, abs=1)
            assert opened.page.locator("#flame-controls").is_hidden()
            assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
            printed = opened.page.pdf(format="A4")
            assert printed.startswith(b"%PDF-")
            assert 3 <= len(re.findall(rb"/Type /Page\b", printed)) <= 8


def channels_of(color: str) -> list[float]:
    """The red, green and blue of a color, linear, from 0 to 1."""
    digits = color.strip().removeprefix("#")
    digits = "".join(digit * 2 for digit in digits) if len(digits) == 3 else digits
    values = [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]


def contrast(one: str, other: str) -> float:
    """The contrast of two colors, as the Web Content Accessibility Guidelines define it."""

    def luminance(color: str) -> float:
        linear = channels_of(color)
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
