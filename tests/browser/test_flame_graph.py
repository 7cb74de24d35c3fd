"""The flame graph as a person meets it: read, clicked through, searched, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import AFTER, BEFORE, made, one

if TYPE_CHECKING:
    from tests.browser.conftest import Open


class TestFlameGraph:
    def test_bars_are_as_wide_as_their_part(self, open_page: Open) -> None:
        with open_page(made(AFTER)) as opened:
            bars = opened.bars()
            whole = bars["Everything"]
            assert opened.page.locator("#flame-missing").is_hidden()
            assert {name: round(width / whole, 2) for name, width in bars.items()} == {
                "Everything": 1.0,
                "node n1": 1.0,
                "pool search": 0.9,
                "a.B.run": 0.1,  # the last of two
                "a.B.same": 0.9,
                "pool flush": 0.1,
                "a.B.fresh": 0.1,
            }
            assert whole == opened.width("#flame-graph")
            title = opened.bar("a.B.same").locator("title").text_content()
            assert title == "a.B.same: 90.0 %, 90.0 % of the graph"
            assert opened.bar("a.B.same").locator("div").inner_text() == "B.same"

    @pytest.mark.parametrize("animated", [True, False])
    def test_a_click_shows_a_bar_alone_and_a_button_all_again(self, open_page: Open, *, animated: bool) -> None:
        with open_page(made(AFTER), animated=animated) as opened:
            whole = opened.bars()["Everything"]
            assert opened.page.locator("#flame-reset").is_disabled()
            opened.bar("pool flush").click()
            bars = opened.bars()
            assert bars["pool flush"] == bars["a.B.fresh"] == whole
            assert "pool search" not in bars
            opened.page.locator("#flame-reset").click()
            assert opened.bars()["pool search"] == pytest.approx(0.9 * whole)
            assert opened.page.locator("#flame-reset").is_disabled()

    def test_the_keyboard_does_the_same(self, open_page: Open) -> None:
        with open_page(made(AFTER)) as opened:
            whole = opened.bars()["Everything"]
            keyboard = opened.page.keyboard
            opened.page.locator("#flame-search").focus()
            keyboard.press("Tab")
            details = opened.page.locator("#flame-details")
            assert details.inner_text().startswith("Everything: 100.0 %")
            for key, said in [
                ("ArrowDown", "node n1"),
                ("ArrowDown", "pool search"),
                ("ArrowRight", "pool flush"),
                ("ArrowRight", "pool flush"),
                ("ArrowLeft", "pool search"),
                ("ArrowUp", "node n1"),
                ("ArrowDown", "pool search"),
                ("ArrowRight", "pool flush"),
            ]:
                keyboard.press(key)
                assert details.inner_text().partition(":")[0] == said
            keyboard.press("Enter")
            assert opened.bars()["pool flush"] == whole
            keyboard.press("Escape")
            assert opened.bars()["pool flush"] == pytest.approx(0.1 * whole)
            keyboard.press("Tab")
            assert opened.page.evaluate("document.activeElement.closest('#flame-graph')") is None

    def test_flame_graph_can_be_split_otherwise(self, open_page: Open) -> None:
        with open_page(made(AFTER)) as opened:
            opened.page.locator("#flame-levels").select_option("0,1,2")
            assert "thread opensearch[n1][search][T#1]" in opened.bars()
            opened.page.locator("#flame-levels").select_option("")
            bars = opened.bars()
            assert list(bars) == ["Everything", "a.B.run", "a.B.same", "a.B.fresh"]
            assert bars["a.B.run"] == bars["Everything"]

    def test_methods_can_be_found(self, open_page: Open) -> None:
        with open_page(made(AFTER)) as opened:
            opened.bars()
            opened.page.locator("#flame-search").fill("b.FRESH")
            assert opened.page.locator("#flame-found").inner_text() == "10.0 % in 1 bar"
            assert opened.bar("a.B.fresh").locator("rect").get_attribute("fill") == "var(--found)"
            opened.page.locator("#flame-search").fill("")
            assert opened.page.locator("#flame-found").inner_text() == ""
            assert opened.bar("a.B.fresh").locator("rect").get_attribute("fill") == "var(--other)"

    def test_flame_graph_is_as_wide_as_the_window(self, open_page: Open) -> None:
        with open_page(one()) as opened:
            opened.bars()
            opened.page.set_viewport_size({"width": 800, "height": 600})
            # A function, not an expression: that would be evaluated at each look, which the page's policy forbids.
            opened.page.wait_for_function("() => document.querySelector('#flame-graph svg').clientWidth < 800")
            assert opened.bars()["Everything"] == opened.width("#flame-graph")


class TestSeveralCaptures:
    def test_each_can_be_shown_and_compared(self, open_page: Open) -> None:
        with open_page(made(BEFORE, AFTER)) as opened:
            page = opened.page
            # On average: 75 for searching, 10 for writing, 5 for flushing.
            bars = opened.bars()
            assert bars["pool search"] == pytest.approx(bars["Everything"] * 75 / 90)
            page.locator("#flame-capture").select_option(label="2 · 20:00:00")
            bars = opened.bars()
            assert bars["pool search"] == pytest.approx(bars["Everything"] * 0.9)
            assert "pool write" not in bars
            assert page.locator("#flame-legend-changes").is_hidden()
            page.locator("#flame-before").select_option(label="1 · 20:00:00")
            opened.bars()
            assert page.locator("#flame-legend-changes").is_visible()
            titles = page.locator("g.frame title").all_text_contents()
            assert "a.B.same: 90.0 %, 90.0 % of the graph, up from 60.0 % in 1 · 20:00:00" in titles
            assert opened.bar("a.B.fresh").locator("rect").get_attribute("fill") == "var(--new)"
            assert "var(--more)" in str(opened.bar("a.B.same").locator("rect").get_attribute("fill"))
