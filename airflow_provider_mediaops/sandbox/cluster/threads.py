"""The threads of the sandbox's nodes, in no product's own words: what they run, and how much of the time."""

from __future__ import annotations

from dataclasses import dataclass

Stack = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Thread:
    """
    A thread that may be hot.

    A frame begins with the code that it belongs to: ``java:``, ``server:``, ``lucene:`` or ``netty:``.

    :param name: its name, with places for the program's, the node's and the manager's.
    :param share: its part of the node's CPU, in thousandths.
    :param seen: stacks, the running method first, each with the part of snapshots that show it, in tenths.
    :param other: the time that it was runnable or waited for a disk, in thousandths of the node's CPU.
    :param idle: whether it waits for work all the time.
    """

    name: str
    share: int
    seen: tuple[tuple[int, Stack], ...]
    other: int = 0
    idle: bool = False


_POOL: Stack = (
    "server:common.util.concurrent.ThreadContext$ContextPreservingAbstractRunnable.doRun(ThreadContext.java:955)",
    "server:common.util.concurrent.AbstractRunnable.run(AbstractRunnable.java:52)",
    "java:java.util.concurrent.ThreadPoolExecutor.runWorker(ThreadPoolExecutor.java:1144)",
    "java:java.util.concurrent.ThreadPoolExecutor$Worker.run(ThreadPoolExecutor.java:642)",
    "java:java.lang.Thread.runWith(Thread.java:1596)",
    "java:java.lang.Thread.run(Thread.java:1583)",
)
_SEARCH: Stack = (
    "lucene:search.Weight$DefaultBulkScorer.scoreAll(Weight.java:306)",
    "lucene:search.Weight$DefaultBulkScorer.score(Weight.java:245)",
    "server:search.internal.ContextIndexSearcher.searchLeaf(ContextIndexSearcher.java:360)",
    "server:search.internal.ContextIndexSearcher.search(ContextIndexSearcher.java:303)",
    "server:search.query.QueryPhase.executeInternal(QueryPhase.java:282)",
    "server:search.query.QueryPhase.execute(QueryPhase.java:155)",
    "server:search.SearchService.loadOrExecuteQueryPhase(SearchService.java:622)",
    "server:search.SearchService$$Lambda$6021/0x00007f2a1c9d4b20.get(Unknown Source)",
    "server:action.ActionRunnable$2.doRun(ActionRunnable.java:104)",
    *_POOL,
)
_WRITE: Stack = (
    "server:index.engine.InternalEngine.indexIntoLucene(InternalEngine.java:1168)",
    "server:index.engine.InternalEngine.index(InternalEngine.java:1005)",
    "server:index.shard.IndexShard.applyIndexOperation(IndexShard.java:1030)",
    "server:action.bulk.TransportShardBulkAction$2.doRun(TransportShardBulkAction.java:468)",
    *_POOL,
)
_MERGE: Stack = (
    "lucene:index.SegmentMerger.merge(SegmentMerger.java:142)",
    "lucene:index.IndexWriter.mergeMiddle(IndexWriter.java:5293)",
    "lucene:index.ConcurrentMergeScheduler.doMerge(ConcurrentMergeScheduler.java:700)",
    "lucene:index.ConcurrentMergeScheduler$MergeThread.run(ConcurrentMergeScheduler.java:721)",
)
_TAKE: Stack = (
    "java:jdk.internal.misc.Unsafe.park(Native Method)",
    "java:java.util.concurrent.locks.LockSupport.park(LockSupport.java:371)",
    "java:java.util.concurrent.LinkedTransferQueue.take(LinkedTransferQueue.java:1217)",
    "java:java.util.concurrent.ThreadPoolExecutor.getTask(ThreadPoolExecutor.java:1070)",
    *_POOL[2:],
)
_SELECT: Stack = (
    "java:sun.nio.ch.EPoll.wait(Native Method)",
    "java:sun.nio.ch.EPollSelectorImpl.doSelect(EPollSelectorImpl.java:121)",
    "netty:channel.nio.NioEventLoop.select(NioEventLoop.java:883)",
    "netty:channel.nio.NioEventLoop.run(NioEventLoop.java:526)",
    "java:java.lang.Thread.run(Thread.java:1583)",
)

#: The threads that are at work, the busiest first.
BUSY = (
    Thread(
        "{program}[{node}][search][T#5]",
        share=1_000,
        seen=(
            (6, ("lucene:util.automaton.RunAutomaton.step(RunAutomaton.java:189)", *_SEARCH)),
            (3, ("lucene:codecs.lucene912.ForUtil.decode(ForUtil.java:251)", *_SEARCH)),
            (1, _SEARCH[3:]),
        ),
        other=50,
    ),
    Thread(
        "{program}[{node}][write][T#2]",
        share=430,
        # The first snapshot's stack is met once, so the others join it by what they have in common.
        seen=(
            (1, ("lucene:index.TermsHashPerField.add(TermsHashPerField.java:210)", *_WRITE)),
            (9, ("lucene:index.IndexingChain.processField(IndexingChain.java:742)", *_WRITE)),
        ),
        other=20,
    ),
    Thread(
        "{program}[{node}][[sandbox-events][0]: Lucene Merge Thread #7]",
        share=180,
        seen=(
            (5, ("lucene:util.packed.DirectReader.getInstance(DirectReader.java:73)", *_MERGE)),
            (3, ("lucene:codecs.DocValuesConsumer.merge(DocValuesConsumer.java:140)", *_MERGE)),
            (2, ("lucene:store.RateLimitedIndexOutput.writeByte(Unknown Source)", *_MERGE)),
        ),
        # More than its CPU: by the time in all, it comes before the thread that writes.
        other=390,
    ),
    Thread("{program}[{node}][refresh][T#1]", share=41, seen=((10, _WRITE[2:]),)),
    Thread("{program}[{node}][{manager}#updateTask][T#1]", share=7, seen=((2, _POOL), (8, _TAKE))),
)
#: The threads that wait for work.
IDLE = (
    Thread("{program}[{node}][transport_worker][T#1]", share=0, seen=((10, _SELECT),), idle=True),
    Thread("{program}[{node}][generic][T#3]", share=0, seen=((10, _TAKE),), idle=True),
)
