"""
Who was behind the hot threads: which requests a capture names, how often its matches are right, and what it costs.

One node of a real cluster does searches of three lengths and bulk indexing at the same time, while it is captured. Each
length in turn has an X-Opaque-Id for each request, so that it is known which of them ran in the 500 ms of a report, and
which were named. A match is right if the thread's stacks are in the code that its search needs: long searches are in
aggregators, the others in automata. The cost is the time of each extra request under the same load; the delay is that
of a capture with running tasks against one without, by turns, median and 90 %. On those nodes, the lists compete with
the searches for the same processors, so the delay is measured against the sandbox as well, whose nodes are idle: that
is what the provider adds. Run by `make benchmarks BENCHMARKS=running_tasks`, or `python -m
tests.benchmarks.bench_running_tasks`; `--captures` and `--kinds` make it shorter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.sandbox.server import SandboxServer
from tests.benchmarks.fresh_process import environment, last_line_of
from tests.benchmarks.results import Row, record
from tests.cluster.kinds import KINDS
from tests.cluster.known_load import BUSY_NODE, aggregation, expressions, known_load
from tests.cluster.nodes import running_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.running_tasks.model import NodeTasks
    from tests.cluster.known_load import KnownLoad, Work
    from tests.cluster.nodes import Cluster

CAPTURES = 40
# It only ends what hangs.
SECONDS = 1_800
INTERVAL = 0.5
THREADS = 8
SETTLE_SECONDS = 6.0
#: Threads with less CPU are not counted as hot.
LEAST_MS = 10.0
#: Searches that are to outlast a capture are so many times longer than the longest others.
LASTING = 2
MOST_CLAUSES = 1_000
#: So many of the shortest searches are under way at a time.
STORM = 4
#: What the searches are to last, in seconds; and at most how many adjustments that takes.
LENGTHS = {"report": 0.9, "dashboard": 0.3, "autocomplete": 0.05}
ADJUSTMENTS = 4
_TASKS = f"/_tasks?detailed=true&nodes={BUSY_NODE}&actions=indices:data/*,indices:admin/*"
EXTRA = {
    "`_tasks?detailed` of the hot node": _TASKS,
    "thread pools": f"/_nodes/{BUSY_NODE}/stats/thread_pool",
    "statistics of shards": f"/_nodes/{BUSY_NODE}/stats/indices/search,indexing,merge?level=shards",
}
# In frames that only one of the two kinds of searches has. Stacks are taken right after the interval: a thread may have
# begun another search in the meantime, so the kind that most frames are of counts.
_AGGREGATING, _EXPRESSIONS = "aggregations.", "utomaton"


@dataclass
class Found:
    """What was found on one kind of server."""

    named_seconds: dict[str, float] = field(default_factory=dict)
    all_seconds: dict[str, float] = field(default_factory=dict)
    lasted: dict[str, float] = field(default_factory=dict)
    spanning: dict[str, int] = field(default_factory=dict)
    spanning_named: dict[str, int] = field(default_factory=dict)
    kind_named: dict[str, int] = field(default_factory=dict)
    captures: dict[str, int] = field(default_factory=dict)
    looks: list[int] = field(default_factory=list)
    hot_searches: int = 0
    claimed: int = 0
    right: int = 0
    unsure: int = 0
    errors: list[float] = field(default_factory=list)
    unexplained: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    without: list[float] = field(default_factory=list)
    cost: dict[str, list[float]] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)


def main() -> None:
    """Measure each kind of server, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=int, default=CAPTURES)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kinds", nargs="*", help="names such as opensearch-2.19; default: those of the tests")
    arguments = parser.parse_args()
    if arguments.alone:
        sys.stdout.write(f"\n{json.dumps(measure_delay(arguments.captures))}\n")
        return
    wanted = [
        kind for kind in KINDS if (str(kind) in (arguments.kinds or ()) if arguments.kinds else kind.has_known_load)
    ]
    results: dict[str, Found] = {}
    _say(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}")
    for kind in wanted:
        with running_cluster(kind) as cluster, known_load(cluster) as load:
            os.environ["AIRFLOW_CONN_TEST_CLUSTER"] = cluster.connection()
            version = cluster.get("/_nodes").json()["nodes"].popitem()[1]["version"]
            results[f"{kind.product.capitalize()} {version}"] = measure(load, cluster, arguments.captures)
        _say(f"{kind} done, load average {os.getloadavg()[0]:.1f}")
    for table in tables(results):
        sys.stdout.write(f"{table}\n\n")
    idle = delay_at_sandbox(arguments.captures)
    sys.stdout.write(f"Nodes that are idle: the capture takes longer by {idle[0]:.1f} / {idle[1]:.1f} ms\n")
    rows = [row for name, found in results.items() for row in rows_of(name, found)]
    record("running_tasks", [*rows, _longer("idle nodes", idle[0], idle[2])])


def delay_at_sandbox(captures: int) -> tuple[float, float, float]:
    """Measure in a process beside that of the sandbox; see :func:`measure_delay`."""
    with tempfile.TemporaryDirectory() as folder, SandboxServer() as server:
        line = last_line_of(
            ["-m", "tests.benchmarks.bench_running_tasks", "--alone", "--captures", captures],
            environment(folder, **server.connections()),
            seconds=SECONDS,
        )
    median, ninety, without = json.loads(line)
    return median, ninety, without


def measure_delay(captures: int) -> tuple[float, float, float]:
    """
    Capture by turns without tasks and with them.

    :param captures: how many of both.
    :returns: the median of the differences, their 90 %, and the median without tasks, in milliseconds.
    """

    def seconds(*, running_tasks: bool) -> float:
        begun = time.monotonic()
        hook.capture(running_tasks=running_tasks)
        return time.monotonic() - begun

    with SearchClusterHook() as hook:
        # What is imported and opened once.
        seconds(running_tasks=True)
        pairs = [(seconds(running_tasks=False), seconds(running_tasks=True)) for _ in range(captures)]
    delays, without = [after - before for before, after in pairs], [before for before, _ in pairs]
    return 1_000 * statistics.median(delays), 1_000 * p90(delays), 1_000 * statistics.median(without)


def rows_of(server: str, found: Found) -> Iterator[Row]:
    """Yield what is on the page about performance; the tables above say more."""
    for kind, named in found.named_seconds.items():
        length = f"{found.lasted[kind]:.2f} s"
        of_all = 100 * named / found.all_seconds[kind]
        yield Row(f"{server}: time of requests of {length} (`{kind}`) that a capture names", "%", of_all)
    if sure := found.claimed - found.unsure:
        yield Row(f"{server}: threads whose likely request is the right one", "%", 100 * found.right / sure)
    delay, without = 1_000 * statistics.median(found.delays), 1_000 * statistics.median(found.without)
    yield _longer(f"{server}, busy with searches", delay, without)


def _longer(where: str, delay: float, without: float) -> Row:
    return Row(f"{where}: capture with running tasks, median", "ms", without + delay, "without them", without)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def measure(load: KnownLoad, cluster: Cluster, captures: int) -> Found:
    """Measure one kind of server."""
    found = Found()
    parts = settled(load)
    with SearchClusterHook("test_cluster") as hook:
        for length in LENGTHS:
            with load.doing(*works(load, parts, own_ids=length)):
                load.wait_until_listed(list(LENGTHS))
                taken = [take(hook, found) for _ in range(captures)]
            count_named(load, length, taken, found)
        # Two kinds of searches that outlast most captures, each with stacks of its own.
        with load.doing(*lasting(load, parts)):
            load.wait_until_listed(["report", "filter"])
            for _ in range(captures):
                count_matches(take(hook, found), found)
        with load.doing(*works(load, parts)):
            load.wait_until_listed(list(LENGTHS))
            measure_cost(cluster, found, captures)
    return found


def works(load: KnownLoad, parts: dict[str, int], *, own_ids: str = "") -> Iterator[Work]:
    """Yield the kinds of work; one of them has an X-Opaque-Id for each request."""
    for name, number in parts.items():
        make = partial(aggregation if name == "report" else expressions, number)
        yield load.search(name, make, threads=STORM if name == "autocomplete" else 1, own_ids=name == own_ids)
    yield load.indexing("ingest")


def lasting(load: KnownLoad, parts: dict[str, int]) -> Iterator[Work]:
    """Yield long searches of two kinds, two of each at a time."""
    yield load.search("report", partial(aggregation, LASTING * parts["report"]), threads=2)
    yield load.search("filter", partial(expressions, min(MOST_CLAUSES, 3 * LASTING * parts["dashboard"])), threads=2)


def settled(load: KnownLoad) -> dict[str, int]:
    """Return the sizes of searches that last as long as they are to while all others are under way."""
    parts = {
        name: (load.copies if name == "report" else load.clauses)(seconds / 3) for name, seconds in LENGTHS.items()
    }
    for _ in range(ADJUSTMENTS):
        load.sent.clear()
        with load.doing(*works(load, parts)):
            time.sleep(SETTLE_SECONDS)
        for name, seconds in LENGTHS.items():
            lasted = median_of(load, name)
            parts[name] = max(1, min(1_000, round(parts[name] * seconds / lasted)))
    return parts


def median_of(load: KnownLoad, name: str) -> float:
    """Return how long the requests of a kind lasted."""
    return statistics.median(one.ended - one.started for one in load.sent if one.kind == name)


def take(hook: SearchClusterHook, found: Found) -> Capture:
    """Capture the busy node without its tasks and with them, either first by turns; return the one with them."""
    seconds, captures = {}, {}
    # The load changes with each capture: the same one first each time would look faster, or slower.
    for running_tasks in (False, True) if len(found.delays) % 2 else (True, False):
        begun = time.monotonic()
        captures[running_tasks] = hook.capture(BUSY_NODE, running_tasks=running_tasks, threads=THREADS)
        # The report is parsed in both.
        assert captures[running_tasks].report.understood
        seconds[running_tasks] = time.monotonic() - begun
    found.delays.append(seconds[True] - seconds[False])
    found.without.append(seconds[False])
    return captures[True]


def node_of(capture: Capture) -> NodeTasks:
    """Return what is known of the busy node."""
    assert capture.running_tasks is not None
    [node] = capture.running_tasks.nodes
    return node


def count_named(load: KnownLoad, kind: str, taken: Sequence[Capture], found: Found) -> None:
    """Count the time of requests within the intervals, and how much of it is that of named ones."""
    named_seconds = all_seconds = 0.0
    found.kind_named[kind] = found.spanning[kind] = found.spanning_named[kind] = 0
    # The node writes the time at which it begins to measure, by the clock of this machine.
    offset = time.time() - time.monotonic()
    for capture in taken:
        node = node_of(capture)
        found.looks.append(len(node.looks_ms))
        named = {group.opaque_id for group in node.groups}
        found.kind_named[kind] += any((one or "").startswith(kind) for one in named)
        assert capture.report.taken
        start = capture.report.taken.timestamp() - offset
        for one in load.sent:
            if one.kind == kind:
                within = max(0.0, min(one.ended, start + INTERVAL) - max(one.started, start))
                all_seconds += within
                is_spanning = within >= INTERVAL
                found.spanning[kind] += is_spanning
                found.spanning_named[kind] += is_spanning and one.opaque_id in named
                named_seconds += within * (one.opaque_id in named)
    found.named_seconds[kind], found.all_seconds[kind] = named_seconds, all_seconds
    found.captures[kind] = len(taken)
    found.lasted[kind] = median_of(load, kind)


def count_matches(capture: Capture, found: Found) -> None:
    """Count the threads that a search is claimed for, and those of them whose stacks are in its code."""
    node = node_of(capture)
    stacks = {
        thread.name: " ".join(frame for group in thread.groups for frame in group.frames)
        for one in capture.report.nodes
        for thread in one.threads
    }
    if node.unexplained_percent is not None:
        found.unexplained.append(node.unexplained_percent)
    for thread in node.threads:
        found.hot_searches += "[search]" in (thread.thread or "") and (thread.cpu_ms or 0) >= LEAST_MS
        if thread.group is None:
            continue
        found.claimed += 1
        found.errors.append(thread.error_ms or 0.0)
        kind = (node.groups[thread.group].opaque_id or "").partition("#")[0]
        text = stacks.get(thread.thread, "")
        aggregates, matches = text.count(_AGGREGATING), text.count(_EXPRESSIONS)
        if aggregates == matches:
            found.unsure += 1
        else:
            found.right += (kind == "report") == (aggregates > matches)


def measure_cost(cluster: Cluster, found: Found, rounds: int) -> None:
    """Measure how long each extra request takes under the load."""
    with cluster.session() as session:
        for name, path in EXTRA.items():
            times = []
            for _ in range(rounds):
                started = time.monotonic()
                reply = session.get(f"{cluster.url}{path}", timeout=60)
                times.append(1_000 * (time.monotonic() - started))
                reply.raise_for_status()
                time.sleep(0.1)
            found.cost[name], found.bytes[name] = times, len(reply.content)


def p90(values: Sequence[float]) -> float:
    """Return the value that nine of ten do not exceed."""
    return sorted(values)[int(0.9 * (len(values) - 1))]


def tables(results: dict[str, Found]) -> Iterator[str]:
    """Yield the tables of the documentation."""
    head = "| | " + " | ".join(results) + " |\n|---|" + "---|" * len(results)
    rows = []
    for kind in LENGTHS:
        cells = [
            f"{100 * one.named_seconds[kind] / one.all_seconds[kind]:.0f} % of the time of requests of "
            f"{one.lasted[kind]:.2f} s; {one.spanning_named[kind]} of {one.spanning[kind]} that lasted all of it; the "
            f"kind in {one.kind_named[kind]} of {one.captures[kind]}"
            for one in results.values()
        ]
        rows.append(f"| `{kind}` | " + " | ".join(cells) + " |")
    cells = [f"{statistics.median(one.looks):.0f} ({min(one.looks)}-{max(one.looks)})" for one in results.values()]
    rows.append("| looks, median (range) | " + " | ".join(cells) + " |")
    cells = [
        f"{one.claimed} of {one.hot_searches}; right {one.right} of {one.claimed - one.unsure}; difference "
        f"{statistics.median(one.errors):.1f} / {p90(one.errors):.1f} ms"
        if one.claimed
        else "none"
        for one in results.values()
    ]
    rows.append("| hot threads with a likely request | " + " | ".join(cells) + " |")
    cells = [f"{statistics.median(one.unexplained):.0f} %" if one.unexplained else "-" for one in results.values()]
    rows.append("| not explained, median | " + " | ".join(cells) + " |")
    yield "\n".join([head, *rows])
    rows = []
    for name in EXTRA:
        cells = [
            f"{statistics.median(one.cost[name]):.0f} / {p90(one.cost[name]):.0f} ms, {one.bytes[name] / 1000:.0f} kB"
            for one in results.values()
        ]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    cells = [
        f"{1_000 * statistics.median(one.delays):+.0f} / {1_000 * p90(one.delays):+.0f} ms (of "
        f"{1_000 * statistics.median(one.without):.0f} ms)"
        for one in results.values()
    ]
    rows.append("| the capture takes longer by | " + " | ".join(cells) + " |")
    yield "\n".join([head, *rows])


if __name__ == "__main__":
    main()
