"""The flame graph of a page of captures, which may be within a page of Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Page


def bars(page: Page | Frame, *, still_for: int = 100) -> dict[str, float]:
    """
    Wait until nothing moves any more, and return the bars.

    :param still_for: how many milliseconds without a change show that.
    """
    # What an earlier wait saw says nothing of this one: what was clicked may not have begun to move yet. As long as D3
    # has a step to do, however late it comes to it, the element knows.
    page.evaluate("() => { delete window.lastWidths; }")
    page.wait_for_function(
        """() => {
            const bars = [...document.querySelectorAll("g.frame rect")];
            const now = bars.map((bar) => bar.getAttribute("width") ?? "none yet").join();
            const moves = [...document.querySelectorAll("#flame-graph *")].some((element) => element.__transition);
            const still = now !== "" && !now.includes("none yet") && !moves && now === window.lastWidths;
            window.lastWidths = now;
            return still;
        }""",
        polling=still_for,
    )
    found: dict[str, float] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("g.frame")].map((bar) => [
            bar.querySelector("title").textContent.split(": ")[0],
            Number(bar.querySelector("rect").getAttribute("width")),
        ]))"""
    )
    return found
