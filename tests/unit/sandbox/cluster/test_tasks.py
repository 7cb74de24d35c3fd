"""The sandbox's running tasks: what a capture reads of them goes with the hot threads of the same node."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.running_tasks.replies import shard_times, single_task, task_list, thread_pools
from airflow_provider_mediaops.http.exchange import Response
from airflow_provider_mediaops.sandbox.cluster_nodes import NODES, CpuPin
from tests.unit.sandbox.credentials import OPERATOR

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Call
    from tests.unit.sandbox.conftest import Sandbox

NODE = NODES[1].id


async def ask(sandbox: Sandbox, call: Call[Any]) -> Any:
    """Make a call of the provider's at the sandbox."""
    request = dataclasses.replace(call.request, base="/cluster")
    reply = await sandbox.get(request.url, auth=OPERATOR)
    return call.parse(Response(reply.status_code, {}, reply.content)) if reply.status_code == 200 else reply.json()


async def test_a_search_uses_the_cpu_of_the_hottest_thread(sandbox: Sandbox) -> None:
    sandbox.state.cluster.pin(CpuPin(node=None, percent=80))
    first = await ask(sandbox, task_list([NODE]))
    sandbox.clock.seconds += 0.5
    second = await ask(sandbox, task_list([NODE]))
    search, bulk = first.tasks
    assert (search.node_id, search.index, search.opaque_id) == (NODE, "sandbox-events", "report:nightly-margin")
    assert (bulk.kind, bulk.opaque_id) == ("indices:data/write/bulk", "logstash:ingest-1")
    assert second.tasks[0].cpu_ms - search.cpu_ms == pytest.approx(400.0, abs=0.1)
    report = (await sandbox.get(f"/cluster/_nodes/{NODE}/hot_threads", auth=OPERATOR)).text
    assert "80.0% (400ms out of 500ms) cpu usage by thread 'opensearch[sandbox-2][search][T#5]'" in report


async def test_the_query_is_that_of_the_task_that_started_it(sandbox: Sandbox) -> None:
    (search, _) = (await ask(sandbox, task_list([NODE]))).tasks
    parent = await ask(sandbox, single_task(search.parent_id))
    assert (parent.expression, "ann@example.com" in parent.description) == ("sandbox-events", True)
    gone = await ask(sandbox, single_task(f"{NODE}:5"))
    assert (gone["status"], gone["error"]["type"]) == (404, "resource_not_found_exception")


async def test_pools_and_indices_work(sandbox: Sandbox) -> None:
    assert {pool.pool for pool in (await ask(sandbox, thread_pools([NODE])))[NODE]} == {"search", "write"}
    before = (await ask(sandbox, shard_times([NODE])))[NODE]["sandbox-events"]
    sandbox.clock.seconds += 1
    after = (await ask(sandbox, shard_times([NODE])))[NODE]["sandbox-events"]
    assert after.query_ms - before.query_ms == 1_000.0
