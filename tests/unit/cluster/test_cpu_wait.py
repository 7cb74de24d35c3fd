"""The wait for a spike: when it reads, what ends it, and what it lives through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.api import CLUSTER_RULES
from airflow_provider_mediaops.cluster.cpu import CpuWatch, Spike, SpikeVerdict, Streaks
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.waiting import Pace, Progress, Term, wait
from airflow_provider_mediaops.watch import Done
from tests.unit.call_flows import FakeClock, ReplayedReadings, pauses_of, replay, requests_of
from tests.unit.search_cluster import error, node_id, replied, stats

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response, Step

HOT, COOL, UNKNOWN = 95, 10, None
DOWN = replied(error(503, "master_not_discovered_exception", "no master"), 503)
BUSY = replied(error(429, "es_rejected_execution_exception", "full"), 429, **{"retry-after": "50"})
DENIED = replied(error(401, "security_exception", "no"), 401)
GONE = replied(stats({}))


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
        self.told: list[tuple[int, str]] = []
        self.steps: list[Step] = []
        self.clock = FakeClock()
        policy, monotonic = RetryPolicy(max_attempts=1), self.clock.clock.monotonic
        client = Client(("https://cluster.example",), CLUSTER_RULES, retry=policy, clock=self.clock.clock)
        replies = [replied(stats(reading)) if isinstance(reading, dict) else reading for reading in readings]
        flow = wait(
            ReplayedReadings(lambda: watch.look(client.ask), monotonic),
            SpikeVerdict(streaks or Streaks(watch), monotonic),
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
        assert isinstance(self.spike, Spike)
        return [node.name for node in self.spike.nodes]

    @property
    def pauses(self) -> list[float]:
        return pauses_of(self.steps)


class TestReadings:
    def test_they_follow_one_another_at_the_interval(self) -> None:
        waited = Waited(CpuWatch(85), {"node-1": COOL}, {"node-1": COOL}, {"node-1": HOT})
        assert waited.nodes == ["node-1"]
        assert waited.pauses == [30, 30]

    def test_the_reading_that_showed_it_comes_with_it(self) -> None:
        waited = Waited(CpuWatch(50), {"node-1": 60, "node-2": 10, "node-3": 90})
        assert waited.nodes == ["node-3", "node-1"]
        assert waited.spike is not None
        assert [(node.name, node.percent) for node in waited.spike.stats.nodes] == [
            ("node-1", 60),
            ("node-2", 10),
            ("node-3", 90),
        ]

    def test_a_first_pause_comes_before_them(self) -> None:
        assert Waited(CpuWatch(85), {"node-1": HOT}, first_pause=7).pauses == [7]


class TestStreak:
    def test_while_nodes_are_hot_they_are_read_more_often(self) -> None:
        hot = {"node-1": HOT}
        waited = Waited(CpuWatch(85, sustained_for=25), {"node-1": COOL}, hot, hot, hot, hot)
        assert waited.nodes == ["node-1"]
        assert waited.pauses == [30, 10, 10, 5]

    def test_an_interval_that_is_shorter_stays(self) -> None:
        hot = {"node-1": HOT}
        assert Waited(CpuWatch(85, sustained_for=8), hot, hot, hot, interval=4).pauses == [4, 4]

    def test_a_broken_one_is_left_at_the_usual_pace(self) -> None:
        cool, hot = {"node-1": COOL}, {"node-1": HOT}
        waited = Waited(CpuWatch(85, sustained_for=15), hot, cool, hot, hot, hot)
        assert waited.pauses == [10, 30, 10, 5]

    def test_it_outlives_the_end_of_a_wait_that_is_gone_on_with(self) -> None:
        watch = CpuWatch(85, sustained_for=15)
        hot, told = {"node-1": HOT}, list[str]()
        streaks, progress = Streaks(watch), Progress(lambda _, sentence: told.append(sentence))
        assert Waited(watch, hot, hot, hot, streaks=streaks, progress=progress).pauses == [10, 5]
        assert Waited(watch, hot, streaks=streaks, progress=progress, first_pause=30).nodes == ["node-1"]
        assert told == [
            "Waiting: the CPU is at 85 % or more; is it for 15 s?",
            "Seen: CPU at 85 % or more: node-1 (its machine)",
        ]


class TestTimeLimit:
    def test_it_ends_the_wait_without_a_spike(self) -> None:
        waited = Waited(CpuWatch(85), {"node-1": COOL}, {"node-1": COOL}, {"node-1": COOL}, deadline=45)
        assert waited.spike is None
        assert len(requests_of(waited.steps)) == 3, "the last of them at the time limit"
        assert waited.pauses == [30, 15]
        assert waited.clock.seconds == 45

    def test_a_spike_at_the_last_moment_is_seen(self) -> None:
        assert Waited(CpuWatch(85), {"node-1": COOL}, {"node-1": HOT}, deadline=20).nodes == ["node-1"]

    def test_one_that_has_passed_ends_it_after_one_reading(self) -> None:
        assert Waited(CpuWatch(85), {"node-1": COOL}, deadline=-1).spike is None

    def test_it_is_kept_to_while_the_cluster_is_away(self) -> None:
        waited = Waited(CpuWatch(85), *[DOWN] * 5, deadline=100)
        assert waited.spike is None
        assert waited.clock.seconds == 100


class TestFailure:
    def test_pauses_are_the_usual_ones(self) -> None:
        cool, hot = {"node-1": COOL}, {"node-1": HOT}
        assert Waited(CpuWatch(85), DOWN, DOWN, cool, DOWN, hot, interval=10).pauses == [10, 10, 10, 10]

    def test_each_change_of_state_is_told_once(self) -> None:
        cool = {"node-1": COOL}
        slow = TransportError(Failure.TIMEOUT, "no reply")
        waited = Waited(CpuWatch(85), cool, cool, DOWN, DOWN, slow, cool, {"node-1": HOT}, interval=10)
        assert [(level, sentence[:23]) for level, sentence in waited.told] == [
            (20, "Waiting: no node's CPU "),
            (30, "The wait goes on in 10 "),
            (30, "The wait goes on in 10 "),
            (20, "Waiting: no node's CPU "),
            (20, "Seen: CPU at 85 % or mo"),
        ]

    def test_what_is_seen_again_after_a_wait_is_told_again_and_else_once(self) -> None:
        told: list[str] = []
        progress = Progress(lambda _, sentence: told.append(sentence))
        for readings in ([HOT], [HOT], [COOL, HOT]):
            Waited(CpuWatch(85), *({"node-1": percent} for percent in readings), progress=progress)
        seen, waiting = "Seen: CPU at 85 % or more: node-1 (its machine)", "Waiting: no node's CPU is at 85 % or more"
        assert told == [seen, waiting, seen]

    def test_unless_it_is_to_be_waited_out(self) -> None:
        waited = Waited(CpuWatch(85), DENIED, DENIED, {"node-1": HOT}, interval=10, silent_fail=True)
        assert waited.pauses == [10, 10]


class TestNodes:
    def test_some_that_it_does_not_know_are_told_once(self) -> None:
        cool = {"node-1": COOL}
        waited = Waited(CpuWatch(85, nodes="node-1,node-8,node-9"), cool, cool, {"node-1": HOT})
        assert [told for told in waited.told if told[0] > 20] == [
            (30, "Only some of the nodes are watched: the cluster knows no node node-8, node-9.")
        ]

    def test_one_that_may_have_failed_is_not_called_unknown(self) -> None:
        partly = replied(stats({"node-1": HOT}, failures=("Failed node [abc]",)))
        waited = Waited(CpuWatch(85, nodes="node-1,node-2"), partly)
        gap = "the cluster gave no statistics of 1 node; not in its reply: node-2"
        assert waited.told == [
            (30, f"Only some of the nodes are watched: {gap}."),
            (20, "Seen: CPU at 85 % or more: node-1 (its machine)"),
        ]

    def test_those_that_have_answered_may_come_back(self) -> None:
        watch = CpuWatch(85, nodes=node_id("node-1"))
        waited = Waited(watch, {"node-1": COOL}, GONE, {"node-1": HOT})
        assert waited.nodes == ["node-1"]
        assert [level for level, _ in waited.told] == [20, 30, 20]

    def test_of_hundreds_that_are_unknown_some_are_named(self) -> None:
        watch = CpuWatch(85, nodes=["node-1", *(f"gone-{number}" for number in range(300))])
        ((_, sentence), _) = Waited(watch, {"node-1": HOT}).told
        assert sentence.endswith("gone-19 and 280 more.")
