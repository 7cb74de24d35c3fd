"""The text of a hot-threads report, in the form that OpenSearch 1 to 3 write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.sandbox.cluster.nodes import Node

Stack = tuple[str, ...]

_NANOS = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "micros": 1_000,
    "nanos": 1,
}


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a request asks to be sampled (cluster specification, section 4).

    :param interval: nanoseconds between the samplings.
    :param snapshots: samples of each thread's stack.
    :param threads: threads to report a node.
    :param ignore_idle: whether idle threads are left out.
    :param type: what is measured; waiting and blocking are reported as zero, as OpenSearch does.
    """

    interval: int
    snapshots: int
    threads: int
    ignore_idle: bool
    type: Literal["block", "cpu", "wait"]

    @property
    def seconds(self) -> float:
        """How long the sampling takes."""
        return self.interval / _NANOS["s"] + self.snapshots * 0.01


@dataclass(frozen=True, slots=True)
class _Thread:
    """A thread that may be hot.

    :param name: its name, with a place for the node's.
    :param share: its part of the node's CPU, in thousandths.
    :param seen: stacks, the running method first, each with the part of snapshots that show it, in tenths.
    """

    name: str
    share: int
    seen: tuple[tuple[int, Stack], ...]


_POOL: Stack = (
    "app//org.opensearch.common.util.concurrent.ThreadContext$ContextPreservingAbstractRunnable.doRun(ThreadContext.java:955)",
    "app//org.opensearch.common.util.concurrent.AbstractRunnable.run(AbstractRunnable.java:52)",
    "java.base@21.0.5/java.util.concurrent.ThreadPoolExecutor.runWorker(ThreadPoolExecutor.java:1144)",
    "java.base@21.0.5/java.util.concurrent.ThreadPoolExecutor$Worker.run(ThreadPoolExecutor.java:642)",
    "java.base@21.0.5/java.lang.Thread.runWith(Thread.java:1596)",
    "java.base@21.0.5/java.lang.Thread.run(Thread.java:1583)",
)
_SEARCH: Stack = (
    "app//org.apache.lucene.search.Weight$DefaultBulkScorer.scoreAll(Weight.java:306)",
    "app//org.apache.lucene.search.Weight$DefaultBulkScorer.score(Weight.java:245)",
    "app//org.opensearch.search.internal.ContextIndexSearcher.searchLeaf(ContextIndexSearcher.java:360)",
    "app//org.opensearch.search.internal.ContextIndexSearcher.search(ContextIndexSearcher.java:303)",
    "app//org.opensearch.search.query.QueryPhase.executeInternal(QueryPhase.java:282)",
    "app//org.opensearch.search.query.QueryPhase.execute(QueryPhase.java:155)",
    "app//org.opensearch.search.SearchService.loadOrExecuteQueryPhase(SearchService.java:622)",
    "app//org.opensearch.search.SearchService$$Lambda$6021/0x00007f2a1c9d4b20.get(Unknown Source)",
    "app//org.opensearch.action.ActionRunnable$2.doRun(ActionRunnable.java:104)",
    *_POOL,
)
_WRITE: Stack = (
    "app//org.opensearch.index.engine.InternalEngine.indexIntoLucene(InternalEngine.java:1168)",
    "app//org.opensearch.index.engine.InternalEngine.index(InternalEngine.java:1005)",
    "app//org.opensearch.index.shard.IndexShard.applyIndexOperation(IndexShard.java:1030)",
    "app//org.opensearch.action.bulk.TransportShardBulkAction$2.doRun(TransportShardBulkAction.java:468)",
    *_POOL,
)
_MERGE: Stack = (
    "app//org.apache.lucene.index.SegmentMerger.merge(SegmentMerger.java:142)",
    "app//org.apache.lucene.index.IndexWriter.mergeMiddle(IndexWriter.java:5293)",
    "app//org.apache.lucene.index.ConcurrentMergeScheduler.doMerge(ConcurrentMergeScheduler.java:700)",
    "app//org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run(ConcurrentMergeScheduler.java:721)",
)
_TAKE: Stack = (
    "java.base@21.0.5/jdk.internal.misc.Unsafe.park(Native Method)",
    "java.base@21.0.5/java.util.concurrent.locks.LockSupport.park(LockSupport.java:371)",
    "java.base@21.0.5/java.util.concurrent.LinkedTransferQueue.take(LinkedTransferQueue.java:1217)",
    "java.base@21.0.5/java.util.concurrent.ThreadPoolExecutor.getTask(ThreadPoolExecutor.java:1070)",
    *_POOL[2:],
)
_SELECT: Stack = (
    "java.base@21.0.5/sun.nio.ch.EPoll.wait(Native Method)",
    "java.base@21.0.5/sun.nio.ch.EPollSelectorImpl.doSelect(EPollSelectorImpl.java:121)",
    "app//io.netty.channel.nio.NioEventLoop.select(NioEventLoop.java:883)",
    "app//io.netty.channel.nio.NioEventLoop.run(NioEventLoop.java:526)",
    "java.base@21.0.5/java.lang.Thread.run(Thread.java:1583)",
)

_BUSY = (
    _Thread(
        "opensearch[{node}][search][T#5]",
        share=1_000,
        seen=(
            (6, ("app//org.apache.lucene.util.automaton.RunAutomaton.step(RunAutomaton.java:189)", *_SEARCH)),
            (3, ("app//org.apache.lucene.codecs.lucene912.ForUtil.decode(ForUtil.java:251)", *_SEARCH)),
            (1, _SEARCH[3:]),
        ),
    ),
    _Thread(
        "opensearch[{node}][write][T#2]",
        share=430,
        # The first snapshot's stack is met once, so the others join it by what they have in common.
        seen=(
            (1, ("app//org.apache.lucene.index.TermsHashPerField.add(TermsHashPerField.java:210)", *_WRITE)),
            (9, ("app//org.apache.lucene.index.IndexingChain.processField(IndexingChain.java:742)", *_WRITE)),
        ),
    ),
    _Thread(
        "opensearch[{node}][[sandbox-events][0]: Lucene Merge Thread #7]",
        share=180,
        seen=(
            (5, ("app//org.apache.lucene.util.packed.DirectReader.getInstance(DirectReader.java:73)", *_MERGE)),
            (3, ("app//org.apache.lucene.codecs.DocValuesConsumer.merge(DocValuesConsumer.java:140)", *_MERGE)),
            (2, ("app//org.apache.lucene.store.RateLimitedIndexOutput.writeByte(Unknown Source)", *_MERGE)),
        ),
    ),
    _Thread("opensearch[{node}][refresh][T#1]", share=41, seen=((10, _WRITE[2:]),)),
    _Thread("opensearch[{node}][clusterManagerService#updateTask][T#1]", share=7, seen=((2, _POOL), (8, _TAKE))),
)
_IDLE = (
    _Thread("opensearch[{node}][transport_worker][T#1]", share=0, seen=((10, _SELECT),)),
    _Thread("opensearch[{node}][generic][T#3]", share=0, seen=((10, _TAKE),)),
)


def nanoseconds(text: str) -> int | None:
    """Read a time as the cluster takes it: a whole number and a unit.

    :param text: such as ``500ms``.
    :returns: nanoseconds; None where it is no such time.
    """
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = _NANOS.get(text[len(number) :])
    return int(number) * unit if unit and number.isascii() and number.isdigit() else None


def time_text(nanos: int) -> str:
    """Write a time as the cluster does: the largest unit that fits, one decimal cut off, none if it is zero.

    :param nanos: nanoseconds.
    :returns: such as ``455.5micros``.
    """
    for suffix, size in _NANOS.items():
        if nanos >= size:
            whole, tenth = divmod(nanos * 10 // size, 10)
            return f"{whole}.{tenth}{suffix}" if tenth else f"{whole}{suffix}"
    return "0s"


def section(node: Node, *, cpu: float, at: str, sampling: Sampling) -> str:
    """Write one node's part of the report.

    :param node: whose.
    :param cpu: its CPU in percent; nothing is hot where it is zero or not known.
    :param at: when it was measured, in ISO 8601.
    :param sampling: what was asked for.
    :returns: the section, with the empty line that ends it.
    """
    interval = time_text(sampling.interval)
    ignoring = "true" if sampling.ignore_idle else "false"
    asked = f"interval={interval}, busiestThreads={sampling.threads}, ignoreIdleThreads={ignoring}"
    lines = [f"Hot threads at {at}, {asked}:"]
    candidates = (_BUSY if cpu > 0 else ()) + (() if sampling.ignore_idle else _IDLE)
    for thread in candidates[: sampling.threads]:
        lines += ["", *_thread_lines(thread, node, cpu, sampling)]
    # The cluster indents every line of a node's report, empty ones too.
    return f"::: {node.header}\n" + "".join(f"   {line}\n" for line in lines) + "\n"


def _thread_lines(thread: _Thread, node: Node, cpu: float, sampling: Sampling) -> Iterator[str]:
    spent = round(sampling.interval * cpu * thread.share / 100_000) if sampling.type == "cpu" else 0
    percent = 100 * spent / sampling.interval if sampling.interval else 0.0
    yield (
        f"{percent:4.1f}% ({time_text(spent)} out of {time_text(sampling.interval)}) "
        f"{sampling.type} usage by thread '{thread.name.format(node=node.name)}'"
    )
    for count, frames in _groups(_snapshots(thread, sampling.snapshots)):
        if count == 1:
            yield "  unique snapshot"
        else:
            yield f"  {count}/{sampling.snapshots} snapshots sharing following {len(frames)} elements"
        yield from (f"    {frame}" for frame in frames)


def _snapshots(thread: _Thread, count: int) -> list[tuple[int, Stack]]:
    """Share out the snapshots among the stacks; what rounding leaves over shows the first."""
    counts = [count * tenths // 10 for tenths, _ in thread.seen]
    counts[0] += count - sum(counts)
    return [(number, stack) for number, (_, stack) in zip(counts, thread.seen, strict=True) if number]


def _groups(snapshots: list[tuple[int, Stack]]) -> Iterator[tuple[int, Stack]]:
    """Group snapshots as the cluster does: each with those later ones whose stacks have most frames in common with it.

    Several snapshots with one stack have all of it in common, so only a stack seen once can join others.
    """
    rest = list(snapshots)
    while rest:
        count, stack = rest.pop(0)
        common = [_frames_in_common(stack, other) for _, other in rest]
        most = max(common, default=0)
        if count > 1 or not most:
            yield count, stack
            continue
        together = [index for index, frames in enumerate(common) if frames == most]
        yield 1 + sum(rest[index][0] for index in together), stack[-most:]
        rest = [entry for index, entry in enumerate(rest) if index not in together]


def _frames_in_common(one: Stack, other: Stack) -> int:
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        count += 1
    return count
