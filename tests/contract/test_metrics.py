"""The provider's metrics as they arrive at a StatsD server, from a worker and from a triggerer."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract import fresh_python
from tests.unit.loopback import Loopback, answering
from tests.unit.search_cluster import connection as cluster_connection
from tests.unit.search_cluster import http, replied, stats
from tests.unit.video_platform import connection as video_connection
from tests.unit.video_platform import page_reply

pytestmark = pytest.mark.long

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
OURS = "airflow.mediaops."


@dataclass
class Received:
    """
    What a server has received.

    :param env: the variables by which Airflow sends to it.
    :param counts: the sum of each of our metrics, by its name without the prefix that Airflow adds.
    """

    env: dict[str, str]
    counts: Counter[str] = field(default_factory=Counter)


@contextmanager
def statsd() -> Iterator[Received]:
    """Listen as a StatsD server on a free port of this machine; what was sent until the end is read then."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        # Nobody reads while the other process runs: all of it has to fit.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(0)
        settings = {"ON": "True", "HOST": "127.0.0.1", "PORT": str(listener.getsockname()[1])}
        received = Received({f"AIRFLOW__METRICS__STATSD_{name}": value for name, value in settings.items()})
        try:
            yield received
        finally:
            try:
                while True:
                    name, value, _ = listener.recv(65_536).decode().replace("|", ":").split(":")[:3]
                    if name.startswith(OURS):
                        received.counts[name.removeprefix(OURS)] += int(value)
            except BlockingIOError:
                pass


def test_operator_in_a_worker_sends_its_requests_pages_and_rows(tmp_path: Path) -> None:
    script = IN_A_WORKER.format(path=str(tmp_path / "subs.jsonl"))
    replies = [http(page_reply(1, 2, token="T2")), http(page_reply(3))]
    with Loopback(answering(*replies)) as platform, statsd() as received:
        env = {**received.env, "AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT": video_connection(platform.base)}
        assert fresh_python.result_of(script, env=env) == 3
    assert received.counts == {
        "video.requests.subscriptions.ok": 2,
        "video.export.pages": 2,
        "video.export.rows": 3,
    }


def test_trigger_sends_its_requests_and_spikes() -> None:
    hot = http(replied(stats({"node-1": 95})))
    with Loopback(answering(hot)) as cluster, statsd() as received:
        env = {**received.env, "AIRFLOW_CONN_CLUSTER": cluster_connection(cluster.base)}
        assert fresh_python.result_of(IN_A_TRIGGERER, env=env)
    # Another reading may have begun before the trigger was closed.
    assert received.counts.pop("cluster.requests.cpu.ok") >= 1
    assert received.counts == {"cluster.spikes": 1}


def test_server_that_cannot_be_reached_fails_no_task(tmp_path: Path) -> None:
    script = IN_A_WORKER.format(path=str(tmp_path / "subs.jsonl"))
    with Loopback(answering(http(page_reply(1)))) as platform:
        env = {"AIRFLOW__METRICS__STATSD_ON": "True", "AIRFLOW__METRICS__STATSD_HOST": "no-such-host.invalid"}
        env["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"] = video_connection(platform.base)
        assert fresh_python.result_of(script, env=env) == 1
