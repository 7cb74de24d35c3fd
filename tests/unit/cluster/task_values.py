"""Tasks of hot nodes as captures hold them: two groups, one thread of each kind, two indices."""

from __future__ import annotations

from typing import Any

from airflow_provider_mediaops.cluster.running_tasks.model import (
    IndexWork,
    LikelyGroup,
    NodeTasks,
    PoolLoad,
    RunningTasks,
    TaskGroup,
)
from tests.unit.hot_threads_text import ATTACKS

REPORT = TaskGroup(
    action="indices:data/read/search",
    opaque_id="report:nightly-margin",
    index="orders-2026",
    shape='{"aggs":{"tags":{"terms":{"field":?,"size":?}}},"size":?}',
    seen="both",
    requests=1,
    read_requests=1,
    running=1,
    queued=0,
    longest_ms=4_029.5,
    cpu_ms=464.2,
    cpu_share_percent=49.3,
    pool="search",
)
BULK = TaskGroup(
    action="indices:data/write/bulk",
    index="ingest-target",
    seen="start",
    requests=12,
    running=2,
    queued=9,
    longest_ms=48.7,
    pool="write",
)
NODE = NodeTasks(
    node_id="id_of_n1",
    node="n1",
    looks_ms=(1.0, 101.0, 502.0, 561.0),
    listed_at_start=14,
    listed_at_end=3,
    pools=(PoolLoad(pool="search", active=4, queue=9), PoolLoad(pool="write", active=1, rejected=1_204)),
    groups=(REPORT, BULK),
    groups_left_out=3,
    threads=(
        LikelyGroup(thread="opensearch[n1][search][T#1]", cpu_ms=465.6, group=0, error_ms=1.4),
        LikelyGroup(thread="opensearch[n1][search][T#2]", cpu_ms=476.2, why_not="two tasks used as much"),
    ),
    unexplained_percent=50.7,
    indices=(
        IndexWork(index="orders-2026", query_ms=263.0),
        IndexWork(index="ingest-target", index_ms=404.0, merge_ms=90.0, merges=2),
    ),
    remarks=("The reply had more tasks than are read: 2,000 of 9,311 are counted.",),
)
TASKS = RunningTasks(nodes=(NODE,), remarks=("The shard statistics were refused.",))


def hostile_tasks(size: int = 0) -> RunningTasks:
    """Return tasks with an attack in each text."""
    attacks = tuple(attack + "x" * size for attack in ATTACKS)
    return RunningTasks(nodes=tuple(map(_node_of, attacks)), remarks=attacks)


def _node_of(text: str) -> NodeTasks:
    names: dict[str, Any] = dict.fromkeys(("action", "opaque_id", "index", "shape", "query", "pool"), text)
    return NodeTasks(
        node_id=text,
        node=text,
        looks_ms=(0.0,),
        pools=(PoolLoad(pool=text, active=1),),
        groups=(TaskGroup(**names, cpu_ms=1.0, cpu_share_percent=1.0),),
        threads=(LikelyGroup(thread=text, cpu_ms=1.0, group=0, error_ms=0.1), LikelyGroup(thread=text, why_not=text)),
        unexplained_percent=2.0,
        indices=(IndexWork(index=text, merges=1),),
        remarks=(text,),
    )
