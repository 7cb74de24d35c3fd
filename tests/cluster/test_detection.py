"""The capture at detection on a real cluster: the same in the worker and in the triggerer."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.triggers.hot_threads import CaptureHotThreadsTrigger
from tests.cluster.proxy import running_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.nodes import Cluster
    from tests.cluster.proxy import Proxy

# A machine that does other things beside the load leaves the nodes less than they would take.
BUSY = 5.0


@pytest.fixture
def proxy(opensearch: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What the cluster is asked goes through it, and is kept."""
    with running_proxy(opensearch.url) as running:
        fields = {"conn_type": "mediaops_cluster", "host": running.url, "extra": {"auth": "none"}}
        monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", json.dumps(fields))
        yield running


def waiting(destination: Path, **arguments: Any) -> CaptureHotThreadsOperator:
    return CaptureHotThreadsOperator(
        task_id="capture",
        destination=str(destination),
        when_cpu_above=BUSY,
        sustained_for=1,
        poll_interval=0.5,
        wait_timeout=240,
        captures=2,
        every=0.5,
        interval="50ms",
        threads=5,
        cluster_conn_id="test_cluster",
        **arguments,
    )


def check(summary: dict[str, Any], proxy: Proxy, opensearch: Cluster, folder: Path) -> None:
    assert [len(capture["nodes"]) > 0 for capture in summary["captures"]] == [True, True]
    assert {node["node"] for node in summary["nodes"]} <= set(opensearch.node_names)
    assert summary["missing"] == summary["failures"] == []
    assert summary["timed_out"] is False
    for number in (1, 2):
        text = (folder / f"hot.{number}.txt").read_text()
        assert parse(text).render() == text
        assert not parse(text).unparsed
    assert "Hot threads" in (folder / "hot.html").read_text()
    # Nothing is asked between the reading that showed it and the report.
    first = next(number for number, target in enumerate(proxy.asked) if "hot_threads" in target)
    assert first >= 2
    assert all("/stats/" in target for target in proxy.asked[:first])


@pytest.mark.usefixtures("load")
class TestUnderLoad:
    def test_in_the_worker(self, opensearch: Cluster, proxy: Proxy, tmp_path: Path) -> None:
        summary = waiting(tmp_path / "hot.txt", deferrable=False).execute({})
        check(summary, proxy, opensearch, tmp_path)

    async def test_in_the_triggerer(self, opensearch: Cluster, proxy: Proxy, tmp_path: Path) -> None:
        from airflow.sdk.exceptions import TaskDeferred

        operator = waiting(tmp_path / "hot.txt", deferrable=True)
        with pytest.raises(TaskDeferred) as deferred:
            operator.execute({})
        _, arguments = deferred.value.trigger.serialize()
        trigger = CaptureHotThreadsTrigger(**{**arguments, "settled_after": 0.0})

        event = await asyncio.wait_for(anext(aiter(trigger.run())), 240)

        check(operator.execute_complete({}, event.payload), proxy, opensearch, tmp_path)
