"""The provider's metrics as they arrive at a StatsD server and at a collector of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract import fresh_python
from tests.contract.metric_servers import collector, statsd
from tests.unit.loopback import Loopback, answering
from tests.unit.search_cluster import connection as cluster_connection
from tests.unit.search_cluster import http, replied, stats
from tests.unit.video_platform import connection as video_connection
from tests.unit.video_platform import page_reply

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from tests.contract.metric_servers import Received

    Server: TypeAlias = Callable[[], AbstractContextManager[Received]]

pytestmark = pytest.mark.long

# A task process ends with what Python does at its exit; from 3.2 on, Airflow exports the rest then.
FLUSH = "from opentelemetry import metrics\ngetattr(metrics.get_meter_provider(), 'force_flush', bool)()\n"
IN_A_WORKER = """
from airflow.sdk.execution_time import task_runner
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
result = ExportSubscriptionsOperator(task_id="export", destination={path!r}, mine=True).execute({{}})["rows"]
"""
IN_A_TRIGGERER = """
import asyncio
from airflow.jobs import triggerer_job_runner
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
async def first():
    events = HighCpuTrigger(cluster_conn_id="cluster", threshold=80, sustained_for=0).run()
    event = await anext(events)
    await events.aclose()
    return len(event.payload)
result = asyncio.run(first()) > 0
"""


@pytest.mark.parametrize("server", [statsd, collector])
def test_operator_in_a_worker_sends_its_requests_pages_and_rows(server: Server, tmp_path: Path) -> None:
    script = IN_A_WORKER.format(path=str(tmp_path / "subs.jsonl")) + FLUSH
    replies = [http(page_reply(1, 2, token="T2")), http(page_reply(3))]
    with Loopback(answering(*replies)) as platform, server() as received:
        env = {**received.env, "AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT": video_connection(platform.base)}
        assert fresh_python.result_of(script, env=env) == 3
    assert received.ours() == {
        "video.requests.subscriptions.ok": 2,
        "video.export.pages": 2,
        "video.export.rows": 3,
    }


def test_trigger_sends_its_requests_and_spikes() -> None:
    hot = http(replied(stats({"node-1": 95})))
    with Loopback(answering(hot)) as cluster, statsd() as received:
        env = {**received.env, "AIRFLOW_CONN_CLUSTER": cluster_connection(cluster.base)}
        assert fresh_python.result_of(IN_A_TRIGGERER, env=env)
    ours = received.ours()
    # Another reading may have begun before the trigger was closed.
    assert ours.pop("cluster.requests.cpu.ok") >= 1
    assert ours == {"cluster.spikes": 1}


def test_server_that_cannot_be_reached_fails_no_task(tmp_path: Path) -> None:
    script = IN_A_WORKER.format(path=str(tmp_path / "subs.jsonl"))
    with Loopback(answering(http(page_reply(1)))) as platform:
        env = {"AIRFLOW__METRICS__STATSD_ON": "True", "AIRFLOW__METRICS__STATSD_HOST": "no-such-host.invalid"}
        env["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"] = video_connection(platform.base)
        assert fresh_python.result_of(script, env=env) == 1
