"""The threads of the sandbox's nodes: what they run, and how much of the time."""

from __future__ import annotations

from dataclasses import dataclass

Stack = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread that may be hot."""

    # With a place for the node's.
    name: str
    # Its part of the node's CPU, in thousandths.
    share: int
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
    Thread(
        "opensearch[{node}][write][T#2]",
        share=430,
        seen=((10, _WRITE),),
    ),
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
