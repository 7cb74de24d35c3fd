"""
Who was behind the hot threads, on real servers: requests, their queries, threads and indices under known load.

Only what holds however busy the machine is: a request that was under way from before a capture to after it is named; a
kind of work of which there is always a request is named, too.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from tests.cluster.capturing import capture_with_tasks
from tests.cluster.known_load import BUSY_NODE, aggregation, expressions
from tests.cluster.security import HOT_THREADS_ONLY, WITHOUT_TASKS, User
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.running_tasks.model import NodeTasks, TaskGroup
    from tests.cluster.known_load import KnownLoad
    from tests.cluster.nodes import Cluster

#: More searches at a time than a node has threads for: some of them are always in the queue.
STORM = 3 * (os.cpu_count() or 1) // 2 + 4
LONG_SECONDS = 2.0
PERMISSION = "cluster:monitor/tasks/lists"
NO_CPU = "the cluster did not say which nodes are hot"


class Taken(NamedTuple):
    """
    A capture of the busy node.

    :param outlasting: the X-Opaque-Ids of the requests that were under way from before it to after it.
    """

    node: NodeTasks
    outlasting: set[str]

    def groups(self, opaque_id: str) -> list[TaskGroup]:
        """Return the groups of a client."""
        return [group for group in self.node.groups if group.opaque_id == opaque_id]


def take(load: KnownLoad) -> Taken:
    """Capture the busy node."""
    before = time.monotonic()
    with SearchClusterHook("test_cluster") as hook:
        capture = capture_with_tasks(hook, BUSY_NODE, threads=8)
    outlasting = load.under_way(before)
    assert capture.running_tasks is not None
    [node] = capture.running_tasks.nodes
    return Taken(node, outlasting)


def take_during(load: KnownLoad, kind: str) -> Taken:
    """Capture the busy node while a request of a kind is under way, from before the capture to after it."""
    return wait_for(
        f"a capture that a request of {kind} outlasts",
        lambda: take(load),
        lambda taken: any(one.startswith(kind) for one in taken.outlasting),
        within=240,
    )


def check_match(taken: Taken) -> None:
    """Make sure that the one thread that is claimed has the CPU of the one search, and works on searches."""
    [thread] = [thread for thread in taken.node.threads if thread.group is not None]
    group = taken.node.groups[thread.group or 0]
    assert group.opaque_id in taken.outlasting
    assert "search" in (thread.thread or "")
    assert thread.cpu_ms
    assert thread.error_ms is not None
    assert group.cpu_ms == pytest.approx(thread.cpu_ms, abs=thread.error_ms + 0.2)
    assert taken.node.unexplained_percent is not None
    assert taken.node.unexplained_percent < 100


def check_nothing_is_claimed(taken: Taken) -> None:
    """Make sure that nothing is said about CPU and threads, which the server does not tell of a task."""
    assert all(thread.group is None for thread in taken.node.threads)
    assert all(group.cpu_ms is None for group in taken.node.groups)
    assert taken.node.unexplained_percent is None


@pytest.mark.kinds("has_known_load")
@pytest.mark.usefixtures("connection")
class TestKnownLoad:
    def test_long_requests_and_kinds_of_short_ones_are_named_in_every_capture(self, known: KnownLoad) -> None:
        long, medium, short = known.copies(LONG_SECONDS), known.clauses(0.3), known.clauses(0.05)
        works = [
            known.search("report", lambda: aggregation(long), own_ids=True),
            known.search("dashboard", lambda: expressions(medium), threads=2),
            known.search("autocomplete", lambda: expressions(short), threads=STORM),
            known.indexing("ingest", threads=2),
        ]
        names = [work.name for work in works]
        with known.doing(*works):
            known.wait_until_listed(names)
            for _ in range(3):
                taken = take_during(known, "report")

                named = {group.opaque_id for group in taken.node.groups}
                assert taken.outlasting <= named
                assert {"dashboard", "autocomplete", "ingest"} <= named
                for one in (one for one in taken.outlasting if one.startswith("report")):
                    [group] = taken.groups(one)
                    assert (group.action, group.index, group.pool) == (
                        "indices:data/read/search",
                        known.index,
                        "search",
                    )
                    assert group.shape is None or '"percentiles"' in group.shape
                    assert group.query is None
                [ingest, *_] = taken.groups("ingest")
                assert (ingest.action, ingest.index, ingest.pool) == ("indices:data/write/bulk", known.written, "write")

    def test_the_query_of_a_long_request_is_read_from_the_node_that_coordinates_it(self, known: KnownLoad) -> None:
        copies = known.copies(LONG_SECONDS)
        with known.doing(known.search("report", lambda: aggregation(copies))):
            known.wait_until_listed(["report"])
            # It is read if there is time for it before the report is there.
            taken = wait_for(
                "the query of a request",
                lambda: take(known),
                lambda found: any(group.shape for group in found.groups("report")),
                within=240,
            )
        [group] = taken.groups("report")
        assert '"percentiles"' in (group.shape or "")
        assert group.read_requests > 0
        assert group.query is None

    def test_the_thread_of_a_lone_search_is_its_own(self, known: KnownLoad, cluster: Cluster) -> None:
        assert cluster.kind is not None
        copies = known.copies(3 * LONG_SECONDS)
        with known.doing(known.search("report", lambda: aggregation(copies), own_ids=True)):
            known.wait_until_listed(["report"])
            if cluster.kind.is_elasticsearch:
                check_nothing_is_claimed(take_during(known, "report"))
                return
            # In the first capture of all, a server also compiles, in threads of its own.
            check_match(
                wait_for(
                    "a thread that is matched with a search",
                    lambda: take_during(known, "report"),
                    lambda found: any(thread.group is not None for thread in found.node.threads),
                    within=240,
                )
            )

    def test_a_merge_and_indexing_are_seen_through_the_shards(self, known: KnownLoad) -> None:
        def work_on_index() -> list[tuple[bool, bool]]:
            return [
                (index.index_ms > 0, index.merge_ms > 0 or index.merges > 0)
                for index in take(known).node.indices
                if index.index == known.written
            ]

        with known.doing(known.indexing("ingest"), known.merging()):
            known.wait_until_listed(["ingest"])
            wait_for("indexing and a merge", work_on_index, lambda seen: seen == [(True, True)], within=240)


@pytest.mark.kinds("secured")
class TestPrivileges:
    @pytest.mark.parametrize("refused", [(WITHOUT_TASKS, PERMISSION), (HOT_THREADS_ONLY, NO_CPU)])
    def test_a_user_who_may_list_no_tasks_is_told_why_once_and_captures(
        self,
        refused: tuple[User, str],
        cluster: Cluster,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        user, reason = refused
        monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", cluster.connection(user=user))
        summary = CaptureHotThreadsOperator(
            task_id="capture",
            destination=str(tmp_path / "hot.txt"),
            cluster_conn_id="test_cluster",
            nodes=BUSY_NODE,
            interval="50ms",
            captures=2,
            every=0.5,
            running_tasks=True,
        ).execute({})
        # It does not need the privilege for the statistics.
        assert (summary["cpu"] is None) is (user is HOT_THREADS_ONLY)
        assert "".join(capsys.readouterr()).count(reason) == 1
        for number in (1, 2):
            assert (tmp_path / f"hot.{number}.txt").read_text().startswith("::: {")
            tasks = json.loads((tmp_path / f"hot.{number}.json").read_bytes())["running_tasks"]
            assert not any(node["groups"] for node in tasks["nodes"])
            assert sum(reason in remark for remark in tasks["remarks"]) == 1
