"""The watch that starts DAGs: an event for each spike, none for anything else, and what a restart leaves of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
from tests.unit.log_lines import log_lines
from tests.unit.scripted_cluster import CONN_ID, HOST, ScriptedCluster
from tests.unit.search_cluster import connection, error, node_id, replied
from tests.unit.sensor_forms import made_again
from tests.unit.virtual_time import START, in_virtual_time

if TYPE_CHECKING:
    from tests.unit.conftest import Supervisor

DENIED = replied(error(401, "security_exception", "no such user"), 401)
DOWN = replied(error(503, "master_not_discovered_exception", "no master"), 503)
HOT, COOL = {"node-1": 97.0}, {"node-1": 5.0}


class Store:
    """An asset's state store, which keeps what JSON can carry."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.kept_at: list[float] = []
        self.failure: Exception | None = None

    async def aget(self, key: str, default: Any = None) -> Any:
        self._fail()
        return json.loads(self.values[key]) if key in self.values else default

    async def aset(self, key: str, value: Any) -> None:
        self._fail()
        assert value is not None
        self.values[key] = json.dumps(value)
        self.kept_at.append(asyncio.get_running_loop().time() - START)

    def _fail(self) -> None:
        if self.failure:
            raise self.failure


def watcher(store: Store | None = None, **arguments: Any) -> HighCpuTrigger:
    trigger: HighCpuTrigger = made_again(
        HighCpuTrigger(**{"cluster_conn_id": CONN_ID, "sustained_for": 0, "poll_interval": 10, **arguments})
    )
    if store:
        # As the triggerer of Airflow 3.3 does.
        trigger.asset_state_store = store  # type: ignore[assignment]
    return trigger


def watched(
    cluster: ScriptedCluster,
    trigger: HighCpuTrigger,
    script: Mapping[int, Any] | Mapping[float, Any],
    until: float,
) -> list[tuple[float, str]]:
    """
    Watch a cluster whose CPU or trouble changes at the moments of a script; give when which nodes were told of.

    The trigger is cancelled in the end, as the triggerer does.
    """
    told: list[tuple[float, str]] = []

    async def collect() -> None:
        loop = asyncio.get_running_loop()
        async with aclosing(trigger.run()) as events:  # type: ignore[type-var]
            async for event in events:
                payload = json.loads(json.dumps(event.payload))
                told.append((loop.time() - START, " ".join(node["name"] for node in payload["nodes"])))

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for at, change in script.items():
            loop.call_later(at, change if callable(change) else partial(cluster.cpu.update, change))
        task = loop.create_task(collect())
        await asyncio.sleep(until)
        assert not task.done(), "a watch never ends by itself"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(run())
    return told


def trouble(cluster: ScriptedCluster, what: Any) -> Any:
    def begin() -> None:
        cluster.trouble = what

    return begin


class TestEvents:
    def test_each_spike_is_one_event_and_its_end_is_logged(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, HighCpuTrigger)
        script = {5: HOT, 55: COOL, 75: HOT, 85: COOL}
        assert watched(cluster, watcher(), script, 120) == [(10, "node-1"), (80, "node-1")]
        assert (cluster.opened, cluster.closed) == (1, 1)
        assert lines.count(f"INFO: Cooled down: {node_id('node-1')}.") == 2

    def test_all_nodes_together(self, cluster: ScriptedCluster) -> None:
        script = {5: HOT, 25: {"node-2": 99.0}, 45: COOL, 65: HOT}
        told = watched(cluster, watcher(require="all"), script, 100)
        assert told == [(30, "node-2 node-1"), (70, "node-2 node-1")]

    def test_series_clears_where_it_is_told_to(self, cluster: ScriptedCluster) -> None:
        script = {5: HOT, 25: {"node-1": 60.0}, 45: HOT, 65: {"node-1": 49.0}, 85: HOT}
        told = watched(cluster, watcher(clear_below=50), script, 120)
        assert told == [(10, "node-1"), (90, "node-1")]

    def test_a_node_has_to_be_hot_for_long_enough(self, cluster: ScriptedCluster) -> None:
        script = {5: HOT, 12: COOL, 22: HOT, 37: {"node-2": 99.0}}
        told = watched(cluster, watcher(sustained_for=20, reading_interval=5), script, 100)
        # node-2 is hot for long enough however the other one's spike lies in between.
        assert told == [(45, "node-1"), (60, "node-2")]

    def test_the_payload_is_small_and_plain(self, cluster: ScriptedCluster) -> None:
        cluster.cpu = {f"node-{number:03}": 90.0 + number / 1000 for number in range(1000)}
        payloads: list[Any] = []

        async def run() -> None:
            events = watcher().run()
            payloads.append((await anext(events)).payload)
            await events.aclose()  # type: ignore[attr-defined]

        in_virtual_time(run())
        (payload,) = json.loads(json.dumps(payloads))
        assert payload.pop("at").endswith("+00:00")
        nodes = payload.pop("nodes")
        assert payload == {
            "node_count": 1000,
            "threshold": 85.0,
            "sustained_for": 0,
            "cluster_conn_id": CONN_ID,
        }
        assert 100 < len(nodes) < 1000
        assert len(json.dumps(payloads)) < 48_000
        assert nodes[0] == {
            "node_id": node_id("node-999"),
            "name": "node-999",
            "host": "node-999.example",
            "percent": 90.999,
            "source": "os",
        }


class TestFailures:
    @pytest.mark.long
    def test_no_failure_is_an_event(self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = log_lines(monkeypatch, HighCpuTrigger)
        script = {
            5: trouble(cluster, DOWN),
            95: trouble(cluster, DENIED),
            595: trouble(cluster, ZeroDivisionError("a slip")),
            1995: trouble(cluster, None),
            2000: HOT,
        }
        told = watched(cluster, watcher(), script, 3000)
        assert [names for _, names in told] == ["node-1"]
        assert 2000 <= told[0][0] <= 2300
        # Each change of state once: the wait, what failed for a time, for good, and unforeseen.
        assert [line.partition(":")[0] for line in lines] == ["INFO", "WARNING", "WARNING", "ERROR"]
        assert "no master" in lines[1]
        assert "no such user" in lines[2]
        assert "ZeroDivisionError: a slip" in lines[3]

    def test_a_failure_breaks_no_streak_and_ends_no_spike(self, cluster: ScriptedCluster) -> None:
        script = {0: HOT, 15: trouble(cluster, DOWN), 25: trouble(cluster, None)}
        told = watched(cluster, watcher(sustained_for=30, reading_interval=10), script, 60)
        assert told == [(30, "node-1")]
        script = {45: trouble(cluster, DOWN), 65: trouble(cluster, None)}
        assert watched(cluster, watcher(), script, 200) == [(0, "node-1")]

    def test_series_begins_when_the_connection_is_there(
        self, cluster: ScriptedCluster, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv(f"AIRFLOW_CONN_{CONN_ID.upper()}")
        lines = log_lines(monkeypatch, HighCpuTrigger)
        script = {0: HOT, 25: lambda: supervisor.connect(CONN_ID, connection(HOST))}
        assert watched(cluster, watcher(), script, 60) == [(30, "node-1")]
        assert len(lines) == 1
        assert f"no connection '{CONN_ID}'" in lines[0]

    def test_arguments_that_cannot_be_are_told_once_and_nothing_is_asked(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, HighCpuTrigger)
        trigger = HighCpuTrigger(threshold="much")  # type: ignore[arg-type]
        assert watched(cluster, trigger, {}, 100) == []
        assert cluster.asked == []
        assert len(lines) == 1
        assert "threshold is a number" in lines[0]


class TestRestart:
    def test_a_spike_that_lasts_is_not_told_again(self, cluster: ScriptedCluster) -> None:
        store = Store()
        assert watched(cluster, watcher(store), {5: HOT}, 60) == [(10, "node-1")]
        # When the event has had time to reach the database.
        assert store.kept_at == [20]
        assert watched(cluster, watcher(store), {25: COOL, 45: HOT}, 60) == [(50, "node-1")]

    def test_a_spike_at_which_the_cluster_falls_silent_is_not_told_again(self, cluster: ScriptedCluster) -> None:
        store = Store()
        silent = {5: HOT, 15: trouble(cluster, DOWN)}
        assert watched(cluster, watcher(store), silent, 60) == [(10, "node-1")]
        assert len(store.kept_at) == 1
        cluster.trouble = None
        assert watched(cluster, watcher(store), {}, 60) == []

    def test_a_triggerer_killed_before_tells_of_it_again(self, cluster: ScriptedCluster) -> None:
        store = Store()
        assert watched(cluster, watcher(store), {5: HOT}, 14) == [(10, "node-1")]
        assert watched(cluster, watcher(store), {}, 14) == [(0, "node-1")]

    def test_readings_do_not_wait_until_it_can_be_kept(self, cluster: ScriptedCluster) -> None:
        store = Store()
        script = {0: HOT, 1.5: {"node-2": 99.0}}
        told = watched(cluster, watcher(store, poll_interval=1), script, 20)
        assert told == [(0, "node-1"), (2, "node-2")]
        assert store.kept_at == [7]
        (kept,) = store.values.values()
        assert json.loads(kept) == [node_id("node-1"), node_id("node-2")]

    def test_another_watch_has_a_memory_of_its_own(self, cluster: ScriptedCluster) -> None:
        store = Store()
        watched(cluster, watcher(store), {0: HOT}, 60)
        assert watched(cluster, watcher(store, threshold=90), {}, 60) == [(0, "node-1")]
        assert watched(cluster, watcher(store, poll_interval=5), {}, 60) == []
        assert len(store.values) == 2
        assert all(key.isidentifier() and key.startswith("mediaops_high_cpu_") for key in store.values)

    @pytest.mark.parametrize("garbage", ["garbage", {"hot": 7}, [1], 0])
    def test_state_of_somebody_else_does_no_harm(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, garbage: object
    ) -> None:
        lines = log_lines(monkeypatch, HighCpuTrigger)
        store = Store()
        watched(cluster, watcher(store), {0: HOT}, 60)
        store.values = dict.fromkeys(store.values, json.dumps(garbage))
        lines.clear()
        assert watched(cluster, watcher(store), {}, 60) == [(0, "node-1")]
        assert len(lines) == 1
        assert lines[0].endswith("ValueError: What was kept is no list of nodes.")

    def test_a_store_that_fails_costs_the_memory_only(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, HighCpuTrigger)
        store = Store()
        store.failure = ValueError("Task has 2 concrete inlets and outlets")
        script = {5: HOT, 25: COOL, 45: HOT, 61: lambda: setattr(store, "failure", None), 65: COOL}
        assert watched(cluster, watcher(store), script, 100) == [(10, "node-1"), (50, "node-1")]
        failures = [line for line in lines if "state store failed" in line]
        assert len(failures) == 1
        assert failures[0].endswith("ValueError: Task has 2 concrete inlets and outlets")
        assert store.kept_at == [80]
