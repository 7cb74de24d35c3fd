"""
Which kind of work a report says under a load of one known kind, on real servers: twelve kinds and more on each.

Each load keeps a node of its own busy with one kind of request, while hot threads are captured. A label is right if it
names that kind, or work that the servers do for it, such as refreshes for bulk requests; the table of loads says which.
It is wrong if it names other work of users. A thread whose kind no frame tells is without a label, and a label that
names only the family is right and not precise. Run by `make benchmarks BENCHMARKS=kinds_of_work`, or `python -m
tests.benchmarks.bench_kinds_of_work`; `--kinds`, `--loads` and `--captures` make it shorter.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import requests

from airflow_provider_mediaops.cluster.kinds_of_work import works_of
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.benchmarks.results import Limit, Row, record
from tests.cluster.kinds import KINDS
from tests.cluster.nodes import running_cluster
from tests.cluster.security import OPERATOR

if TYPE_CHECKING:
    from tests.cluster.nodes import Cluster

CAPTURES = 4
INTERVAL = "500ms"
THREADS = 10
DOCUMENTS = 40_000
BATCH = 2_000
REPLY_SECONDS = 240
#: The servers that are asked: a secured one is among them.
SERVERS = ("opensearch-3.8", "elasticsearch-9.1-secured")
#: What the servers do beside any load.
BESIDE = ("jvm.", "network.", "stats.", "other")
#: What bulk requests make the servers do.
WRITING = ("index.", "refresh.", "merge.", "flush.")
#: How the servers answer any search.
ANSWERING = ("search.dispatch", "search.parse", "search.reduce", "search.other", "search.match_all", "fetch.")

#: So many words are in most documents.
COMMON = 60
DIMENSIONS = 32
INDEX = "mediaops-kinds"
WRITTEN = "mediaops-written"
#: The searches differ, so that no cache answers them.
_CHANCE = random.Random(1)  # noqa: S311 nothing secret
_WORDS = ["".join(random.Random(number).choices("abcdefghijklmnopqrstuvwxyz", k=6)) for number in range(3_000)]  # noqa: S311 nothing secret
_PROPERTIES: dict[str, Any] = {
    "label": {"type": "keyword"},
    "value": {"type": "double"},
    "number": {"type": "long"},
    "at": {"type": "date"},
    "text": {"type": "text"},
    "common": {"type": "text"},
    "comments": {"type": "nested", "properties": {"by": {"type": "keyword"}, "stars": {"type": "double"}}},
}
_SETTINGS = {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"}
_VECTOR = {"type": "dense_vector", "dims": DIMENSIONS, "similarity": "cosine", "index": True}


@dataclass(frozen=True, eq=False)
class KnownLoad:
    """
    Requests of one kind.

    :param right: the kinds, or beginnings of kinds, that are right for it.
    :param body: returns the body of the next request.
    :param threads: the number of requests at a time.
    :param only_on: the product that can do it; empty for both.
    :param beside: where bulk requests are sent at the same time; empty for none.
    :param is_login: whether each request logs in as somebody else, so that no password is remembered.
    """

    name: str
    right: tuple[str, ...]
    path: str
    body: Callable[[], Any] = lambda: None
    method: str = "POST"
    threads: int = 4
    only_on: str = ""
    before: Sequence[tuple[str, str, Any]] = ()
    beside: str = ""
    is_login: bool = False


def _words(number: int, of: int | None = None) -> str:
    return " ".join(_CHANCE.choices(_WORDS[:of], k=number))


def _search(name: str, right: str, make: Callable[[], dict[str, Any]], **fields: Any) -> KnownLoad:
    path = f"/{INDEX}/_search?request_cache=false&filter_path=took"
    return KnownLoad(name, (*right.split(), *ANSWERING), path, make, **fields)


def _aggregation(name: str, right: str, *each: dict[str, Any], **fields: Any) -> KnownLoad:
    aggregations = {f"{copy}-{number}": one for copy in range(40) for number, one in enumerate(each)}
    return _search(name, f"{right} agg.buckets agg.other", lambda: {"size": 0, "aggs": aggregations}, **fields)


def _regexp() -> dict[str, Any]:
    parts = ["".join(_CHANCE.sample("abcdefghijklmnopqrstuvwxyz", 4)) for _ in range(80)]
    return {"query": {"bool": {"should": [{"regexp": {"label": f".*[{one}].*[{one}].*0"}} for one in parts]}}}


def _ranges() -> dict[str, Any]:
    starts = [_CHANCE.randrange(10_000) for _ in range(400)]
    should = [{"range": {"number": {"gte": start, "lt": start + 30_000}}} for start in starts]
    return {"size": 0, "query": {"bool": {"should": should}}}


def _phrases() -> dict[str, Any]:
    should = [{"match_phrase": {"common": {"query": _words(4, COMMON), "slop": 20}}} for _ in range(100)]
    return {"query": {"bool": {"should": should}}}


def _matches() -> dict[str, Any]:
    return {"track_total_hits": True, "query": {"match": {"text": _words(700)}}}


def _nested() -> dict[str, Any]:
    should = [
        {
            "nested": {
                "path": "comments",
                "score_mode": "avg",
                "query": {"range": {"comments.stars": {"gte": _CHANCE.random()}}},
            }
        }
        for _ in range(100)
    ]
    return {"track_total_hits": True, "query": {"bool": {"should": should}}}


def _highlighted() -> dict[str, Any]:
    highlight = {"fields": {"text": {"type": "plain", "number_of_fragments": 5}}}
    return {"size": 5_000, "_source": False, "query": {"match": {"text": _words(20)}}, "highlight": highlight}


def _scripted() -> dict[str, Any]:
    source = "double s = 0; for (int i = 0; i < 400; i++) { s += Math.sin(doc['value'].value * i) } return s + 401"
    return {"query": {"script_score": {"query": {"match_all": {}}, "script": {"source": source}}}}


def _vector() -> dict[str, Any]:
    some = {"range": {"number": {"gte": _CHANCE.randrange(9)}}}
    vectors = [[_CHANCE.uniform(-1, 1) for _ in range(DIMENSIONS)] for _ in range(8)]
    one = {"field": "vector", "k": 5_000, "num_candidates": 10_000, "filter": some}
    return {"knn": [{**one, "query_vector": vector} for vector in vectors]}


def _suggestions() -> dict[str, Any]:
    term = {"field": "text", "suggest_mode": "always", "max_edits": 2, "prefix_length": 0, "max_inspections": 50}
    return {"size": 0, "suggest": {"text": _words(40), "words": {"term": term}}}


def _log_lines() -> str:
    line = "55.3.244.1 GET /index.html 15824 0.043 " + "x" * 300
    return _lines({"message": f"{line} {number}"} for number in range(100))


def _documents(numbers: Sequence[int], *, vectors: bool = False) -> str:
    return _lines(_document(number, vectors=vectors) for number in numbers)


def _batch(first: int, *, vectors: bool = False) -> str:
    return _documents(range(first, first + BATCH), vectors=vectors)


def _document(number: int, *, vectors: bool) -> dict[str, Any]:
    seeded = random.Random(number)  # noqa: S311 nothing secret
    return {
        "label": "".join(seeded.choices("abcdefghijklmnopqrstuvwxyz", k=30)),
        "value": number * 31 % 1000 / 7,
        "number": number,
        "at": 1_600_000_000_000 + number * 1_000_000,
        "text": " ".join(seeded.choices(_WORDS, k=60)),
        "common": " ".join(seeded.choices(_WORDS[:COMMON], k=60)),
        "comments": [{"by": seeded.choice(_WORDS), "stars": seeded.random()} for _ in range(5)],
        **({"vector": [seeded.uniform(-1, 1) for _ in range(DIMENSIONS)]} if vectors else {}),
    }


def _lines(documents: Any) -> str:
    return "".join(f'{{"index":{{}}}}\n{json.dumps(document)}\n' for document in documents)


_MATCH = "search.match search.doc_values_filter search.query_cache search.collapse search.multi_term"
_WRITTEN_BATCHES = itertools.cycle(range(0, DOCUMENTS, BATCH))
_BULK = f"/{WRITTEN}/_bulk?filter_path=errors"
_GROK = {
    "grok": {
        "field": "message",
        "patterns": ["%{GREEDYDATA:a} %{IP:ip} %{GREEDYDATA:b} %{NUMBER:c} %{GREEDYDATA:d} %{IP:e}", "%{IP:ip} .*"],
    }
}
_PAINLESS = {"script": {"source": "def s = 0; for (int i = 0; i < 40000; i++) { s += i % 7 } ctx.sum = s"}}
LOADS = (
    _search("regexp query", "search.multi_term search.automaton", _regexp),
    _search("range query", "search.range search.match search.doc_values_filter search.query_cache", _ranges),
    _search("phrase query", f"search.phrase {_MATCH}", _phrases),
    _search("match query", _MATCH, _matches),
    _search("nested query", f"search.nested search.range {_MATCH}", _nested),
    _search("highlighting", f"search.highlight {_MATCH}", _highlighted),
    _search("term suggester", "search.suggest", _suggestions),
    _search("vector query", "search.vector", _vector, only_on="elasticsearch"),
    _search("script score", "search.script search.script_compile", _scripted, only_on="opensearch"),
    _aggregation("terms aggregation", "agg.terms search.global_ordinals", {"terms": {"field": "label", "size": 1_000}}),
    _aggregation(
        "cardinality aggregation",
        "agg.cardinality",
        {"cardinality": {"field": "label"}},
        {"cardinality": {"field": "number"}},
    ),
    _aggregation("percentiles aggregation", "agg.percentiles", {"percentiles": {"field": "value"}}),
    _aggregation("date histogram", "agg.histogram", {"date_histogram": {"field": "at", "fixed_interval": "1d"}}),
    KnownLoad("bulk indexing", WRITING, _BULK, lambda: _batch(next(_WRITTEN_BATCHES))),
    KnownLoad(
        "forced merge",
        WRITING,
        f"/{WRITTEN}/_forcemerge?max_num_segments=1",
        threads=1,
        beside=f"{_BULK}&refresh=true",
    ),
    KnownLoad(
        "new indices", ("cluster.", "index.analyzer_build", "recovery.", "flush."), f"/{WRITTEN}-*", method="PUT"
    ),
    KnownLoad(
        "ingest by grok",
        ("ingest.grok", "ingest.other", *WRITING),
        f"{_BULK}&pipeline=grok",
        _log_lines,
        only_on="opensearch",
        before=(("PUT", "/_ingest/pipeline/grok", {"processors": [_GROK]}),),
    ),
    KnownLoad(
        "ingest by script",
        ("ingest.script", "ingest.other", *WRITING),
        f"{_BULK}&pipeline=script",
        _log_lines,
        only_on="opensearch",
        before=(("PUT", "/_ingest/pipeline/script", {"processors": [_PAINLESS]}),),
    ),
    KnownLoad("logins", ("security.",), "/_cluster/health", method="GET", only_on="elasticsearch", is_login=True),
)


class Told(NamedTuple):
    """
    A label that a report gave under a load.

    :param amount: the processor time in percent of an interval.
    """

    load: KnownLoad
    kind: str
    told_by: str
    amount: float


def sums(told: Iterable[Told]) -> dict[str, float]:
    """Return the percentages of the kinds, the most first."""
    amounts: defaultdict[str, float] = defaultdict(float)
    for one in told:
        amounts[one.kind] += one.amount
    total = sum(amounts.values())
    return {kind: 100 * amounts[kind] / total for kind in sorted(amounts, key=lambda kind: -amounts[kind])}


def percent(told: Sequence[Told], which: Callable[[Told], bool]) -> float:
    """Return the percentage of the labels that count."""
    return 100 * sum(one.amount for one in told if which(one)) / sum(one.amount for one in told)


def is_right(told: Told) -> bool:
    """Return whether a label names the work of its load."""
    return any(told.kind == right or (right.endswith(".") and told.kind.startswith(right)) for right in told.load.right)


def is_wrong(told: Told) -> bool:
    """Return whether a label names other work than that of its load."""
    return not is_right(told) and not told.kind.startswith(BESIDE)


def main() -> None:
    """Measure each server, and print the table of labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=int, default=CAPTURES)
    parser.add_argument("--kinds", nargs="*", default=SERVERS, help="the servers, such as opensearch-3.8")
    parser.add_argument("--loads", nargs="*", help="names of loads")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for server in (one for one in KINDS if str(one) in arguments.kinds):
        loads = [
            load
            for load in LOADS
            if load.only_on in ("", server.product) and load.name in (arguments.loads or [load.name])
        ]
        with running_cluster(server, size=1) as cluster:
            os.environ["AIRFLOW_CONN_TEST_CLUSTER"] = cluster.connection()
            prepare(cluster)
            found = [told for load in loads for told in labels_under(cluster, load, arguments.captures)]
        rows += rows_of(str(server), found)
    record("kinds_of_work", rows)


def prepare(cluster: Cluster) -> None:
    """Fill an index."""
    is_elasticsearch = cluster.kind is not None and cluster.kind.is_elasticsearch
    vector = {"vector": _VECTOR} if is_elasticsearch else {}
    for index in (INDEX, WRITTEN):
        send(
            cluster, "PUT", f"/{index}", {"settings": _SETTINGS, "mappings": {"properties": {**_PROPERTIES, **vector}}}
        )
    for first in range(0, DOCUMENTS, BATCH):
        send(cluster, "POST", f"/{INDEX}/_bulk?filter_path=errors", _batch(first, vectors=is_elasticsearch))
    send(cluster, "POST", f"/{INDEX}/_forcemerge?max_num_segments=1")
    send(cluster, "POST", f"/{INDEX}/_refresh")


def send(cluster: Cluster, method: str, path: str, body: Any = None) -> None:
    """Send a request by a client of its own; see :func:`send_with`."""
    with cluster.session() as session:
        send_with(session, method, f"{cluster.url}{path}", body)


def send_with(session: requests.Session, method: str, url: str, body: Any = None) -> None:
    """Send a request, and raise an error if it fails."""
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    kind = "application/x-ndjson" if "/_bulk" in url else "application/json"
    headers = {"Content-Type": kind} if text is not None else {}
    reply = session.request(method, url, data=text and text.encode(), headers=headers, timeout=REPLY_SECONDS)
    if not reply.ok or ("/_bulk" in url and reply.json().get("errors")):
        raise RuntimeError(f"{method} {url}: {reply.status_code} {reply.text[:500]}")


def request_of(load: KnownLoad, url: str, session: requests.Session, number: int) -> None:
    """Send a request of a load."""
    if load.is_login:
        # A wrong password is never remembered, so the next one is hashed, too.
        session.auth = (OPERATOR.name, str(number))
        session.get(f"{url}{load.path}", timeout=REPLY_SECONDS)
        return
    address = f"{url}{load.path.replace('*', str(number))}"
    send_with(session, load.method, address, load.body())
    if load.method == "PUT":
        send_with(session, "DELETE", address)


@contextmanager
def keeping_busy(cluster: Cluster, load: KnownLoad) -> Iterator[None]:
    """Send the requests of a load until the block ends; it begins once each of the senders has got an answer."""
    ended = threading.Event()
    numbers = itertools.count()
    answered = threading.Barrier(load.threads + bool(load.beside) + 1, timeout=REPLY_SECONDS)

    def of_load(session: requests.Session) -> None:
        request_of(load, cluster.url, session, next(numbers))

    def of_bulk(session: requests.Session) -> None:
        send_with(session, "POST", f"{cluster.url}{load.beside}", _batch(next(_WRITTEN_BATCHES)))

    def repeat(one: Callable[[requests.Session], None]) -> None:
        with cluster.session() as session, _aborting(answered):
            one(session)
            with suppress(threading.BrokenBarrierError):
                answered.wait()
            while not ended.is_set():
                one(session)

    senders = [of_load] * load.threads + [of_bulk] * bool(load.beside)
    with ThreadPoolExecutor(len(senders)) as pool:
        sending = [pool.submit(repeat, one) for one in senders]
        try:
            answered.wait()
            yield
        finally:
            ended.set()
            # What a request failed with says more than that a sender waited in vain.
            for each in sending:
                each.result()


@contextmanager
def _aborting(barrier: threading.Barrier) -> Iterator[None]:
    """Let nobody wait for a sender that failed."""
    try:
        yield
    except (requests.RequestException, RuntimeError):
        barrier.abort()
        raise


def labels_under(cluster: Cluster, load: KnownLoad, captures: int) -> list[Told]:
    """Capture a cluster under a load, and return the labels."""
    for method, path, body in load.before:
        send(cluster, method, path, body)
    with SearchClusterHook("test_cluster") as hook, keeping_busy(cluster, load):
        reports = [hook.hot_threads_report(threads=THREADS, interval=INTERVAL) for _ in range(captures)]
    threads = [thread for report in reports for node in report.nodes for thread in node.threads]
    told = [
        Told(load, work.label.kind.id, work.label.told_by, (thread.amount or 0.0) * work.share)
        for thread in threads
        for work in works_of(thread)
        if work.label.kind.family != "idle"
    ]
    wrong = sums(filter(is_wrong, told))
    shares = (f"{kind} {share:.0f} %{' (wrong)' * (kind in wrong)}" for kind, share in sums(told).items() if share >= 1)
    sys.stderr.write(f"{cluster.kind}: {load.name}: {', '.join(shares)}\n")
    return told


def rows_of(server: str, found: Sequence[Told]) -> Iterator[Row]:
    """Yield the figures of one server."""
    for load in dict.fromkeys(told.load for told in found):
        told = [one for one in found if one.load is load]
        yield Row(
            f"{server}: {load.name}: right labels, most of them `{next(iter(sums(told)))}`",
            "%",
            percent(told, is_right),
        )
    wrong = sums([one if is_wrong(one) else one._replace(kind="") for one in found])
    most = max((kind for kind in wrong if kind), key=wrong.__getitem__, default="none")
    by_no_frame = percent(found, lambda one: one.told_by != "frame")
    precise = percent(found, lambda one: is_right(one) and not one.kind.endswith(".other"))
    yield Row(f"{server}: the most of one wrong label, `{most}`", "%", wrong.get(most, 0.0), limit=Limit("at most", 2))
    yield Row(f"{server}: without a label by a frame", "%", by_no_frame, limit=Limit("at most", 13))
    yield Row(f"{server}: right and precise", "%", precise, limit=Limit("at least", 75))


if __name__ == "__main__":
    main()
