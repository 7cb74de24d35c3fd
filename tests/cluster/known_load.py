"""Work for a cluster of which it is known who does it: searches of three lengths, bulk indexing and merging."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import requests

from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster.nodes import Cluster

#: All shards are on this node, and all requests are sent to the other one, which coordinates them.
BUSY_NODE = "node 2"
REPLY_SECONDS = 240
DOCUMENTS = 20_000
BATCH = 2_000
# Servers refuse more.
_MOST_PARTS = 1_000
_MEASURED_SECONDS = 0.1
_PAUSE_AFTER_REFUSAL_SECONDS = 0.2
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SETTINGS = {
    "number_of_shards": 1,
    "number_of_replicas": 0,
    "refresh_interval": "-1",
    "routing.allocation.require._name": BUSY_NODE,
}
_FIELDS = {"label": {"type": "keyword"}, "value": {"type": "double"}, "text": {"type": "text"}}


@dataclass(frozen=True)
class Work:
    """
    A kind of work.

    :param body: returns the body of the next request.
    :param threads: the number of requests at a time.
    :param own_ids: whether each request has an X-Opaque-Id of its own; else all have the name of the kind.
    """

    name: str
    path: str
    body: Callable[[], bytes]
    threads: int = 1
    own_ids: bool = False


def aggregation(copies: int) -> dict[str, Any]:
    """Return a search that visits all documents: its stacks are in aggregators."""
    one = {"terms": {"field": "label", "size": 1}, "aggs": {"spread": {"percentiles": {"field": "value"}}}}
    return {"size": 0, "track_total_hits": True, "aggs": {f"labels-{number}": one for number in range(copies)}}


def expressions(clauses: int) -> dict[str, Any]:
    """Return a search that visits all terms: its stacks are in automata."""
    letters = ["".join(random.sample(_LETTERS, 4)) for _ in range(clauses)]
    should = [{"regexp": {"label": f".*[{one}].*[{one}].*[{one}].*0"}} for one in letters]
    return {"size": 0, "track_total_hits": False, "query": {"bool": {"should": should}}}


class KnownLoad:
    """Work under way; :func:`known_load` makes and ends it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.index = f"mediaops-known-{uuid.uuid4().hex}"
        self.written = f"mediaops-written-{uuid.uuid4().hex}"
        self._under_way: dict[int, tuple[str, float]] = {}
        self._failures: list[Exception] = []
        self._copy_seconds = self._clause_seconds = 1.0

    def prepare(self) -> None:
        """Make the two indices; one is filled, in a single segment, so that one thread serves a search."""
        with self._cluster.session() as session:
            for index in (self.index, self.written):
                made = session.put(
                    f"{self._cluster.url}/{index}",
                    json={"settings": _SETTINGS, "mappings": {"properties": _FIELDS}},
                    timeout=REPLY_SECONDS,
                )
                made.raise_for_status()
            for batch in batches():
                self._post(session, f"{self.index}/_bulk?filter_path=errors", batch, "prepare")
            self._post(session, f"{self.index}/_refresh", b"", "prepare")
            self._post(session, f"{self.index}/_forcemerge?max_num_segments=1", b"", "prepare")

    def remove(self) -> None:
        """Delete the indices."""
        with self._cluster.session() as session:
            for index in (self.index, self.written):
                session.delete(f"{self._cluster.url}/{index}", timeout=REPLY_SECONDS).raise_for_status()

    def measure(self) -> None:
        """Measure how long searches take on a node that is otherwise idle, for :meth:`copies` and :meth:`clauses`."""
        self._copy_seconds = self._seconds_per_part(aggregation)
        self._clause_seconds = self._seconds_per_part(expressions)

    def copies(self, seconds: float) -> int:
        """Return how many copies of :func:`aggregation` take about a given time."""
        return _parts(seconds, self._copy_seconds)

    def clauses(self, seconds: float) -> int:
        """Return how many clauses of :func:`expressions` take about a given time."""
        return _parts(seconds, self._clause_seconds)

    def _seconds_per_part(self, make: Callable[[int], dict[str, Any]]) -> float:
        path = f"{self.index}/_search?request_cache=false&filter_path=took"
        parts, best = 8, 0.0
        with self._cluster.session() as session:
            while best < _MEASURED_SECONDS and parts < _MOST_PARTS:
                parts *= 4
                # The first ones are slower: the server compiles while it runs.
                best = min(self._post(session, path, json.dumps(make(parts)).encode(), "measuring") for _ in range(3))
        return best / parts

    def search(self, name: str, make: Callable[[], dict[str, Any]], *, threads: int = 1, own_ids: bool = False) -> Work:
        """
        Describe a kind of searches.

        :param own_ids: whether each has an X-Opaque-Id of its own.
        """
        path = f"{self.index}/_search?request_cache=false&filter_path=took"
        return Work(name, path, lambda: json.dumps(make()).encode(), threads, own_ids)

    def indexing(self, name: str, *, threads: int = 1) -> Work:
        """Describe bulk requests, which write the same documents again and again."""
        bodies = itertools.cycle(batches())
        path = f"{self.written}/_bulk?refresh=true&filter_path=errors"
        return Work(name, path, lambda: next(bodies), threads)

    def merging(self) -> Work:
        """Describe merges: each bulk request of :meth:`indexing` makes a segment, so that there is something to do."""
        return Work("merging", f"{self.written}/_forcemerge?max_num_segments=1", lambda: b"")

    @contextmanager
    def doing(self, *works: Work) -> Iterator[None]:
        """Do work until the ``with`` block ends, and wait for the last requests then."""
        ended = threading.Event()
        begun = [threading.Event() for work in works for _ in range(work.threads)]
        threads = [
            threading.Thread(target=self._repeat, args=(work, one, ended), daemon=True)
            for work, one in zip((work for work in works for _ in range(work.threads)), begun, strict=True)
        ]
        with ExitStack() as stack:
            stack.callback(self._check)
            for thread in threads:
                stack.callback(thread.join, REPLY_SECONDS)
                thread.start()
            stack.callback(ended.set)
            yield

    def under_way(self, since: float) -> set[str]:
        """Return the X-Opaque-Ids of the requests that were sent before a time and are not answered yet."""
        return {opaque_id for opaque_id, started in list(self._under_way.values()) if started < since}

    def listed(self) -> set[str]:
        """Return the X-Opaque-Ids of the tasks that the busy node lists."""
        tasks = self._cluster.get("/_tasks", detailed="false", nodes=BUSY_NODE, actions="indices:*", group_by="none")
        found = tasks.json().get("tasks", [])
        listed = found.values() if isinstance(found, dict) else found
        return {task["headers"]["X-Opaque-Id"] for task in listed if "X-Opaque-Id" in task.get("headers", {})}

    def wait_until_listed(self, names: Sequence[str]) -> None:
        """Wait until the busy node lists a request of each kind."""
        waiting = set(names)

        def seen() -> set[str]:
            self._check()
            waiting.difference_update({one.partition("#")[0] for one in self.listed()})
            return waiting

        wait_for("a task of each kind of work", seen, lambda left: not left, within=240)

    def _check(self) -> None:
        if self._failures:
            first = self._failures[0]
            raise RuntimeError(f"Part of the load has ended early: {first}") from first

    def _repeat(self, work: Work, begun: threading.Event, ended: threading.Event) -> None:
        with self._cluster.session() as session:
            while not ended.is_set():
                opaque_id = f"{work.name}#{uuid.uuid4().hex[:8]}" if work.own_ids else work.name
                self._under_way[threading.get_ident()] = (opaque_id, time.monotonic())
                begun.set()
                try:
                    self._post(session, work.path, work.body(), opaque_id)
                except (requests.RequestException, RuntimeError) as error:
                    if _is_refused_for_memory(error):
                        ended.wait(_PAUSE_AFTER_REFUSAL_SECONDS)
                        continue
                    self._failures.append(error)
                    return
                finally:
                    del self._under_way[threading.get_ident()]

    def _post(self, session: requests.Session, path: str, body: bytes, opaque_id: str) -> float:
        """Send work to the cluster, and wait until it is done; return the seconds that it took."""
        headers = {
            "Content-Type": "application/x-ndjson" if "/_bulk" in path else "application/json",
            "X-Opaque-Id": opaque_id,
        }
        started = time.monotonic()
        reply = session.post(f"{self._cluster.url}/{path}", data=body, headers=headers, timeout=REPLY_SECONDS)
        reply.raise_for_status()
        if reply.json().get("errors"):
            raise RuntimeError("The cluster refused some documents of a bulk request.")
        return time.monotonic() - started


def _is_refused_for_memory(error: Exception) -> bool:
    # A circuit breaker opens until the garbage is collected: the next request may pass.
    reply = getattr(error, "response", None)
    return reply is not None and reply.status_code == HTTPStatus.TOO_MANY_REQUESTS


@contextmanager
def known_load(cluster: Cluster) -> Iterator[KnownLoad]:
    """
    Make the indices of a known load, and delete them at the end of the ``with`` block.

    :param cluster: a cluster whose second node is :data:`BUSY_NODE`.
    """
    load = KnownLoad(cluster)
    try:
        load.prepare()
        load.measure()
        yield load
    finally:
        load.remove()


def _parts(seconds: float, of_one: float) -> int:
    return max(1, min(_MOST_PARTS, round(seconds / of_one)))


def batches() -> list[bytes]:
    """Return bulk requests that write all documents, each with a label of its own."""
    return [_batch(range(first, first + BATCH)) for first in range(0, DOCUMENTS, BATCH)]


def _batch(numbers: range) -> bytes:
    lines = []
    for number in numbers:
        seeded = random.Random(number)  # noqa: S311 nothing secret
        document = {
            "label": "".join(seeded.choices(_LETTERS, k=40)),
            "value": number * 31 % 1000 / 7,
            "text": " ".join("".join(seeded.choices(_LETTERS, k=5)) for _ in range(20)),
        }
        lines += [json.dumps({"index": {"_id": str(number)}}), json.dumps(document)]
    return "\n".join([*lines, ""]).encode()
