"""The labels of hot threads: each kind by its own frame, precedence, weights, merges, and what no label may hide."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.cluster.comparison import Comparison, HotKind, compare
from airflow_provider_mediaops.cluster.folded import Measure, measures
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.cluster.kinds_of_work import OTHER, KindOfWork, is_wait, kinds_of_work, label_of
from scripts.generated_docs import FAMILIES
from tests.conftest import SHARED_DATA
from tests.unit.hot_threads_text import cpu, hostile, section, split, stack, thread, unique

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

KINDS = kinds_of_work()
TELLING = [kind for kind in KINDS if kind.example]
RECORDED = Path(__file__).parents[2] / "data"

RUN = "java.base/java.lang.Thread.run(Thread.java:840)"
SCRIPT = "org.opensearch.painless.PainlessScript$Script.execute(doc['a'].value:7)"
TERMS = "org.opensearch.search.aggregations.bucket.terms.GlobalOrdinalsStringTermsAggregator$3.collect(G.java:1)"
CARDINALITY = "org.opensearch.search.aggregations.metrics.CardinalityAggregator.collect(CardinalityAggregator.java:1)"
QUERY_PHASE = "org.opensearch.search.query.QueryPhase.execute(QueryPhase.java:1)"
MERGE = "org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run(ConcurrentMergeScheduler.java:1)"
PARK = "java.base@21/jdk.internal.misc.Unsafe.park(Native Method)"
SEARCH = "opensearch[n1][search][T#1]"
IDLE = "java.base/java.util.concurrent.ThreadPoolExecutor.getTask(ThreadPoolExecutor.java:1)"


def kinds_in(text: str) -> dict[str, HotKind]:
    """Return the kinds of a report by their labels."""
    report = parse(text)
    return {each.label: each for each in compare([report]).kinds}


def kinds_of(report: HotThreadsReport, measure: Measure) -> list[HotKind]:
    """Return the kinds of a report by one of its measures."""
    found = Comparison(measure, 1)
    found.add(report)
    return found.kinds


def shares_in(text: str) -> dict[str, float]:
    """Return the percentages of a report by the kinds' ids."""
    return {each.kind.id: round(each.share_percent, 1) for each in kinds_in(text).values()}


@pytest.mark.parametrize("kind", KINDS, ids=[kind.id for kind in KINDS])
def test_section_of_each_kind_is_complete(kind: KindOfWork) -> None:
    assert kind.family in FAMILIES
    assert 0 < kind.rank <= 40
    assert kind.within >= 0
    assert kind.frames or kind.pools
    assert bool(kind.frames) == bool(kind.example)
    assert kind.label
    assert kind.look.endswith(".")


@pytest.mark.parametrize("kind", TELLING, ids=[kind.id for kind in TELLING])
def test_names_of_each_kind_are_in_few_frames_and_quickly_found(kind: KindOfWork) -> None:
    assert len(set(kind.frames)) == len(kind.frames)
    # A word of less than three letters is in too many frames, and each asterisk costs a search.
    names = [*kind.frames, *kind.unless]
    assert [name for name in names if not re.fullmatch(r"(?!.*\*\*)(?!(.*\*){4})[\w.$<>*]+", name)] == []
    assert min(len(name.strip("*.")) for name in names) >= 3


@pytest.mark.parametrize(
    "values", [[kind.label for kind in KINDS], [pool for kind in KINDS for pool in kind.pools]], ids=["label", "pool"]
)
def test_no_label_and_no_pool_is_there_twice(values: list[str]) -> None:
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("kind", TELLING, ids=[kind.id for kind in TELLING])
def test_example_frame_of_each_kind_tells_it_with_and_without_its_module(kind: KindOfWork) -> None:
    bare = kind.example.rpartition("//")[2]
    bare = bare.partition("/")[2] if bare.startswith("java.base") else bare
    for frame in (kind.example, bare, f"app//{bare}", f"app/org.elasticsearch.server@8.15.3/{bare}"):
        told = label_of([frame, RUN])
        assert (told.kind.id, told.told_by) == (kind.id, "frame")


@pytest.mark.parametrize("kind", TELLING, ids=[kind.id for kind in TELLING])
def test_letters_before_a_name_make_it_another_name(kind: KindOfWork) -> None:
    method = kind.example.partition("(")[0].rpartition("/")[2]
    other = re.sub(r"(?<![\w<])(?=\w)", "Zz", method)
    if "*" not in {name[0] for name in kind.frames}:
        assert label_of([other]).kind is not kind


# Percentiles on OpenSearch 3.8: the collector of several aggregations hides which of them runs.
LOOP = "org.apache.lucene.search.DenseConjunctionBulkScorer.scoreWindowUsingBitSet(D.java:1)"
COLLECTOR = "org.opensearch.search.aggregations.MultiBucketCollector$MultiLeafBucketCollector.collect(M.java:1)"
SEARCHER = "org.elasticsearch.search.internal.ContextIndexSearcher.search(ContextIndexSearcher.java:336)"
POINTS = "org.apache.lucene.search.PointRangeQuery$1.scorer(PointRangeQuery.java:1)"
OPERATIONS = "org.apache.lucene.util.automaton.Operations.determinize(Operations.java:1)"
ROLE = "org.elasticsearch.xpack.core.security.authz.permission.IndicesPermission.authorize(I.java:1)"
FILTER = "org.elasticsearch.xpack.security.authz.AuthorizationService.authorize(AuthorizationService.java:1)"
BULK = "org.elasticsearch.action.bulk.TransportBulkAction.doExecute(TransportBulkAction.java:1)"
TRACKING = "org.opensearch.tasks.TaskResourceTrackingService.startThread(TaskResourceTrackingService.java:1)"
DEFLATE = "java.base/java.util.zip.Deflater.deflateBytesBytes(Native Method)"
MODE = "org.apache.lucene.codecs.lucene90.DeflateWithPresetDictCompressionMode$Deflate"

#: By what a stack shows: its frames, and the kind of work that they tell.
STACKS: dict[str, tuple[list[str], str]] = {
    "a loop over dense matches is not a scoring": ([LOOP, QUERY_PHASE], "search.match_all"),
    "below it an aggregation whose kind is not visible counts": ([COLLECTOR, LOOP, QUERY_PHASE], "agg.other"),
    "an aggregation that is visible counts": ([CARDINALITY, COLLECTOR, LOOP, QUERY_PHASE], "agg.cardinality"),
    "a vector query of Elasticsearch 9 is one outside the graph too": (
        [SEARCHER, "org.elasticsearch.search.dfs.DfsPhase.singleKnnSearch(DfsPhase.java:216)"],
        "search.vector",
    ),
    "the deepest aggregation tells the kind": ([CARDINALITY, TERMS, QUERY_PHASE], "agg.cardinality"),
    "a query below an aggregation tells the kind": ([POINTS, TERMS, QUERY_PHASE], "search.range"),
    "an aggregation below a query tells the kind": ([TERMS, POINTS, QUERY_PHASE], "agg.terms"),
    "a wait within a merge is not work": (
        ["org.apache.lucene.index.MergeRateLimiter.pause(M.java:1)", MERGE],
        "merge.throttled",
    ),
    "an automaton of a query": ([OPERATIONS], "search.automaton"),
    "a frame anywhere in the stack excludes a kind": ([OPERATIONS, ROLE], "security.authorize"),
    "a caller counts near the running method": ([FILTER, BULK], "security.authorize"),
    "a caller far from the running method does not count": ([BULK, *[RUN] * 20, FILTER], "index.bulk"),
    "tracking of resources is not a listing of tasks": ([TRACKING, RUN], "stats.task_tracking"),
    "a bulk scorer of any query is not a match_all": (
        ["org.apache.lucene.search.Weight$DefaultBulkScorer.scoreAll(Weight.java:1)", QUERY_PHASE],
        "search.other",
    ),
    "a name ends where its word does": (["java.util.concurrent.ThreadPoolExecutor.getTaskCount(T.java:1)"], "other"),
    "compressing stored fields is indexing": ([DEFLATE, f"{MODE}Compressor.compress(D.java:1)"], "index.buffer"),
    "decompressing them is fetching": ([f"{MODE}Decompressor.decompress(D.java:1)"], "fetch.stored_fields"),
    "compressing elsewhere is the network": (
        [DEFLATE, "io.netty.channel.nio.NioEventLoop.run(N.java:1)"],
        "network.compress",
    ),
}


@pytest.mark.parametrize(("frames", "kind"), STACKS.values(), ids=STACKS.keys())
def test_frames_of_a_stack_tell_its_kind(frames: list[str], kind: str) -> None:
    assert label_of(frames).kind.id == kind


def test_owner_outranks_its_means_however_deep_they_are() -> None:
    codec = "org.apache.lucene.codecs.lucene90.compressing.Lucene90CompressingStoredFieldsReader.document(L.java:1)"
    told = label_of([codec, "org.apache.lucene.index.SegmentMerger.mergeFields(SegmentMerger.java:1)", MERGE, RUN])
    assert (told.kind.id, told.method) == ("merge.segments", "org.apache.lucene.index.SegmentMerger.mergeFields")


def test_stack_without_a_telling_frame_is_labelled_by_its_pool_and_says_so() -> None:
    told = label_of([RUN], "write")
    assert (told.kind.id, told.told_by, told.method) == ("index.other", "pool", "")


def test_stack_that_only_waits_is_idle_whatever_its_pool_does() -> None:
    told = label_of([PARK, "java.base@21/java.util.concurrent.LinkedTransferQueue.xfer(L.java:1)"], "search")
    assert (told.kind.family, told.told_by) == ("idle", "frame")


@pytest.mark.parametrize(
    ("method", "waits"),
    [
        *(("jdk.internal.misc.Unsafe.park", True), ("sun.misc.Unsafe.park", True), ("java.lang.Object.wait0", True)),
        *(("java.lang.Thread.sleep", True), ("sun.nio.ch.EPoll.wait", True), ("sun.nio.ch.Net.poll", True)),
        *(("io.netty.channel.epoll.Native.epollWait0", True), ("java.lang.Thread.run", False), ("(no stack)", False)),
    ],
)
def test_method_of_the_jdk_or_of_netty_in_which_a_thread_waits_is_known(method: str, *, waits: bool) -> None:
    assert is_wait(method) is waits


def test_pool_without_meaning_and_unknown_frames_are_other() -> None:
    told = label_of([RUN], "generic")
    assert (told, told.told_by) == ((OTHER, ""), "nothing")
    assert label_of(["com.example.Plugin.work(Plugin.java:1)"]) == (OTHER, "")
    assert label_of([]) == (OTHER, "")


def test_stacks_of_one_thread_share_its_cpu_by_their_snapshots() -> None:
    text = section("n1", thread(SEARCH, cpu(80.0), stack(6, SCRIPT), stack(2, TERMS, RUN)))
    assert shares_in(text) == {"search.script": 75.0, "agg.terms": 25.0}


def test_threads_count_by_their_cpu_and_not_by_other_time() -> None:
    terms = thread("elasticsearch[n1][search][T#1]", split(100.0, 30.0, other=70.0), stack(10, TERMS))
    script = thread("elasticsearch[n1][search][T#2]", cpu(90.0), stack(10, SCRIPT))
    assert shares_in(section("n1", terms, script)) == {"search.script": 75.0, "agg.terms": 25.0}


@pytest.mark.parametrize(
    ("stacks", "kind", "caution"),
    [
        pytest.param([stack(8, IDLE), stack(2, TERMS)], "agg.terms", "", id="idle snapshots beside busy ones"),
        pytest.param([stack(9, IDLE), unique(TERMS)], "agg.terms", "from one snapshot", id="one busy snapshot"),
        pytest.param([stack(10, IDLE)], "idle.pool", "", id="idle in each stack"),
        pytest.param([stack(8, PARK), stack(2, RUN)], "search.other", "by its thread pool only", id="its pool"),
    ],
)
def test_busy_snapshots_label_a_thread_and_say_how_certain_that_is(stacks: list[str], kind: str, caution: str) -> None:
    [row] = kinds_in(section("n1", thread(SEARCH, cpu(80.0), *stacks))).values()
    assert (row.kind.id, row.share_percent, row.caution) == (kind, 100.0, caution)
    assert row.to_dict().get("caution", "") == caution


def test_two_threads_with_one_snapshot_each_are_enough_for_a_label() -> None:
    threads = [thread(f"opensearch[n1][search][T#{n}]", cpu(80.0), stack(9, IDLE), unique(TERMS)) for n in (1, 2)]
    [row] = kinds_in(section("n1", *threads)).values()
    assert (row.caution, row.threads) == ("", 2)


def test_merges_are_summed_by_index_and_shard_over_nodes() -> None:
    def merge(node: str, index: str, shard: int, number: int, percent: float) -> str:
        name = f"elasticsearch[{node}][[{index}][{shard}]: Lucene Merge Thread #{number}]"
        return thread(name, cpu(percent), stack(10, MERGE))

    text = section("n1", merge("n1", "logs-1", 0, 1, 20.0), merge("n1", "logs-1", 0, 2, 30.0)) + section(
        "n2", merge("n2", "logs-1", 0, 7, 10.0), merge("n2", "logs-1", 1, 8, 15.0), merge("n2", "a.b", 1, 9, 25.0)
    )
    rows = kinds_in(text)
    assert {label: round(row.share_percent) for label, row in rows.items()} == {
        "Merging segments: logs-1, shard 0": 60,
        "Merging segments: a.b, shard 1": 25,
        "Merging segments: logs-1, shard 1": 15,
    }
    first = rows["Merging segments: logs-1, shard 0"].to_dict()
    assert (first["threads"], first["nodes"], first["index"], first["shard"]) == (3, 2, "logs-1", 0)
    assert first["frame"] == "org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run"


def test_hottest_kind_has_the_merges_of_all_shards_and_no_advice_about_a_missing_index() -> None:
    def merge(place: str, percent: float, frame: str = MERGE) -> str:
        return thread(f"elasticsearch[n][{place}: Lucene Merge Thread #1]", cpu(percent), stack(10, frame))

    merges = merge("[logs][0]", 20.0), merge("[logs][1]", 20.0), merge("[a.b][1]", 15.0)
    text = section("n", *merges, thread("opensearch[n][search][T#1]", cpu(45.0), unique(TERMS)))
    kinds = kinds_in(text)
    assert next(iter(kinds)) != "Merging segments: logs, shard 0"
    hottest = compare([parse(text)]).hottest_kind
    assert hottest is not None
    assert (hottest.label, round(hottest.share_percent)) == ("Merging segments: logs and a.b", 55)
    assert (hottest.threads, hottest.nodes, hottest.caution) == (3, ("n",), "")
    assert "Elasticsearch 9.1" not in hottest.look
    of_pool = compare([parse(section("n", merge("[a][0]", 9.0, RUN), merge("[a][1]", 9.0, RUN)))]).hottest_kind
    assert of_pool is not None
    assert (of_pool.label, of_pool.caution) == ("Merging segments: a", "by its thread pool only")


def test_hottest_kind_of_several_reports_has_an_amount_in_each() -> None:
    def merges(first: float, second: float) -> HotThreadsReport:
        threads = [
            thread(f"elasticsearch[n][[logs][{shard}]: Lucene Merge Thread #1]", cpu(percent), stack(10, MERGE))
            for shard, percent in enumerate((first, second))
        ]
        return parse(section("n", *(line for lines in threads for line in lines)))

    hottest = compare([merges(20.0, 10.0), merges(50.0, 30.0)]).hottest_kind
    assert hottest is not None
    assert (hottest.peak, hottest.difference, hottest.trend) == (80.0, 50.0, "")


def test_merge_thread_of_elasticsearch_9_promises_no_index() -> None:
    text = section("n1", thread("elasticsearch[n1][merge][T#1]", cpu(20.0), stack(10, RUN)))
    [row] = kinds_in(text).values()
    assert (row.label, row.index, row.caution) == ("Merging segments", None, "by its thread pool only")
    assert row.look.endswith("Elasticsearch 9.1 and newer name no index in the thread.")


@pytest.mark.parametrize(
    "frame",
    [
        "org." + "a" * 100_000 + ".PainlessScript$Script.execute(1)",
        "search.aggregations." * 10_000 + "reduce(1)",
        "mapper." + "aFieldMapper" * 10_000,
        "$" * 100_000,
        "(" * 100_000,
    ],
)
def test_frame_that_no_jvm_prints_is_labelled_by_its_beginning(frame: str) -> None:
    assert label_of([frame, RUN]) == label_of([frame[:500], RUN])


def test_hostile_names_and_stacks_are_labelled_as_any_other() -> None:
    report = parse(
        hostile() + section("n1", thread("[[" * 5_000, cpu(5.0), stack(1, "[[a][0]: Lucene Merge Thread" * 99)))
    )
    rows = compare([report]).kinds
    assert round(sum(row.share_percent for row in rows)) == 100


def test_threads_of_another_measure_add_nothing_to_the_kinds_of_one() -> None:
    threads = (thread("a", cpu(40.0), stack(10, SCRIPT)), thread("b", "2kb memory allocated", stack(10, SCRIPT)))
    report = parse(section("n1", *threads))
    assert [[row.amount for row in kinds_of(report, measure)] for measure in measures([report])] == [[40.0], [2048.0]]


def test_labels_of_every_text_at_hand_make_up_all_of_its_use() -> None:
    texts = sorted([*RECORDED.rglob("*.txt"), *SHARED_DATA.rglob("*.txt")])
    assert texts
    for path in texts:
        report = parse(path.read_text("utf-8", "surrogateescape"))
        for measure in measures([report]):
            rows = kinds_of(report, measure)
            threads = [each for node in report.nodes for each in node.threads if (each.kind or "cpu") == measure.kind]
            used = sum(map(measure.amount, threads))
            assert sum(row.amount for row in rows) == pytest.approx(used), path.name
            assert all(row.to_dict() for row in rows)


def test_recorded_loads_show_no_kind_that_nobody_ran() -> None:
    ran = {"search", "agg", "index", "merge", "refresh", "network", "idle", "stats", "fetch", "jvm"}
    for path in sorted((RECORDED / "hot_threads").glob("opensearch-*.txt")):
        shown = shares_in(path.read_text("utf-8"))
        assert {kind.partition(".")[0] for kind in shown} <= ran, path.name
