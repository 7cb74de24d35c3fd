"""The threads of the nodes, and the text of a hot-threads report on them, in the form of OpenSearch 2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.sandbox.cluster_nodes import HOST, ROLES

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.cluster_nodes import Node

Stack = tuple[str, ...]


class Thread(NamedTuple):
    """A thread that may be hot."""

    name: str  # with a place for the node's
    share: int  # of the node's CPU, in thousandths
    # Stacks, the running method first, each with the part of snapshots that show it, in tenths.
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

#: The threads that are at work, the busiest first.
BUSY = (
    Thread(
        "opensearch[{node}][search][T#5]",
        share=1_000,
        seen=(
            (6, ("app//org.apache.lucene.util.automaton.RunAutomaton.step(RunAutomaton.java:189)", *_SEARCH)),
            (3, ("app//org.apache.lucene.codecs.lucene912.ForUtil.decode(ForUtil.java:251)", *_SEARCH)),
            (1, _SEARCH[3:]),
        ),
    ),
    Thread("opensearch[{node}][write][T#2]", share=430, seen=((10, _WRITE),)),
    Thread(
        "opensearch[{node}][[sandbox-events][0]: Lucene Merge Thread #7]",
        share=180,
        seen=(
            (5, ("app//org.apache.lucene.util.packed.DirectReader.getInstance(DirectReader.java:73)", *_MERGE)),
            (3, ("app//org.apache.lucene.codecs.DocValuesConsumer.merge(DocValuesConsumer.java:140)", *_MERGE)),
            (2, ("app//org.apache.lucene.store.RateLimitedIndexOutput.writeByte(Unknown Source)", *_MERGE)),
        ),
    ),
    Thread("opensearch[{node}][refresh][T#1]", share=41, seen=((10, _WRITE[2:]),)),
    Thread("opensearch[{node}][clusterManagerService#updateTask][T#1]", share=7, seen=((2, _POOL), (8, _TAKE))),
)
#: The threads that wait for work.
IDLE = (
    Thread("opensearch[{node}][transport_worker][T#1]", share=0, seen=((10, _SELECT),)),
    Thread("opensearch[{node}][generic][T#3]", share=0, seen=((10, _TAKE),)),
)

_NANOS = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "micros": 1_000,
    "nanos": 1,
}
#: A time as the cluster takes it: a whole number and a unit, or zeros.
Time = Annotated[str, Field(pattern=r"^(\d+(nanos|micros|ms|s|m|h|d)|0+)$")]
_PositiveTime = Annotated[str, Field(pattern=r"^0*[1-9]\d*(nanos|micros|ms|s|m|h|d)$")]


class Sampling(BaseModel):
    """The seven parameters of hot threads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ignore_idle_threads: Literal["true", "false"] = Field(default="true", description="Leave idle threads out.")
    interval: _PositiveTime = Field(default="500ms", description="Time between the samplings.")
    snapshots: int = Field(default=10, ge=1, description="Samples of each thread's stack.")
    threads: int = Field(default=3, ge=0, description="Threads to report; 9999 reports all.")
    master_timeout: Time = Field(
        default="30s", description="How long to wait for the manager node, which is always there."
    )
    timeout: Time = Field(default="30s", description="How long to wait for the nodes; a longer sampling fails.")
    type: Literal["cpu", "wait", "block"] = Field(default="cpu", description="The kind of time that is sampled.")

    @property
    def seconds(self) -> float:
        """How long the sampling takes."""
        return nanoseconds(self.interval) / 1e9 + self.snapshots * 0.01


def nanoseconds(text: str) -> int:
    """Read a time."""
    digits, unit = re.findall(r"\d+|\D+$", text + ("" if text.strip("0") else "s"))
    return int(digits) * _NANOS[unit]


def time_text(nanos: int) -> str:
    """Write a time as the cluster does: the largest unit that fits, one decimal cut off, none if it is zero."""
    for unit, size in _NANOS.items():
        if nanos >= size:
            whole, tenth = divmod(nanos * 10 // size, 10)
            return f"{whole}.{tenth}{unit}" if tenth else f"{whole}{unit}"
    return "0s"


def section(node: Node, *, cpu: float, at: str, sampling: Sampling) -> str:
    """Write one node's part of a report that began ``at``, with the empty line that ends it. CPU is in percent."""
    attributes = ", ".join(f"{name}={value}" for name, value in node.attributes.items())
    slots = (node.name, node.id, node.ephemeral_id, HOST, node.address, "".join(sorted(ROLES.values())), attributes)
    ignores_idle = sampling.ignore_idle_threads == "true"
    interval = nanoseconds(sampling.interval)
    asked = f"interval={time_text(interval)}, busiestThreads={sampling.threads}"
    lines = [f"Hot threads at {at}, {asked}, ignoreIdleThreads={sampling.ignore_idle_threads}:"]
    threads = [*(BUSY if cpu > 0 else ()), *(() if ignores_idle else IDLE)]
    for thread in threads[: sampling.threads]:
        # Waiting and blocking are not measured, and read zero.
        spent = round(interval * cpu * thread.share / 100_000) if sampling.type == "cpu" else 0
        figures = f"{100 * spent / interval:4.1f}% ({time_text(spent)} out of {time_text(interval)})"
        name = thread.name.format(node=node.name)
        lines += ["", f"{figures} {sampling.type} usage by thread '{name}'", *_stacks(thread, sampling.snapshots)]
    # The cluster indents every line of a node's report, empty ones too.
    head = "".join(f"{{{slot}}}" for slot in slots)
    return f"::: {head}\n" + "".join(f"   {line}\n" for line in lines) + "\n"


def _stacks(thread: Thread, snapshots: int) -> Iterator[str]:
    """Share out the snapshots among the stacks; the first has those that rounding leaves over."""
    counts = [snapshots * tenths // 10 for tenths, _ in thread.seen]
    counts[0] += snapshots - sum(counts)
    for count, (_, frames) in zip(counts, thread.seen, strict=True):
        if count == 1:
            yield "  unique snapshot"
        elif count:
            yield f"  {count}/{snapshots} snapshots sharing following {len(frames)} elements"
        yield from (f"    {frame}" for frame in frames if count)
