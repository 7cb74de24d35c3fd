"""The wait for a spike: which nodes are hot, when it reads, what ends it; and spikes that are told once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.cpu_watch import (
    CpuWatch,
    Hysteresis,
    Spike,
    Streaks,
    described,
)
from airflow_provider_mediaops.cluster.errors import CLUSTER_RULES
from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.waiting import Done, Pace, Progress, Term, wait
from tests.unit.call_flows import FakeClock, pauses_of, replay, replayed_readings
from tests.unit.search_cluster import error, node_id, replied, stats

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response, Step, TransportError

HOT, COOL, UNKNOWN = 95, 10, None
DOWN = replied(error(503, "master_not_discovered_exception", "no master"), 503)
BUSY = replied(error(429, "es_rejected_execution_exception", "full"), 429, **{"retry-after": "50"})
ONE_HOT, ONE_COOL, ONE_UNKNOWN = ({"node-1": percent} for percent in (HOT, COOL, UNKNOWN))
FIRST_HOT, SECOND_HOT, BOTH_HOT, NONE_HOT = (
    {"node-1": first, "node-2": second} for first, second in ((HOT, COOL), (COOL, HOT), (HOT, HOT), (COOL, COOL))
)
SHORT, LONG, ALL = {"sustained_for": 20}, {"sustained_for": 30}, {"require": "all"}


class Waited:
    """A wait at a cluster that says this, reading after reading, and all that is known of it."""

    def __init__(
        self,
        watch: CpuWatch,
        *readings: dict[str, Any] | Response | TransportError,
        interval: float = 30,
        silent_fail: bool = False,
        streaks: Streaks | None = None,
        progress: Progress | None = None,
        deadline: float = float("inf"),
        **how: Any,
    ) -> None:
        self.watch = watch
        self.told: list[tuple[int, str]] = []
        self.steps: list[Step] = []
        self.clock = FakeClock()
        policy, monotonic = RetryPolicy(max_attempts=1), self.clock.clock.monotonic
        client = Client(("https://cluster.example",), CLUSTER_RULES, retry=policy, clock=self.clock.clock)
        replies = [replied(stats(reading)) if isinstance(reading, dict) else reading for reading in readings]
        judged_by = streaks or Streaks(watch)
        flow = wait(
            replayed_readings(lambda: watch.look(client.ask), monotonic),
            lambda stats: judged_by.judge(stats, monotonic()),
            Pace(interval, silent_fail=silent_fail, may_return=watch.may_return),
            progress or Progress(lambda *told: self.told.append(told)),
            Term(monotonic, monotonic(), deadline),
            **how,
        )
        outcome = replay(flow, replies, steps=self.steps, clock=self.clock)
        self.outcome = outcome
        self.spike: Spike | None = outcome.value if isinstance(outcome, Done) else None

    @property
    def nodes(self) -> list[str | None]:
        """The names of the hot nodes; none if there was no spike."""
        return [] if self.spike is None else [node.name for node in self.spike.nodes]

    @property
    def seen(self) -> str:
        """The last that was told."""
        return self.told[-1][1]

    @property
    def pauses(self) -> list[float]:
        return pauses_of(self.steps)


class TestOneReading:
    def test_node_at_the_threshold_is_hot(self) -> None:
        waited = Waited(CpuWatch(85), {"node-1": 84.9, "node-2": 85})
        assert waited.spike is not None
        assert waited.watch.result(waited.spike) == [
            {
                "node_id": node_id("node-2"),
                "name": "node-2",
                "host": "node-2.example",
                "percent": 85.0,
                "source": "os",
            }
        ]

    def test_all_are_hot_only_where_all_are_known_to_be(self) -> None:
        watch = CpuWatch(85, require="all")
        assert Waited(watch, BOTH_HOT, one_poke=True).nodes == ["node-1", "node-2"]
        assert not Waited(watch, FIRST_HOT, one_poke=True).nodes

    @pytest.mark.parametrize("require", ["any", "all"])
    def test_unknown_is_neither_zero_nor_hot(self, require: Any) -> None:
        waited = Waited(CpuWatch(1, require=require), ONE_UNKNOWN, one_poke=True)
        assert (waited.nodes, waited.seen) == ([], "Waiting: no node reports its CPU")

    def test_sentence_reads_the_same_while_nothing_changes(self) -> None:
        watch = CpuWatch(85, sustained_for=60, require="all")
        seen = {Waited(watch, {"node-1": percent, "node-2": UNKNOWN}, one_poke=True).seen for percent in (10, 20.5)}
        assert seen == {"Waiting: not all nodes have their CPU at 85 % or more for 60 s; not known of node-2"}


#: By what happens: how long a spike is, the readings of one poke, the pauses between them, and the nodes that are hot.
STREAKS: dict[str, tuple[dict[str, Any], list[Any], list[float], list[str]]] = {
    "no pause is longer than it": ({"sustained_for": 3, "reading_interval": 10}, [ONE_HOT] * 2, [3], ["node-1"]),
    "a cool node is left for the next poke": (LONG, [ONE_COOL], [], []),
    "two nodes in turn are none": (LONG, [*[FIRST_HOT, SECOND_HOT] * 3, NONE_HOT], [10] * 6, []),
    "the first node that is hot for long enough ends it": (SHORT, [FIRST_HOT, *[BOTH_HOT] * 2], [10, 10], ["node-1"]),
    "all have to be hot at the same time": (SHORT | ALL, [BOTH_HOT, FIRST_HOT], [10], []),
    "a node that gives no figure breaks no streak of all": (
        SHORT | ALL,
        [BOTH_HOT, {"node-1": HOT, "node-2": UNKNOWN}, BOTH_HOT],
        [10, 10],
        ["node-1", "node-2"],
    ),
    "a node that gives no figure makes no streak of all": (
        SHORT | ALL,
        [BOTH_HOT, *[{"node-1": HOT, "node-2": UNKNOWN}] * 2],
        [10, 10],
        [],
    ),
    "a node that is cool breaks the streak of all whatever is known of the others": (
        SHORT | ALL,
        [BOTH_HOT, {"node-1": COOL, "node-2": UNKNOWN}],
        [10],
        [],
    ),
    "all are hot for long enough": (SHORT | ALL, [BOTH_HOT] * 3, [10, 10], ["node-1", "node-2"]),
    "an unknown reading neither breaks nor makes it": (SHORT, [ONE_HOT, ONE_UNKNOWN, ONE_HOT], [10, 10], ["node-1"]),
    "a node that left the reply is unknown": (SHORT, [FIRST_HOT, {"node-2": COOL}, FIRST_HOT], [10, 10], ["node-1"]),
    "nothing is known for its whole length": (SHORT, [ONE_HOT, *[ONE_UNKNOWN] * 2], [10, 10], []),
    "it waits for the reading that says so": (
        {"sustained_for": 25},
        [*[ONE_HOT] * 3, *[ONE_UNKNOWN] * 2, ONE_HOT],
        [10, 10, 5, 10, 10],
        ["node-1"],
    ),
    "what the cluster asks to wait is waited": ({"sustained_for": 25}, [ONE_HOT, BUSY, ONE_HOT], [10, 50], ["node-1"]),
}
#: The same of a wait that goes on until there is a spike, at a cluster that is read every 30 seconds.
WAITS: dict[str, tuple[dict[str, Any], list[Any], list[float], list[str]]] = {
    "nodes that are hot are read more often": (
        {"sustained_for": 25},
        [ONE_COOL, *[ONE_HOT] * 4],
        [30, 10, 10, 5],
        ["node-1"],
    ),
    "an interval shorter than that of a streak stays": (
        {"sustained_for": 75, "reading_interval": 40},
        [ONE_HOT] * 4,
        [30, 30, 15],
        ["node-1"],
    ),
    "a broken streak is followed by the usual pace": (
        {"sustained_for": 15},
        [ONE_HOT, ONE_COOL, *[ONE_HOT] * 3],
        [10, 30, 10, 5],
        ["node-1"],
    ),
    "several nodes are named the hottest first": ({}, [{"node-1": 86, "node-3": 90}], [], ["node-3", "node-1"]),
}


@pytest.mark.parametrize(
    ("watch", "readings", "pauses", "nodes", "one_poke"),
    [*((*row, True) for row in STREAKS.values()), *((*row, False) for row in WAITS.values())],
    ids=[*STREAKS, *WAITS],
)
def test_streak_within_a_poke_or_a_wait(
    watch: Any, readings: list[Any], pauses: list[float], nodes: list[str], *, one_poke: bool
) -> None:
    waited = Waited(CpuWatch(85, **watch), *readings, one_poke=one_poke)
    assert waited.nodes == nodes
    assert waited.pauses == pauses


def test_spike_comes_with_the_whole_reading_that_showed_it() -> None:
    spike = Waited(CpuWatch(50), {"node-1": 60, "node-2": 10}).spike
    assert spike is not None
    assert [(node.name, node.percent) for node in spike.stats.nodes] == [("node-1", 60), ("node-2", 10)]


def test_streak_outlives_a_wait_that_is_gone_on_with() -> None:
    watch = CpuWatch(85, sustained_for=15)
    told = list[str]()
    streaks, progress = Streaks(watch), Progress(lambda _, sentence: told.append(sentence))
    assert Waited(watch, *[ONE_HOT] * 3, streaks=streaks, progress=progress).pauses == [10, 5]
    assert Waited(watch, ONE_HOT, streaks=streaks, progress=progress, first_pause=30).pauses == [30]
    assert told == [
        "Waiting: the CPU is at 85 % or more, but not yet for 15 s",
        "Seen: CPU at 85 % or more: node-1 (its machine)",
    ]


class TestTold:
    def test_spike_seen_again_after_a_wait_is_told_again_and_else_once(self) -> None:
        told: list[str] = []
        progress = Progress(lambda _, sentence: told.append(sentence))
        for readings in ([ONE_HOT], [ONE_HOT], [ONE_COOL, ONE_HOT]):
            Waited(CpuWatch(85), *readings, progress=progress)
        seen, waiting = "Seen: CPU at 85 % or more: node-1 (its machine)", "Waiting: no node's CPU is at 85 % or more"
        assert told == [seen, waiting, seen]

    def test_nodes_that_the_cluster_does_not_know_are_told_once_and_some_of_hundreds_named(self) -> None:
        watch = CpuWatch(85, nodes=["node-1", *(f"gone-{number}" for number in range(300))])
        ((level, sentence),) = [told for told in Waited(watch, ONE_COOL, ONE_COOL, ONE_HOT).told if told[0] > 20]
        assert level == 30
        assert sentence.startswith("Only some of the nodes are watched: the cluster knows no node gone-0, gone-1, ")
        assert sentence.endswith("gone-19 and 280 more.")

    @pytest.mark.parametrize(("failed", "number"), [(1, "1 node"), (2, "2 nodes")])
    def test_node_that_may_have_failed_is_not_called_unknown(self, failed: int, number: str) -> None:
        partly = replied(stats(ONE_HOT, failures=("Failed node [abc]",) * failed))
        gap = f"the cluster gave no statistics of {number}; not in its reply: node-2"
        (remark, _) = Waited(CpuWatch(85, nodes="node-1,node-2"), partly).told
        assert remark == (30, f"Only some of the nodes are watched: {gap}.")


def test_description_of_nodes_fits_into_any_database() -> None:
    nodes = [NodeCpu(f"id-{number}\0", "n\udcff\0" * 200, percent=99.0, source="os") for number in range(500)]
    told = json.dumps(described(nodes))
    assert len(told) < 48_000
    assert "\\u0000" not in told
    assert "\\udcff" not in told
    assert json.loads(told)[0]["node_id"] == "id-0\N{REPLACEMENT CHARACTER}"


def reading(**cpu: float | None) -> NodeStats:
    return NodeStats(tuple(NodeCpu(f"id_{name}", name=name, percent=percent) for name, percent in cpu.items()))


def told(hysteresis: Hysteresis, *readings: Mapping[str, float | None] | None) -> list[str]:
    """Add readings, ten seconds from one to the next; give the names of the nodes that each tells of."""
    found = []
    for number, cpu in enumerate(readings):
        nodes = hysteresis.add(None if cpu is None else reading(**cpu), 10.0 * number)
        found.append(" ".join(node.name or "" for node in nodes))
    return found


def watching(clear_below: float = 85, sustained_for: float = 0, **watch: Any) -> Hysteresis:
    return Hysteresis(CpuWatch(85, sustained_for=sustained_for, **watch), clear_below)


A_HOT, A_COOL, A_AND_B = {"a": 90.0}, {"a": 5.0}, {"a": 90.0, "b": 95.0}

#: By what happens: the watch, the readings, and the nodes that each reading tells of.
SPIKES: dict[str, tuple[dict[str, Any], list[Any], list[str]]] = {
    "a hot node has to fall below where it clears": (
        {"clear_below": 70},
        [A_HOT, {"a": 70}, A_HOT, {"a": 69.9}, {"a": 84}, A_HOT],
        ["a", "", "", "", "", "a"],
    ),
    "another node has a spike of its own": ({}, [A_HOT, A_AND_B, {"a": 5, "b": 90}, A_AND_B], ["a", "b", "", "a"]),
    "nodes that run hot together are told together the hottest first": ({}, [A_AND_B], ["b a"]),
    "a figure that is unknown clears nothing": ({}, [A_HOT, {"a": None}, A_HOT], ["a", "", ""]),
    "a node that is not in the reading clears nothing": ({}, [A_HOT, {"b": 5}, A_HOT], ["a", "", ""]),
    "a streak goes on while another spike is told": (SHORT, [A_HOT, *[A_AND_B] * 4], ["", "", "a", "b", ""]),
    "a streak after a spike has to be long enough again": (
        SHORT,
        [*[A_HOT] * 3, A_COOL, *[A_HOT] * 3],
        ["", "", "a", "", "", "", "a"],
    ),
    "a failed reading breaks no streak": (SHORT, [A_HOT, None, A_HOT], ["", "", "a"]),
    "two failed readings make no streak": (SHORT, [A_HOT, None, None, A_HOT], [""] * 4),
    "all nodes have a spike together however long it lasts": (SHORT | ALL, [A_AND_B] * 8, ["", "", "b a", *[""] * 5]),
    "a spike of all nodes is over when one of them cools down": (
        ALL | {"clear_below": 50},
        [{"a": 90, "b": 5}, A_AND_B, {"a": 60, "b": 60}, A_AND_B, {"a": None}, A_AND_B, {"a": 49}, A_AND_B],
        ["", "b a", "", "", "", "", "", "b a"],
    ),
}


@pytest.mark.parametrize(("watch", "readings", "names"), SPIKES.values(), ids=SPIKES.keys())
def test_spikes_are_told_once(watch: dict[str, Any], readings: list[Any], names: list[str]) -> None:
    assert told(watching(**watch), *readings) == names


@pytest.mark.parametrize("sustained_for", [0, 10])
def test_a_spike_of_thousands_of_nodes_is_told_once(sustained_for: float) -> None:
    hysteresis = watching(sustained_for=sustained_for)
    hot = reading(**{f"node-{number}": 95.0 for number in range(2500)})
    found = [len(hysteresis.add(hot, 10.0 * number)) for number in range(5)]
    assert sorted(found) == [0, 0, 0, 0, 2500]


class TestRestart:
    def test_nodes_that_never_come_back_do_not_pile_up(self) -> None:
        hysteresis = watching()
        for number in range(1100):
            hysteresis.add(reading(**{f"n{number}": 90.0}), float(number))
        assert len(hysteresis.hot) == 1000
        assert hysteresis.hot[-1] == "id_n1099"
