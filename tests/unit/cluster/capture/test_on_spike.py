"""Captures at detection: the plan, what is asked for in which order, what is kept, what becomes of failures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.cluster.api import node_stats
from airflow_provider_mediaops.cluster.capture.on_spike import capture_when_hot
from airflow_provider_mediaops.cluster.capture.plan import CapturePlan, TakenFor
from airflow_provider_mediaops.cluster.capture.summary import summary_of
from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch
from airflow_provider_mediaops.cluster.errors import CLUSTER_RULES
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    InvalidReplyError,
    PermissionDeniedError,
    TaskStoppedError,
)
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import START, FakeClock, pauses_of, replay, replayed_readings, requests_of
from tests.unit.search_cluster import error, node_id, replied, report, stats

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.http.exchange import Response, Step

COOL, HOT = replied(stats({"node-1": 10, "node-2": 10})), replied(stats({"node-1": 95, "node-2": 10}))
REPORT = replied(report("node-1"))
DOWN = replied(error(503, "master_not_discovered_exception", "no master"), 503)
CUT = TransportError(Failure.BROKEN, "the connection broke")
SLOW = TransportError(Failure.TIMEOUT, "no reply")
EMPTY = replied("")
OF_ONE = replied(stats({"node-1": 10}))
OF_ANOTHER = replied(report("node-2"))
REFUSED = replied(error(401, "security_exception", "no"), 401)
FORBIDDEN = replied(error(403, "security_exception", "no"), 403)
NOT_KNOWN = replied(error(400, "illegal_argument_exception", "unrecognized parameter"), 400)


class Shelf:
    """Keeps captures in a list, unless it cannot be written or is full."""

    def __init__(self, *, unwritable: bool = False, full: bool = False, shows_statistics: bool = False) -> None:
        self.captures: list[Capture] = []
        self.finished = 0
        self.shows_statistics = shows_statistics
        self._unwritable = unwritable
        self._full = full

    def check(self) -> None:
        if self._unwritable:
            raise PermissionError(13, "no room")

    def keep(self, capture: Capture, number: int) -> dict[str, Any]:
        if self._full:
            raise OSError(28, "disk full")
        self.captures.append(capture)
        return {"number": number, "cpu": summary_of(capture)["cpu"], "missing": capture.missing}

    def finish(self) -> None:
        self.finished += 1


class Captured:
    """What a plan comes to at a cluster that gives these replies."""

    def __init__(
        self,
        plan: CapturePlan,
        *replies: Response | BaseException,
        deadline: float = float("inf"),
        shelf: Shelf | None = None,
    ) -> None:
        self.logged: list[tuple[int, str]] = []
        self.steps: list[Step] = []
        self.shelf = shelf or Shelf()
        keeper = cast("CaptureFiles", self.shelf)
        self.outcome: dict[str, Any] = {}
        clock = FakeClock()
        policy = RetryPolicy(max_attempts=1)
        client = Client(("https://cluster.example",), CLUSTER_RULES, retry=policy, clock=clock.clock)
        log = lambda *logged: self.logged.append(logged)  # noqa: E731
        readings = replayed_readings(lambda: client.ask(node_stats(plan.query.nodes)), clock.clock.monotonic)
        how = capture_when_hot(
            client.ask,
            plan,
            keeper,
            readings=readings,
            deadline=deadline,
            log=log,
            clock=clock.clock,
        )
        try:
            self.outcome = replay(how, replies, steps=self.steps, clock=clock)
        finally:
            self.seconds = clock.seconds

    @property
    def numbers(self) -> list[int]:
        return [kept["number"] for kept in self.outcome["captures"]]

    @property
    def asked(self) -> list[str]:
        return [request.path for request in requests_of(self.steps)]

    @property
    def failures(self) -> list[tuple[int, str]]:
        return [(failure["capture"], failure["error"]) for failure in self.outcome["failures"]]

    @property
    def warnings(self) -> list[str]:
        return [sentence for level, sentence in self.logged if level >= 30]


def plan(**fields: Any) -> CapturePlan:
    """Plan a capture of the node that gets as hot as 85 %."""
    return CapturePlan(**{"query": HotThreadsQuery(threads=9), "watch": CpuWatch(85), "poll_interval": 30, **fields})


HOT_THREADS = f"/_nodes/{node_id('node-1')}/hot_threads"


class TestDetection:
    def test_stop_while_the_statistics_are_awaited_costs_no_report(self) -> None:
        shelf = Shelf(shows_statistics=True)
        with pytest.raises(TaskStoppedError):
            Captured(plan(captures=2), HOT, REPORT, TaskStoppedError(), TaskStoppedError(), shelf=shelf)
        assert [(capture.text, capture.statistics) for capture in shelf.captures] == [(report("node-1"), None)]

    def test_capture_asks_for_no_statistics_that_the_next_one_would_wait_for(self) -> None:
        shelf = Shelf(shows_statistics=True)
        captured = Captured(plan(captures=2, every=2), HOT, REPORT, HOT, REPORT, replied("{}"), shelf=shelf)
        counted = f"/_nodes/{node_id('node-1')}/stats/os,jvm,thread_pool"
        assert [number for number, path in enumerate(captured.asked) if path == counted] == [4]

    def test_capture_that_cannot_be_kept_counts_as_failed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        counts: list[str] = []
        monkeypatch.setattr(metrics, "_stats", SimpleNamespace(incr=lambda name, _: counts.append(name)))
        with pytest.raises(OSError, match="disk full"):
            Captured(plan(), HOT, REPORT, shelf=Shelf(full=True))
        assert [name for name in counts if "captures" in name] == ["mediaops.cluster.captures.failed"]

    def test_hot_nodes_too_many_for_an_address_are_asked_for_as_the_task_names_them(self) -> None:
        names = [f"node-{number}." for number in range(300)]
        hot = replied(stats(dict.fromkeys(names, 99)))
        captured = Captured(plan(query=HotThreadsQuery("node-*")), hot, replied(report(*names)))
        assert captured.asked[-1] == "/_nodes/node-%2A/hot_threads"
        assert captured.warnings[0].startswith("300 nodes ran hot, too many to be named")


def test_cluster_is_asked_nothing_where_nothing_can_be_kept() -> None:
    with pytest.raises(PermissionError, match="no room"):
        Captured(plan(), shelf=Shelf(unwritable=True))


FULL = replied(error(429, "es_rejected_execution_exception", "full"), 429, **{"retry-after": "50"})

#: By what happens: the plan, the replies, the time limit, the numbers of the captures, and the pauses.
COURSES: dict[str, tuple[dict[str, Any], list[Any], dict[str, Any], list[int], list[float]]] = {
    "what the cluster asks for is waited": ({}, [HOT, FULL, HOT, REPORT], {}, [1], [50]),
    "a failed capture is followed by the usual pause": ({}, [*[HOT, DOWN] * 2, HOT, REPORT], {}, [1], [30, 30]),
    "a streak outlives a failed capture": (
        {"watch": CpuWatch(85, sustained_for=10)},
        [HOT, HOT, DOWN, HOT, REPORT],
        {},
        [1],
        [10, 30],
    ),
    "nothing is captured at the time limit": ({}, [COOL] * 3, {"deadline": 45}, [], [30, 15]),
    "the time limit is that of the wait only": (
        {"captures": 3, "every": 100},
        [HOT, REPORT] * 3,
        {"deadline": 20},
        [1, 2, 3],
        [100, 100],
    ),
    "several at once": ({"watch": None, "captures": 2, "every": 5}, [COOL, REPORT] * 2, {}, [1, 2], [5]),
}


@pytest.mark.parametrize(("fields", "replies", "how", "numbers", "pauses"), COURSES.values(), ids=COURSES.keys())
def test_course_of_a_plan(
    fields: dict[str, Any], replies: list[Any], how: dict[str, Any], numbers: list[int], pauses: list[float]
) -> None:
    captured = Captured(plan(**fields), *replies, **how)
    assert captured.numbers == numbers
    assert pauses_of(captured.steps) == pauses
    assert captured.outcome["timed_out"] == (not numbers)
    assert captured.shelf.finished == bool(numbers)
    reason = "time_limit" if "late" in how else "spike" if plan(**fields).watch else "at_once"
    assert {capture.reason for capture in captured.shelf.captures} <= {reason}
    if not plan(**fields).watch:
        assert captured.asked[:2] == ["/_nodes/stats/os,process", "/_nodes/hot_threads"]


@pytest.mark.parametrize(
    ("failure", "name"),
    [
        (DOWN, "ServiceUnavailableError"),
        (CUT, "ConnectionFailedError"),
        (SLOW, "ReplyTimeoutError"),
        (EMPTY, "ReplyTimeoutError"),
        (OF_ANOTHER, "ReplyTimeoutError"),
    ],
)
def test_after_a_capture_that_failed_the_wait_goes_on(failure: Response | TransportError, name: str) -> None:
    captured = Captured(plan(), HOT, failure, HOT, failure, COOL, HOT, REPORT)
    assert captured.numbers == [1]
    assert captured.failures == [(1, name), (1, name)]
    assert captured.outcome["failure_count"] == 2
    first, second = captured.outcome["failures"]
    assert (first["at"], second["at"]) == ("2026-03-14T20:00:00.000+00:00", "2026-03-14T20:00:30.000+00:00")
    assert first["message"]
    assert failure not in (EMPTY, OF_ANOTHER) or "(node-1)" in first["message"]
    # Told once, as it was the same again.
    (warning,) = captured.warnings
    assert warning.startswith("The capture of node-1 failed, and the wait continues: ")


class TestFailure:
    def test_report_of_some_hot_nodes_is_kept_and_names_the_others(self) -> None:
        both = replied(stats({"node-1": 90, "node-2": 99}))
        captured = Captured(plan(), both, REPORT)
        assert captured.outcome["captures"][0]["missing"] == ["node-2"]
        assert captured.failures == []

    def test_last_of_many_failures_are_told(self) -> None:
        captured = Captured(plan(), *[HOT, DOWN] * 25, HOT, REPORT)
        assert captured.outcome["failure_count"] == 25
        assert len(captured.outcome["failures"]) == 20
        assert captured.outcome["failures"][0]["at"] == "2026-03-14T20:02:30.000+00:00"

    def test_message_of_a_failure_is_small_and_such_that_any_database_takes_it(self) -> None:
        odd = replied(json.dumps({**error(503, "x", "\ud800" + "long " * 999)}), 503)
        (failure,) = Captured(plan(), HOT, odd, HOT, REPORT).outcome["failures"]
        assert len(failure["message"].encode()) <= 1000

    @pytest.mark.parametrize(
        ("reply", "cls"),
        [
            (REFUSED, AuthenticationError),
            (FORBIDDEN, PermissionDeniedError),
            (NOT_KNOWN, BadRequestError),
            (replied("<html>login</html>"), InvalidReplyError),
            (replied("   no section at all\n"), InvalidReplyError),
        ],
    )
    def test_a_refusal_ends_the_wait(self, reply: Response, cls: type[Exception]) -> None:
        with pytest.raises(cls):
            Captured(plan(), HOT, reply)


def series(*replies: Response | TransportError, **fields: Any) -> Captured:
    return Captured(plan(captures=3, every=10, **fields), HOT, REPORT, *replies)


class TestSeveral:
    def test_captures_of_a_series_are_of_the_same_nodes_and_so_far_apart(self) -> None:
        captured = series(COOL, REPORT, COOL, REPORT)
        assert captured.numbers == [1, 2, 3]
        assert captured.asked[-2:] == [f"/_nodes/{node_id('node-1')}/stats/os,process", HOT_THREADS]
        assert [capture.taken for capture in captured.shelf.captures] == [
            START + timedelta(seconds=seconds) for seconds in (0, 10, 20)
        ]
        assert captured.shelf.finished == 1

    @pytest.mark.parametrize("failures", [(DOWN, DOWN), (CUT,), (SLOW, SLOW), (FORBIDDEN, EMPTY), (OF_ONE, OF_ANOTHER)])
    def test_failed_capture_of_a_series_is_left_out(self, failures: Iterable[Response | TransportError]) -> None:
        captured = series(*failures, COOL, REPORT)
        assert captured.numbers == [1, 3]
        assert [number for number, _ in captured.failures] == [2]
        (warning,) = captured.warnings
        assert warning.startswith("Capture 2 of 3 failed: ")
        assert captured.shelf.finished == 1

    def test_refusal_ends_a_series_and_its_captures_are_kept(self) -> None:
        shelf = Shelf()
        with pytest.raises(AuthenticationError):
            Captured(plan(captures=3), HOT, REPORT, COOL, REPORT, REFUSED, shelf=shelf)
        assert len(shelf.captures) == 2
        assert shelf.finished == 1


class TestTakenFor:
    TI = SimpleNamespace(dag_id="d", run_id="r", task_id="t", try_number=2, map_index=0)

    def test_task_of_a_capture_is_read_from_its_context(self) -> None:
        assert TakenFor.from_context({"ti": self.TI}) == TakenFor("d", "r", "t", 2, 0)
        assert TakenFor.from_context({"ti": SimpleNamespace(map_index=-1)}) == TakenFor.from_context({}) == TakenFor()

    @pytest.mark.parametrize("name", ["dag", "dag_run"])
    def test_capture_of_a_dag_callback_is_not_for_the_task_that_ended_last(self, name: str) -> None:
        context = {"ti": self.TI, name: SimpleNamespace(dag_id="d"), "run_id": "r", "reason": "task_failure"}
        assert TakenFor.from_context(context) == TakenFor("d", "r")
