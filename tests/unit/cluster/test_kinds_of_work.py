"""The labels of hot threads: each kind by its own frame, precedence, weights, merges, and what no label may hide."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from airflow_provider_mediaops.cluster.folded import measures
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.cluster.kinds_of_work.labels import HotKind, hot_kinds, label_of, merged_shard
from airflow_provider_mediaops.cluster.kinds_of_work.table import FAMILIES, OTHER, KindOfWork, kinds_of_work, read_kinds
from tests.conftest import SHARED_DATA
from tests.unit.hot_threads_text import cpu, hostile, section, split, stack, thread, unique

KINDS = kinds_of_work()
TELLING = [kind for kind in KINDS if kind.example]
RECORDED = Path(__file__).parents[2] / "data"

RUN = "java.base/java.lang.Thread.run(Thread.java:840)"
SCRIPT = "org.opensearch.painless.PainlessScript$Script.execute(doc['a'].value:7)"
TERMS = "org.opensearch.search.aggregations.bucket.terms.GlobalOrdinalsStringTermsAggregator$3.collect(G.java:1)"
CARDINALITY = "org.opensearch.search.aggregations.metrics.CardinalityAggregator.collect(CardinalityAggregator.java:1)"
QUERY_PHASE = "org.opensearch.search.query.QueryPhase.execute(QueryPhase.java:1)"
MERGE = "org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run(ConcurrentMergeScheduler.java:1)"
IDLE = "java.base/java.util.concurrent.ThreadPoolExecutor.getTask(ThreadPoolExecutor.java:1)"


def faults_of(kinds: tuple[KindOfWork, ...]) -> list[str]:
    """Return everything that is wrong with a table of kinds."""
    faults = []
    ids = [kind.id for kind in kinds]
    labels = [kind.label for kind in kinds]
    pools = [pool for kind in kinds for pool in kind.pools]
    for name, values in (("id", ids), ("label", labels), ("pool", pools)):
        faults += [f"{name} {value} twice" for value in sorted({value for value in values if values.count(value) > 1})]
    for kind in kinds:
        names = kind.frames
        faults += [f"{kind.id}: no family" for _ in range(kind.family not in FAMILIES)]
        faults += [f"{kind.id}: frame {name} twice" for name in sorted(set(names)) if names.count(name) > 1]
        for name in [*names, *kind.unless]:
            # A word of less than three letters is in too many frames, and each asterisk costs a search.
            if not re.fullmatch(r"(?!.*\*\*)[\w.$<>*]+", name) or name.count("*") > 3 or len(name.strip("*.")) < 3:
                faults.append(f"{kind.id}: bad name {name}")
        if not 0 < kind.rank <= 40 or kind.within < 0:
            faults.append(f"{kind.id}: rank or within")
        if not (names or kind.pools) or bool(names) != bool(kind.example):
            faults.append(f"{kind.id}: nothing tells it, or no example")
        if not kind.label or not kind.look.endswith((".", "*.")) or "\n" in kind.label + kind.look:
            faults.append(f"{kind.id}: no sentence")
    return faults


def kinds_in(text: str) -> dict[str, HotKind]:
    """Return the kinds of a report by their labels."""
    report = parse(text)
    return {each.label: each for each in hot_kinds(report, measures([report])[0])}


def shares_in(text: str) -> dict[str, float]:
    """Return the percentages of a report by the kinds' ids."""
    return {each.kind.id: round(each.share_percent, 1) for each in kinds_in(text).values()}


def test_table_of_kinds_has_no_fault() -> None:
    assert faults_of(KINDS) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"id": KINDS[1].id}, f"id {KINDS[1].id} twice"),
        ({"label": KINDS[1].label}, f"label {KINDS[1].label} twice"),
        ({"id": "cooking.soup"}, "cooking.soup: no family"),
        ({"frames": ("Engine.run(",)}, "idle.pool: bad name Engine.run("),
        ({"frames": ("*.a",)}, "idle.pool: bad name *.a"),
        ({"frames": ("a*b*c*d*e",)}, "idle.pool: bad name a*b*c*d*e"),
        ({"frames": ()}, "idle.pool: nothing tells it, or no example"),
        ({"rank": 99}, "idle.pool: rank or within"),
        ({"look": ""}, "idle.pool: no sentence"),
        ({"pools": ("search",)}, "pool search twice"),
    ],
)
def test_table_of_kinds_with_a_mistake_is_found_faulty(changes: dict[str, object], fault: str) -> None:
    broken = KINDS[0]._replace(**changes)  # type: ignore[arg-type]
    assert fault in faults_of((broken, *KINDS[1:]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a.b]\nlabel = A\nrank = 1\nlook = B.\nframe = c.", "The kind a.b has no field frame."),
        ("[a.b]\nlabel = A\nrank = high\nlook = B.", "high"),
        ("[a.b]\nlabel = A\nrank = 1\nlook = B.\n[a.b]\nlabel = A\nrank = 1\nlook = B.", "already exists"),
    ],
)
def test_table_with_an_unknown_field_a_bad_number_or_a_kind_twice_is_refused(text: str, message: str) -> None:
    with pytest.raises((ValueError, configparser.Error), match=re.escape(message)):
        read_kinds(text)


def test_loop_over_dense_matches_is_no_scoring_and_below_it_an_aggregation_whose_kind_is_not_visible_counts() -> None:
    # Percentiles on OpenSearch 3.8: the collector of several aggregations hides which of them runs.
    loop = "org.apache.lucene.search.DenseConjunctionBulkScorer.scoreWindowUsingBitSet(D.java:1)"
    collector = "org.opensearch.search.aggregations.MultiBucketCollector$MultiLeafBucketCollector.collect(M.java:1)"

    assert label_of([loop, QUERY_PHASE]).kind.id == "search.match_all"
    assert label_of([collector, loop, QUERY_PHASE]).kind.id == "agg.other"
    assert label_of([CARDINALITY, collector, loop, QUERY_PHASE]).kind.id == "agg.cardinality"


def test_vector_query_of_elasticsearch_9_is_one_outside_the_graph_too() -> None:
    searching = "org.elasticsearch.search.internal.ContextIndexSearcher.search(ContextIndexSearcher.java:336)"
    phase = "org.elasticsearch.search.dfs.DfsPhase.singleKnnSearch(DfsPhase.java:216)"

    assert label_of([searching, phase]).kind.id == "search.vector"


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


def test_of_equal_ranks_the_deepest_frame_tells_the_kind() -> None:
    assert label_of([CARDINALITY, TERMS, QUERY_PHASE]).kind.id == "agg.cardinality"
    below = "org.apache.lucene.search.PointRangeQuery$1.scorer(PointRangeQuery.java:1)"
    assert label_of([below, TERMS, QUERY_PHASE]).kind.id == "search.range"
    assert label_of([TERMS, below, QUERY_PHASE]).kind.id == "agg.terms"


def test_owner_outranks_its_means_however_deep_they_are() -> None:
    codec = "org.apache.lucene.codecs.lucene90.compressing.Lucene90CompressingStoredFieldsReader.document(L.java:1)"
    told = label_of([codec, "org.apache.lucene.index.SegmentMerger.mergeFields(SegmentMerger.java:1)", MERGE, RUN])
    assert told.kind.id == "merge.segments"
    assert told.method == "org.apache.lucene.index.SegmentMerger.mergeFields"


def test_wait_within_a_merge_is_no_merge_work() -> None:
    assert label_of(["org.apache.lucene.index.MergeRateLimiter.pause(M.java:1)", MERGE]).kind.id == "merge.throttled"


def test_kind_is_excluded_by_a_frame_anywhere_in_the_stack() -> None:
    operations = "org.apache.lucene.util.automaton.Operations.determinize(Operations.java:1)"
    assert label_of([operations]).kind.id == "search.automaton"
    role = "org.elasticsearch.xpack.core.security.authz.permission.IndicesPermission.authorize(I.java:1)"
    assert label_of([operations, role]).kind.id == "security.authorize"


def test_caller_that_stays_on_the_stack_counts_near_the_running_method_only() -> None:
    filter = "org.elasticsearch.xpack.security.authz.AuthorizationService.authorize(AuthorizationService.java:1)"
    bulk = "org.elasticsearch.action.bulk.TransportBulkAction.doExecute(TransportBulkAction.java:1)"
    assert label_of([filter, bulk]).kind.id == "security.authorize"
    assert label_of([bulk, *[RUN] * 20, filter]).kind.id == "index.bulk"


def test_resource_tracking_on_a_search_thread_is_no_listing_of_tasks() -> None:
    tracking = "org.opensearch.tasks.TaskResourceTrackingService.startThread(TaskResourceTrackingService.java:1)"
    assert label_of([tracking, RUN], "search").kind.id == "stats.task_tracking"


def test_bulk_scorer_of_any_query_is_no_match_all() -> None:
    told = label_of(["org.apache.lucene.search.Weight$DefaultBulkScorer.scoreAll(Weight.java:1)", QUERY_PHASE])
    assert told.kind.id == "search.other"


def test_compressing_stored_fields_is_indexing_and_decompressing_them_fetching() -> None:
    mode = "org.apache.lucene.codecs.lucene90.DeflateWithPresetDictCompressionMode$Deflate"
    deflate = "java.base/java.util.zip.Deflater.deflateBytesBytes(Native Method)"
    write = f"{mode}Compressor.compress(D.java:1)"
    assert label_of([deflate, write]).kind.id == "index.buffer"
    assert label_of([f"{mode}Decompressor.decompress(D.java:1)"]).kind.id == "fetch.stored_fields"
    assert label_of([deflate, "io.netty.channel.nio.NioEventLoop.run(N.java:1)"]).kind.id == "network.compress"


def test_stack_without_a_telling_frame_is_labelled_by_its_pool_and_says_so() -> None:
    told = label_of([RUN], "write")
    assert (told.kind.id, told.told_by, told.method) == ("index.other", "pool", "")
    [row] = kinds_in(section("n1", thread("es[n1][write][T#1]".replace("es", "elasticsearch"), cpu(9.0)))).values()
    assert row.caution == "by its thread pool only"


def test_stack_that_only_waits_is_idle_whatever_its_pool_does() -> None:
    park = "java.base@21/jdk.internal.misc.Unsafe.park(Native Method)"
    told = label_of([park, "java.base@21/java.util.concurrent.LinkedTransferQueue.xfer(L.java:1)"], "search")
    assert (told.kind.family, told.told_by) == ("idle", "frame")
    busy = thread("opensearch[n1][search][T#1]", cpu(9.0), stack(8, park), stack(2, RUN))
    assert list(kinds_in(section("n1", busy))) == ["Search: which kind is not visible"]


def test_pool_without_meaning_and_unknown_frames_are_other() -> None:
    assert label_of([RUN], "generic") == (OTHER, "nothing", "")
    assert label_of(["com.example.Plugin.work(Plugin.java:1)"]) == (OTHER, "nothing", "")
    assert label_of([]) == (OTHER, "nothing", "")


def test_stacks_of_one_thread_share_its_cpu_by_their_snapshots() -> None:
    text = section("n1", thread("opensearch[n1][search][T#1]", cpu(80.0), stack(6, SCRIPT), stack(2, TERMS, RUN)))
    assert shares_in(text) == {"search.script": 75.0, "agg.terms": 25.0}


def test_threads_count_by_their_cpu_and_not_by_other_time() -> None:
    text = section(
        "n1",
        thread("elasticsearch[n1][search][T#1]", split(100.0, 30.0, other=70.0), stack(10, TERMS)),
        thread("elasticsearch[n1][search][T#2]", cpu(90.0), stack(10, SCRIPT)),
    )
    assert shares_in(text) == {"search.script": 75.0, "agg.terms": 25.0}


def test_idle_snapshots_do_not_count_beside_busy_ones() -> None:
    text = section("n1", thread("opensearch[n1][search][T#1]", cpu(80.0), stack(8, IDLE), stack(2, TERMS)))
    [row] = kinds_in(text).values()
    assert (row.kind.id, row.share_percent, row.caution) == ("agg.terms", 100.0, "")


def test_label_that_rests_on_one_busy_snapshot_says_so() -> None:
    text = section("n1", thread("opensearch[n1][search][T#1]", cpu(80.0), stack(9, IDLE), unique(TERMS)))
    [row] = kinds_in(text).values()
    assert (row.kind.id, row.caution) == ("agg.terms", "from one snapshot")
    assert row.to_dict()["caution"] == "from one snapshot"


def test_two_threads_with_one_snapshot_each_are_enough_for_a_label() -> None:
    threads = [thread(f"opensearch[n1][search][T#{n}]", cpu(80.0), stack(9, IDLE), unique(TERMS)) for n in (1, 2)]
    [row] = kinds_in(section("n1", *threads)).values()
    assert (row.caution, len(row.threads)) == ("", 2)


def test_thread_that_was_idle_in_each_stack_is_labelled_idle() -> None:
    text = section("n1", thread("opensearch[n1][search][T#1]", cpu(80.0), stack(10, IDLE)))
    [row] = kinds_in(text).values()
    assert (row.kind.id, row.caution) == ("idle.pool", "")


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
    assert first == {
        "kind": "merge.segments",
        "label": "Merging segments",
        "share_percent": 60.0,
        "threads": 3,
        "nodes": 2,
        "index": "logs-1",
        "shard": 0,
        "frame": "org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run",
        "look": first["look"],
    }


def test_merge_thread_of_elasticsearch_9_promises_no_index() -> None:
    text = section("n1", thread("elasticsearch[n1][merge][T#1]", cpu(20.0), stack(10, RUN)))
    [row] = kinds_in(text).values()
    assert (row.label, row.index, row.caution) == ("Merging segments", None, "by its thread pool only")


def test_index_in_the_name_of_a_thread_that_does_not_merge_is_not_shown() -> None:
    report = parse(
        section("n1", thread("elasticsearch[n1][[logs][0]: Lucene Merge Thread #1]", cpu(9.0), stack(9, SCRIPT)))
    )
    [only] = report.nodes[0].threads
    assert merged_shard(only) == ("logs", 0)
    [row] = hot_kinds(report, measures([report])[0])
    assert (row.kind.id, row.index) == ("search.script", None)


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
    rows = hot_kinds(report, measures([report])[0])
    assert round(sum(row.share_percent for row in rows)) == 100


def test_threads_of_another_measure_add_nothing_to_the_kinds_of_one() -> None:
    threads = (thread("a", cpu(40.0), stack(10, SCRIPT)), thread("b", "2kb memory allocated", stack(10, SCRIPT)))
    report = parse(section("n1", *threads))
    assert [[row.amount for row in hot_kinds(report, measure)] for measure in measures([report])] == [[40.0], [2048.0]]


def test_labels_of_every_text_at_hand_make_up_all_of_its_use() -> None:
    texts = sorted([*RECORDED.rglob("*.txt"), *SHARED_DATA.rglob("*.txt")])
    assert texts
    for path in texts:
        report = parse(path.read_text("utf-8", "surrogateescape"))
        for measure in measures([report]):
            rows = hot_kinds(report, measure)
            threads = [each for node in report.nodes for each in node.threads if (each.kind or "cpu") == measure.kind]
            used = sum(map(measure.amount, threads))
            assert sum(row.amount for row in rows) == pytest.approx(used), path.name
            assert all(row.to_dict() for row in rows)


def test_recorded_loads_show_no_kind_that_nobody_ran() -> None:
    ran = {"search", "agg", "index", "merge", "refresh", "network", "idle", "stats", "fetch", "jvm"}
    for path in sorted((RECORDED / "hot_threads").glob("opensearch-*.txt")):
        shown = shares_in(path.read_text("utf-8"))
        assert {kind.partition(".")[0] for kind in shown} <= ran, path.name
