"""The page of a capture as a person meets it: opened, read, clicked through, printed; and as an attacker hopes for."""

from __future__ import annotations

import math
import re
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.cluster.models import NodeCpu
from airflow_provider_mediaops.cluster.page import assets as page_assets
from airflow_provider_mediaops.cluster.page.document import PageCapture, page
from tests.unit.hot_threads_text import ATTACKS, cpu, hostile, section, stack, thread, unique

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.conftest import Open

RECORDED = Path(__file__).parents[1] / "data" / "hot_threads"
TAKEN = datetime(2026, 11, 20, 22, 48, 37, tzinfo=timezone.utc)
NODES = [
    NodeCpu("1", "Node 1", percent=97.0, source="os", load_average={"1m": 12.3}),
    NodeCpu("2", "Node 2", percent=91.0, source="os"),
]


def capture(name: str) -> PageCapture:
    text = (RECORDED / f"{name}.txt").read_text(encoding="utf-8")
    return PageCapture(text, parse(text), cpu=NODES)


def made(*texts: str) -> str:
    return page([PageCapture(text, parse(text)) for text in texts], title="Hot threads")


def one() -> str:
    return page([capture("opensearch-3.8.0-cpu-with-idle-threads")], title="Hot threads of search-prod")


def several() -> str:
    names = ("cpu-with-idle-threads", "cpu", "cpu-with-idle-threads")
    return page([capture(f"opensearch-2.19.1-{name}") for name in names], title="Hot threads of search-prod")


def attacked() -> str:
    everything = "".join(ATTACKS)
    text = hostile()
    broken = f"::: {{{everything}}}{{id}}\n   hot threads is not supported on {everything}\n"
    nodes = [NodeCpu(everything, everything, percent=50.0)]
    one = PageCapture(text, parse(text), cpu=nodes, remarks=ATTACKS, path=everything)
    return page([one, PageCapture(broken, parse(broken)), one], title=everything)


# Two captures of which all figures are known.
BEFORE = section(
    "n1",
    thread("opensearch[n1][search][T#1]", cpu(60.0), stack(10, "a.B.same(B.java:1)", "a.B.run(B.java:1)")),
    thread("opensearch[n1][write][T#1]", cpu(20.0), stack(10, "a.B.gone(B.java:1)", "a.B.run(B.java:1)")),
)
AFTER = section(
    "n1",
    thread("opensearch[n1][search][T#1]", cpu(90.0), stack(10, "a.B.same(B.java:1)", "a.B.run(B.java:1)")),
    thread("opensearch[n1][flush][T#1]", cpu(10.0), unique("a.B.fresh(B.java:1)", "a.B.run(B.java:1)")),
)


class TestQuietPage:
    @pytest.mark.parametrize(
        "html", [one(), several(), attacked(), made("")], ids=["one", "several", "attacked", "none"]
    )
    def test_nothing_is_asked_for_stopped_or_complained_of(self, open_page: Open, html: str) -> None:
        with open_page(html) as opened:
            if opened.page.locator("#flame-graph").count():
                assert opened.bars()
            assert [url.partition(":")[0] for url in opened.requests] == ["file"]
            assert opened.violations() == []
            assert opened.complaints == []

    @pytest.fixture
    def asked(self) -> Iterator[tuple[str, list[str]]]:
        """Serve a page on loopback, and note what is asked for."""
        paths: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paths.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(one().encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            serving = threading.Thread(target=server.serve_forever, daemon=True)
            serving.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/report", paths
            finally:
                server.shutdown()
                serving.join(10)

    def test_from_a_server_it_asks_for_nothing_else_either(self, open_page: Open, asked: tuple[str, list[str]]) -> None:
        address, paths = asked
        with open_page("", address=address) as opened:
            assert opened.bars()
            assert opened.complaints == []
        assert paths == ["/report"]


class TestPolicy:
    @pytest.mark.parametrize(
        ("planted", "directive"),
        [
            ("<script>window.ran=1</script>", "script-src-elem"),
            ("<script src='https://attacker.example/x.js'></script>", "script-src-elem"),
            ("<b onclick='window.ran=1' id='planted'>x</b>", "script-src-attr"),
            ("<img src='https://attacker.example/x.png' onerror='window.ran=1'>", "img-src"),
            ("<style>p { color: red }</style>", "style-src-elem"),
            ("<p style='color: red'>x</p>", "style-src-attr"),
            ("<iframe src='https://attacker.example/'></iframe>", "frame-src"),
        ],
    )
    def test_what_would_come_through_a_hole_is_stopped(self, open_page: Open, planted: str, directive: str) -> None:
        with open_page(one().replace("</main>", f"{planted}</main>")) as opened:
            if "planted" in planted:
                opened.page.locator("#planted").dispatch_event("click")
            opened.page.wait_for_function("() => window.violations.length > 0")
            assert directive in {violation.split()[0] for violation in opened.violations()}
            assert opened.page.evaluate("window.ran") is None
            assert [url.partition(":")[0] for url in opened.requests] == ["file"]

    def test_no_script_can_make_markup_of_a_text(self, open_page: Open) -> None:
        with open_page(one()) as opened, pytest.raises(Exception, match="TrustedHTML"):
            opened.page.evaluate("document.body.innerHTML = '<img src=x onerror=window.ran=1>'")


class TestHostileText:
    def test_names_are_shown_and_nothing_runs(self, open_page: Open) -> None:
        with open_page(attacked()) as opened:
            said = opened.bars()
            opened.page.locator("#flame-levels").select_option("0,1,2")
            opened.page.locator("#flame-capture").select_option("2")
            opened.page.locator("#flame-before").select_option("0")
            opened.bars()
            opened.page.locator("#flame-search").fill("<img")
            for details in opened.page.locator("summary").all():
                details.click()
            for heading in opened.page.locator("thead button").all():
                heading.click()
            opened.bars()
            opened.page.locator("g.frame").nth(3).hover()
            assert opened.page.evaluate("window.ran") is None
            assert opened.violations() == []
            assert opened.complaints == []
            assert "node node </script><img src=x onerror=window.ran=1>" in said
            assert opened.page.locator("img, iframe, svg svg, body body, object").count() == 0
            assert opened.page.title().startswith("</script><img src=x")
            assert "node </script><img src=x onerror=window.ran=1>" in opened.column("By node", 1)


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

    def test_it_can_be_split_otherwise(self, open_page: Open) -> None:
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

    def test_pointing_at_a_bar_tells_it_in_full(self, open_page: Open) -> None:
        with open_page(made(AFTER)) as opened:
            opened.bars()
            opened.bar("a.B.same").hover()
            assert opened.page.locator("#flame-details").inner_text() == "a.B.same: 90.0 %, 90.0 % of the graph"

    def test_it_is_as_wide_as_the_window(self, open_page: Open) -> None:
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

    def test_what_changed_is_in_tables(self, open_page: Open) -> None:
        with open_page(made(BEFORE, AFTER)) as opened:
            rows = [opened.column("Thread pools", number) for number in (1, 2, 3, 4)]
            assert list(zip(*rows, strict=True)) == [
                ("search", "60.0 %", "90.0 %", "+30.0 %"),
                ("write", "20.0 %", "–", "−20.0 % gone"),  # noqa: RUF001
                ("flush", "–", "10.0 %", "+10.0 % new"),  # noqa: RUF001
            ]


class TestTables:
    def test_they_hold_the_figures_of_the_report(self, open_page: Open) -> None:
        with open_page(one()) as opened:
            assert list(zip(*(opened.column("By thread pool", number) for number in (1, 2, 3)), strict=True)) == [
                ("search", "58.4 %", "5"),
                ("write", "13.4 %", "4"),
                ("refresh", "7.0 %", "1"),
                ("transport_worker", "6.7 %", "4"),
                ("generic", "0.8 %", "3"),
                ("management", "0.3 %", "1"),
            ]
            assert opened.column("By node", 2) == ["97 % load 12.3", "91 %"]

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
    @pytest.mark.parametrize("html", [one(), several(), attacked()], ids=["one", "several", "attacked"])
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

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_what_is_found_has_a_color_of_its_own(self, open_page: Open, scheme: str) -> None:
        names = ["found", "jdk", "lucene", "server", "netty", "other", "place", "more", "new", "same", "less"]
        with open_page(one(), color_scheme=scheme) as opened:
            colors = {
                name: opened.page.evaluate(
                    "(name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`)", name
                )
                for name in names
            }
        found = colors.pop("found")
        assert {name: distance(found, color) for name, color in colors.items() if distance(found, color) < 0.15} == {}

    @pytest.mark.parametrize("html", [one(), several(), made("hello world")], ids=["one", "several", "none"])
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

    def test_a_table_that_goes_on_shows_a_shadow(self, open_page: Open) -> None:
        with open_page(several(), size=(700, 800)) as opened:
            grounds = opened.page.locator(".table").first.evaluate(
                "(table) => [getComputedStyle(table).backgroundAttachment, getComputedStyle(table).backgroundImage]"
            )
            assert grounds[0] == "local, local, scroll, scroll"
            assert grounds[1].count("linear-gradient") == 4

    def test_it_prints(self, open_page: Open) -> None:
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


def distance(one: str, other: str) -> float:
    """How far apart two colors look: their distance in OKLab."""

    def lab(color: str) -> tuple[float, float, float]:
        red, green, blue = channels_of(color)
        long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
        medium = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
        short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
        return (
            0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
            1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
            0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
        )

    return math.dist(lab(one), lab(other))


def contrast(one: str, other: str) -> float:
    """The contrast of two colors, as the Web Content Accessibility Guidelines define it."""

    def luminance(color: str) -> float:
        linear = channels_of(color)
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
