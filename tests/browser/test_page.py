"""The pages of captures and of a digest ask for nothing, and lets nothing run that a hostile text brings along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import digest_of_a_week, made, one, several
from tests.unit.cluster.made_pages import attacked

if TYPE_CHECKING:
    from tests.browser.conftest import Open


class TestQuietPage:
    @pytest.mark.parametrize(
        "html",
        [one(), several(), attacked(), made(""), digest_of_a_week()],
        ids=["one", "several", "attacked", "none", "digest"],
    )
    def test_nothing_is_asked_for_stopped_or_complained_of(self, open_page: Open, html: str) -> None:
        with open_page(html) as opened:
            if opened.page.locator("#flame-graph").count():
                assert opened.bars()
            assert [url.partition(":")[0] for url in opened.requests] == ["file"]
            assert opened.violations() == []
            assert opened.complaints == []


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
    def test_script_that_comes_through_a_hole_is_stopped_by_the_policy(
        self, open_page: Open, planted: str, directive: str
    ) -> None:
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
