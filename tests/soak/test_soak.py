"""Nothing grows while every operator works in run after run, its services fail at random, and its pages are read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from tests.soak.conftest import Soak

# What a figure may grow by from the end of the warm-up to the end. Python frees memory in large pieces. Airflow 3.3.2
# grows by itself: in 25 minutes with 1,824 of its own triggers, its triggerer grew by 7.3 MB, of which 0.3 were in the
# child that runs triggers, and so the provider's code. What leaks with each request, task or run leaks hundreds of
# times. Pages leave next to nothing: after 2,250 of a report of 190 kB, 1,750 more made an API server grow by 0.04 MB.
ALLOWED = dict.fromkeys(
    ("triggerer: megabytes", "triggerer: megabytes of its children", "page-server: megabytes"), 16.0
)
ALLOWED_ELSEWHERE = 2.0
# The provider's code is called in neither process. The scheduler's memory goes up and down with what it schedules; that
# of the API server that answers tasks may grow with them, mostly in the C library's heaps.
NOT_OURS = {"scheduler: megabytes", "api-server: megabytes"}
# The page, or why there is nothing to show yet. A busy machine may not read the files of a page in time (503).
ANSWERS = {200, 503}
_REPORT = "Hot threads of mediaops_cluster_default"
PAGES = {
    ("list", 200, "Hot threads"),
    ("filtered", 200, "Hot threads"),
    ("report", 200, _REPORT),
    ("comparison", 200, f"{_REPORT}, compared"),
    ("unfinished", 200, "There is no report to show"),
}


def test_every_task_works_whatever_happens_to_the_services(soak: Soak) -> None:
    # Whether a bulletin is there whose reply was lost cannot be known, and it is not posted again.
    failures = {task: log for task, log in soak.failures.items() if "UncertainDeliveryError" not in log}

    assert failures == {}
    assert {task.state for task in soak.tasks} <= {"success", "failed"}
    assert soak.faults > 10


def test_no_bulletin_is_posted_twice(soak: Soak) -> None:
    texts = Counter(bulletin["snippet"]["description"] for bulletin in soak.sandbox.state.bulletins)

    assert texts
    assert [text for text, times in texts.items() if times > 1] == []


def test_the_pages_in_airflow_are_served_all_the_time(soak: Soak, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        for outcome, times in sorted(soak.pages.items(), key=str):
            print(f"{times:7,} {outcome.page:12}{outcome.status:5} {outcome.shown}")  # noqa: T201 to be judged by eye

    shown = {(outcome.page, outcome.status, outcome.shown) for outcome in soak.pages}
    assert [each for each in shown if each[1] not in ANSWERS] == []
    assert shown >= PAGES


def test_nothing_grows(soak: Soak, capsys: pytest.CaptureFixture[str]) -> None:
    trends = soak.trends()
    with capsys.disabled():
        print(f"\n{'':40}{'mean':>12} {'in an hour':>12}")  # noqa: T201 as above
        print("\n".join(f"{name:40}{trend}" for name, trend in trends.items() if trend.level))  # noqa: T201

    hours = soak.readings[-1][0] / 3_600
    growing = [
        f"{name}: {trend}"
        for name, trend in trends.items()
        if name not in NOT_OURS and trend.is_sure_to_exceed * hours > ALLOWED.get(name, ALLOWED_ELSEWHERE)
    ]
    assert growing == []
