"""Triggers leave the event loop free: each in a process of its own, from its first import to its event."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sandbox.faults import StatusFault
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
from tests.contract.loop_watch import SECONDS
from tests.contract.tasks import DEFERRING, OPERATORS, SENSORS, name_of
from tests.contract.waiting_triggers import made
from tests.unit.loopback import Loopback, answering, make_certificate
from tests.unit.search_cluster import connection, http, replied, stats

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.triggers.base import BaseTrigger

    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.contract.tasks import Task

pytestmark = pytest.mark.long


def watched(trigger: BaseTrigger) -> Any:
    """Run a trigger in a process of its own; return what its event loop was blocked by, its event and its modules."""
    classpath, arguments = trigger.serialize()
    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.loop_watch", classpath],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("task", [*SENSORS, *DEFERRING], ids=name_of)
def test_a_trigger_blocks_the_loop_with_nothing(task: Task, tmp_path: Path) -> None:
    found = watched(made(task, tmp_path))
    assert found["payload"]["status"] == "done", found["payload"]
    assert found["steps"] == []


def test_nor_does_an_export_that_waits_for_longer_than_a_call(
    sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (export,) = (task for task in OPERATORS if task.kind is ExportSubscriptionsOperator)
    variable = "AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"
    patient = json.loads(os.environ[variable])
    monkeypatch.setenv(variable, json.dumps({**patient, "extra": {**patient["extra"], "max_wait": 0.5}}))
    sandbox.state.faults.arm(StatusFault(service="video", status=429, retry_after=1, after=1))
    found = watched(made(export, tmp_path))
    assert [request.status for request in sandbox.state.requests] == [200, 429, 200, 200]
    assert found["payload"]["status"] == "done", found["payload"]
    assert found["steps"] == []


@pytest.mark.usefixtures("sandbox")
def test_nor_does_one_that_starts_dags() -> None:
    found = watched(HighCpuTrigger(cluster_conn_id="mediaops_cluster_default", threshold=1, sustained_for=0))
    assert found["payload"]["nodes"]
    assert found["steps"] == []


def test_nor_do_certificates_that_the_connection_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    with Loopback(answering(http(replied(stats({"node-1": 99})))), certificate) as server:
        monkeypatch.setenv("AIRFLOW_CONN_SECURED", connection(server.base, ca_cert=str(certificate)))
        found = watched(HighCpuTrigger(cluster_conn_id="secured", sustained_for=0))
    assert found["payload"]["nodes"]
    assert found["steps"] == []


def test_the_watch_hears_what_blocks(tmp_path: Path) -> None:
    """Else the tests above would prove nothing."""
    script = (
        "import asyncio, ssl, sys, time\n"
        "from tests.contract import loop_watch\n"
        "loop_watch.PROVIDER = '__main__'\n"
        "watch = loop_watch.Watch()\n"
        "async def block():\n"
        "    watch.begin()\n"
        f"    open({str(tmp_path / 'file')!r}, 'w').close()\n"
        "    import tabnanny\n"
        "    time.sleep(0)\n"
        "    ssl.create_default_context()\n"
        "    watch.end()\n"
        "asyncio.run(block())\n"
        "print('\\n'.join(watch.steps))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS, check=True)
    for step in (f"open {tmp_path / 'file'}", "import tabnanny", "sleep", "SSLContext.load_default_certs"):
        assert f"{step} at " in done.stdout
