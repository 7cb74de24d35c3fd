"""Real work for a cluster, done in the background: bulk indexing, heavy aggregations, sorted searches."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import requests

from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.cluster.nodes import Cluster

DOCUMENTS = 10_000
BATCH = 1_000
REPLY_SECONDS = 240
# For each kind of work. A machine of many cores takes more to become busy.
THREADS = max(1, min(8, (os.cpu_count() or 1) // 2))

INDEX = {
    "settings": {"number_of_shards": 2, "number_of_replicas": 0},
    "mappings": {
        "properties": {
            "tag": {"type": "keyword"},
            "label": {"type": "keyword"},
            "value": {"type": "double"},
            "text": {"type": "text"},
        }
    },
}
AGGREGATION = {
    "size": 0,
    "aggs": {
        "tags": {
            "terms": {"field": "tag", "size": 500},
            "aggs": {
                "labels": {"terms": {"field": "label", "size": 100}},
                "spread": {"percentiles": {"field": "value"}},
                "distinct": {"cardinality": {"field": "label"}},
            },
        }
    },
}
# Not every server has a language for scripts.
SEARCH = {
    "size": 100,
    "query": {"bool": {"should": [{"regexp": {"label": f".*{digit}.*[1-4].*"}} for digit in range(10)]}},
    "sort": [{"value": "desc"}, {"tag": "asc"}],
}


class Load:
    """Work under way on an index; :func:`running_load` makes and ends it.

    :param index: address of the index
    :param open_session: opens a client of the cluster
    :param at_most: seconds after which the work ends by itself, counted from its beginning
    """

    def __init__(self, index: str, open_session: Callable[[], requests.Session], *, at_most: float) -> None:
        self.index = index
        self._open_session = open_session
        self.done: Counter[str] = Counter()
        """How often each kind of work was done."""
        self._at_most = at_most
        self._failures: list[Exception] = []
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self, kind: str, path: str, bodies: Sequence[bytes]) -> None:
        """Start threads, each sending requests in turn, again and again, after the reply to the one before.

        :param kind: what the work is called in :attr:`done`
        :param path: where to send them, below the index
        :param bodies: the requests' bodies
        """
        self.done[kind] = 0
        arguments = (kind, f"{self.index}/{path}", bodies)
        for _ in range(THREADS):
            thread = threading.Thread(target=self._repeat, args=arguments, daemon=True)
            self._threads.append(thread)
            thread.start()

    def working(self) -> bool:
        """Return whether any of the work is still going on."""
        return any(thread.is_alive() for thread in self._threads)

    def check(self) -> None:
        """Make sure that all work is going well.

        :raises RuntimeError: some of it failed, hence the cluster is less busy than it should be
        """
        if self._failures:
            first = self._failures[0]
            raise RuntimeError(f"Part of the load has ended early: {first}") from first

    def end(self) -> None:
        """Let each thread finish the request it is at, and wait for that."""
        self._ended.set()
        for thread in self._threads:
            thread.join(REPLY_SECONDS)

    def _repeat(self, kind: str, url: str, bodies: Sequence[bytes]) -> None:
        deadline = time.monotonic() + self._at_most
        with self._open_session() as session:
            for body in itertools.cycle(bodies):
                try:
                    post(session, url, body)
                except (requests.RequestException, RuntimeError) as error:
                    self._failures.append(error)
                    return
                self.done[kind] += 1
                if self._ended.is_set() or time.monotonic() >= deadline:
                    return


@contextmanager
def running_load(cluster: Cluster, *, at_most: float = 1800) -> Iterator[Load]:
    """Keep a cluster busy from the start of a ``with`` block to its end, on an index of its own.

    The block begins once work of every kind has been done. The threads here mostly wait for replies: what is
    hot is the cluster, not the tests.

    :param cluster: the cluster
    :param at_most: seconds of work, after which it ends even if the block does not
    :raises RuntimeError: some work failed
    :raises TimeoutError: the cluster was too slow to do each kind of work once
    """
    load = Load(f"{cluster.url}/mediaops-load-{uuid.uuid4().hex}", cluster.session, at_most=at_most)
    batches = [_batch(range(first, first + BATCH)) for first in range(0, DOCUMENTS, BATCH)]
    # Nobody reads the replies to searches, so they are kept short; one from the cache would be no work.
    work = {
        "indexing": ("_bulk?filter_path=errors", batches),
        "aggregating": ("_search?filter_path=took&request_cache=false", [json.dumps(AGGREGATION).encode()]),
        "searching": ("_search?filter_path=took", [json.dumps(SEARCH).encode()]),
    }
    with cluster.session() as session:
        session.put(load.index, json=INDEX, timeout=REPLY_SECONDS).raise_for_status()
        try:
            for batch in batches:
                post(session, f"{load.index}/_bulk?filter_path=errors", batch)
            for kind, (path, bodies) in work.items():
                load.begin(kind, path, bodies)
            wait_for("work of every kind", lambda: _progress(load), lambda done: all(done.values()), within=600)
            yield load
            load.check()
        finally:
            load.end()
            session.delete(load.index, timeout=REPLY_SECONDS).raise_for_status()


def _progress(load: Load) -> Counter[str]:
    load.check()
    return load.done.copy()


def _batch(numbers: range) -> bytes:
    """Write a bulk request: the documents of some numbers, which replace those of the same numbers."""
    lines = []
    for number in numbers:
        document = {
            "tag": f"tag-{number % 500}",
            "label": f"label-{number * 7919 % 1999}",
            "value": number * 31 % 1000 / 7,
            "text": f"document {number} about subject {number % 97} and subject {number % 89}",
        }
        lines += [json.dumps({"index": {"_id": str(number)}}), json.dumps(document)]
    return "\n".join([*lines, ""]).encode()


def post(session: requests.Session, url: str, body: bytes, opaque_id: str | None = None) -> None:
    """Send work to the cluster, and wait until it is done.

    :param session: a client
    :param url: where it is sent
    :param body: a search, or documents
    :param opaque_id: the header X-Opaque-Id, by which a cluster lists whose work it is
    :raises RuntimeError: the cluster refused some of the documents
    """
    headers = {
        "Content-Type": "application/x-ndjson" if "/_bulk" in url else "application/json",
        "X-Opaque-Id": opaque_id,
    }
    reply = session.post(url, data=body, headers=headers, timeout=REPLY_SECONDS)
    reply.raise_for_status()
    if reply.json().get("errors"):
        raise RuntimeError("The cluster refused some documents of a bulk request.")
