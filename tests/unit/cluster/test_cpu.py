"""One poke of a wait for hot nodes: the verdict of a series of readings."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.api import CLUSTER_RULES
from airflow_provider_mediaops.cluster.cpu import CpuWatch, described
from airflow_provider_mediaops.cluster.models import NodeCpu
from airflow_provider_mediaops.exceptions import AuthenticationError, NotFoundError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.waiting import Pace, Progress, Term, wait
from airflow_provider_mediaops.watch import Done, Waiting
from tests.unit.call_flows import FakeClock, ReplayedReadings, pauses_of, replay, requests_of
from tests.unit.search_cluster import error, node_id, replied, stats

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response, Step
    from airflow_provider_mediaops.watch import Verdict

HOT, COOL, UNKNOWN = 95, 10, None
DOWN = replied(error(503, "master_not_discovered_exception", "no master"), 503)


def look(watch: CpuWatch, *readings: dict[str, Any] | Response, steps: list[Step] | None = None) -> Verdict:
    """Poke once at a cluster that says this, reading after reading; give the verdict, or what was logged."""
    clock = FakeClock()
    client = Client(("https://cluster.example",), CLUSTER_RULES, retry=RetryPolicy(max_attempts=1), clock=clock.clock)
    replies = [replied(stats(reading)) if isinstance(reading, dict) else reading for reading in readings]
    monotonic, told = clock.clock.monotonic, list[str]()
    flow = wait(
        ReplayedReadings(lambda: watch.look(client.ask), monotonic),
        watch.judge(monotonic),
        Pace(30),
        Progress(lambda _, sentence: told.append(sentence)),
        Term(monotonic, monotonic()),
        one_poke=True,
    )
    outcome = replay(flow, replies, steps=steps, clock=clock)
    return Done(watch.result(outcome.value)) if isinstance(outcome, Done) else Waiting("; ".join(told))


def names(verdict: Verdict) -> list[str]:
    """Give the names of the nodes that a wait is done with."""
    assert isinstance(verdict, Done), verdict
    return [node["name"] for node in verdict.value]


def still_waiting(verdict: Verdict) -> str:
    assert isinstance(verdict, Waiting), verdict
    return verdict.seen


class TestOneReading:
    def test_a_node_at_the_threshold_is_hot(self) -> None:
        verdict = look(CpuWatch(85), {"node-1": 84.9, "node-2": 85})
        assert verdict == Done(
            [
                {
                    "node_id": node_id("node-2"),
                    "name": "node-2",
                    "host": "node-2.example",
                    "percent": 85.0,
                    "source": "os",
                }
            ]
        )

    def test_the_hottest_node_comes_first(self) -> None:
        assert names(look(CpuWatch(50), {"node-1": 60, "node-2": 90, "node-3": 10})) == ["node-2", "node-1"]

    def test_all_means_all_that_tell_their_cpu(self) -> None:
        watch = CpuWatch(85, require="all")
        assert names(look(watch, {"node-1": HOT, "node-2": HOT, "node-3": UNKNOWN})) == ["node-1", "node-2"]
        assert still_waiting(look(watch, {"node-1": HOT, "node-2": COOL}))

    @pytest.mark.parametrize("require", ["any", "all"])
    def test_unknown_is_neither_zero_nor_hot(self, require: Any) -> None:
        assert (
            still_waiting(look(CpuWatch(1, require=require), {"node-1": UNKNOWN})) == "Waiting: no node reports its CPU"
        )

    def test_only_the_nodes_that_are_meant_are_asked_for(self) -> None:
        steps: list[Step] = []
        look(CpuWatch(85, nodes=["node-1", "node-2"]), {"node-1": HOT}, steps=steps)
        assert [request.path for request in requests_of(steps)] == ["/_nodes/node-1,node-2/stats/os,process"]

    def test_nodes_that_do_not_exist_end_the_wait(self) -> None:
        with pytest.raises(NotFoundError, match="'node-9'"):
            look(CpuWatch(85, nodes="node-9"), {})

    def test_a_node_that_does_not_exist_is_told_while_others_are_waited_for(self) -> None:
        seen = still_waiting(look(CpuWatch(85, nodes="node-1,node-9"), {"node-1": COOL}))
        assert seen == (
            "Only some of the nodes are watched: the cluster knows no node node-9.; "
            "Waiting: no node's CPU is at 85 % or more"
        )

    def test_what_was_seen_reads_the_same_while_nothing_changes(self) -> None:
        watch = CpuWatch(85, sustained_for=60, require="all")
        seen = {still_waiting(look(watch, {"node-1": percent, "node-2": UNKNOWN})) for percent in (10, 20.5)}
        assert seen == {"Waiting: the CPU of the nodes is not all at 85 % or more for 60 s; not known of node-2"}


class TestStreak:
    def test_a_streak_is_watched_to_its_end_within_one_look(self) -> None:
        steps: list[Step] = []
        readings = [{"node-1": HOT}] * 4
        assert names(look(CpuWatch(85, sustained_for=25), *readings, steps=steps)) == ["node-1"]
        assert pauses_of(steps) == [10, 10, 5]

    def test_no_pause_is_longer_than_the_streak(self) -> None:
        steps: list[Step] = []
        look(CpuWatch(85, sustained_for=3, reading_interval=10), {"node-1": HOT}, {"node-1": HOT}, steps=steps)
        assert pauses_of(steps) == [3]

    def test_a_single_low_reading_breaks_it(self) -> None:
        verdict = look(CpuWatch(85, sustained_for=30), {"node-1": HOT}, {"node-1": HOT}, {"node-1": 84})
        assert still_waiting(verdict)

    def test_a_cool_node_is_left_for_the_next_look(self) -> None:
        steps: list[Step] = []
        assert still_waiting(look(CpuWatch(85, sustained_for=30), {"node-1": COOL}, steps=steps))
        assert pauses_of(steps) == []

    def test_any_needs_the_streak_of_one_node_not_of_two_in_turn(self) -> None:
        in_turn = [{"node-1": HOT, "node-2": COOL}, {"node-1": COOL, "node-2": HOT}] * 3
        verdict = look(CpuWatch(85, sustained_for=30), *in_turn, {"node-1": COOL, "node-2": COOL})
        assert still_waiting(verdict)

    def test_any_ends_with_the_first_node_whose_streak_is_long_enough(self) -> None:
        steps: list[Step] = []
        readings = [{"node-1": HOT, "node-2": COOL}, *[{"node-1": HOT, "node-2": HOT}] * 2]
        assert names(look(CpuWatch(85, sustained_for=20), *readings, steps=steps)) == ["node-1"]
        assert pauses_of(steps) == [10, 10]

    def test_all_needs_them_at_the_same_time(self) -> None:
        watch = CpuWatch(85, sustained_for=20, require="all")
        both, one = {"node-1": HOT, "node-2": HOT}, {"node-1": HOT, "node-2": COOL}
        assert still_waiting(look(watch, both, one))
        assert sorted(names(look(watch, both, both, both))) == ["node-1", "node-2"]

    def test_an_unknown_reading_neither_breaks_nor_makes_it(self) -> None:
        watch = CpuWatch(85, sustained_for=20)
        steps: list[Step] = []
        verdict = look(watch, {"node-1": HOT}, {"node-1": UNKNOWN}, {"node-1": HOT}, steps=steps)
        assert names(verdict) == ["node-1"]
        assert pauses_of(steps) == [10, 10]

    def test_a_node_that_left_the_reply_is_unknown(self) -> None:
        watch = CpuWatch(85, sustained_for=20)
        verdict = look(watch, {"node-1": HOT, "node-2": COOL}, {"node-2": COOL}, {"node-1": HOT, "node-2": COOL})
        assert names(verdict) == ["node-1"]

    def test_a_streak_of_which_nothing_is_known_for_its_whole_length_ends(self) -> None:
        verdict = look(CpuWatch(85, sustained_for=20), {"node-1": HOT}, {"node-1": UNKNOWN}, {"node-1": UNKNOWN})
        assert still_waiting(verdict).endswith("; Waiting: no node reports its CPU")

    def test_a_streak_long_enough_waits_for_the_reading_that_says_so(self) -> None:
        steps: list[Step] = []
        hot, unknown = {"node-1": HOT}, {"node-1": UNKNOWN}
        verdict = look(CpuWatch(85, sustained_for=25), hot, hot, hot, unknown, unknown, hot, steps=steps)
        assert names(verdict) == ["node-1"]
        assert pauses_of(steps) == [10, 10, 5, 10, 10]


class TestFailure:
    def test_a_reading_that_fails_for_a_time_does_not_break_a_streak(self) -> None:
        assert names(look(CpuWatch(85, sustained_for=20), {"node-1": HOT}, DOWN, {"node-1": HOT})) == ["node-1"]

    def test_what_the_cluster_asks_to_wait_is_waited(self) -> None:
        steps: list[Step] = []
        slow = replied(error(429, "es_rejected_execution_exception", "full"), 429, **{"retry-after": "17"})
        look(CpuWatch(85, sustained_for=25), {"node-1": HOT}, slow, {"node-1": HOT}, steps=steps)
        assert pauses_of(steps) == [10, 17]

    def test_a_cluster_that_stays_away_ends_the_streak(self) -> None:
        assert "The wait goes on in 10 s" in still_waiting(
            look(CpuWatch(85, sustained_for=20), {"node-1": HOT}, DOWN, DOWN)
        )

    def test_a_first_reading_that_fails_ends_the_poke(self) -> None:
        assert still_waiting(look(CpuWatch(85, sustained_for=20), DOWN)).startswith("The wait goes on in 30 s: ")

    def test_wrong_credentials_end_the_wait_within_a_streak_too(self) -> None:
        refused = replied(error(401, "security_exception", "token expired"), 401)
        with pytest.raises(AuthenticationError):
            look(CpuWatch(85, sustained_for=20), {"node-1": HOT}, refused)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"threshold": -0.1}, "threshold"),
        ({"threshold": 100.1}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": 85, "sustained_for": -1}, "sustained_for"),
        ({"threshold": 85, "sustained_for": float("inf")}, "sustained_for"),
        ({"threshold": 85, "reading_interval": 0}, "reading_interval"),
        ({"threshold": 85, "require": "some"}, "require"),
        ({"threshold": 85, "nodes": []}, "nodes"),
    ],
)
def test_what_can_never_be_is_refused(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word} "):
        CpuWatch(**arguments)


def test_a_watch_is_made_again_of_its_fields() -> None:
    watch = CpuWatch(85, sustained_for=60, nodes=("a", "b"), require="all", reading_interval=5)
    assert CpuWatch(**asdict(watch)) == watch


def test_what_is_told_of_nodes_fits_into_any_database() -> None:
    nodes = [NodeCpu(f"id-{number}\0", "n\udcff\0" * 200, percent=99.0, source="os") for number in range(500)]
    told = json.dumps(described(nodes))
    assert len(told) < 48_000
    assert "\\u0000" not in told
    assert "\\udcff" not in told
    assert json.loads(told)[0]["node_id"] == "id-0\N{REPLACEMENT CHARACTER}"
