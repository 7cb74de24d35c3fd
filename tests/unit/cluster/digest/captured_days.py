"""Captures over days, made to measure: their files as a task writes them, and digests of them with their pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.digest.findings import document_of
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.cluster.digest.sums import CaptureSums, Digest, ReadCapture
from airflow_provider_mediaops.cluster.hot_threads import parse
from airflow_provider_mediaops.cluster.page.digest_document import digest_page
from tests.unit.hot_threads_text import cpu, section, stack, thread

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.plan import Reason

#: A Monday.
MONDAY = datetime(2026, 11, 16, tzinfo=timezone.utc)
SEARCH = (
    "app//org.apache.lucene.util.automaton.RunAutomaton.step(RunAutomaton.java:147)",
    "app//org.apache.lucene.search.AutomatonQuery.getTermsEnum(AutomatonQuery.java:92)",
    "app//org.opensearch.search.query.QueryPhase.execute(QueryPhase.java:157)",
    "java.base@21/java.lang.Thread.run(Thread.java:1583)",
)
SORT = ("app//org.opensearch.search.sort.Sorting.compare(Sorting.java:12)", *SEARCH[2:])
MERGE = (
    "app//org.apache.lucene.codecs.DocValuesConsumer.merge(DocValuesConsumer.java:310)",
    "app//org.apache.lucene.index.IndexWriter.merge(IndexWriter.java:4920)",
    "java.base@21/java.lang.Thread.run(Thread.java:1583)",
)
BULK = (
    "app//org.apache.lucene.index.IndexingChain.processDocument(IndexingChain.java:560)",
    "app//org.opensearch.action.bulk.TransportShardBulkAction.lambda$run$3(TransportShardBulkAction.java:1)",
    "java.base@21/java.lang.Thread.run(Thread.java:1583)",
)


def hot(node: str, pool: str, share: float, frames: tuple[str, ...], *, number: int = 1) -> str:
    """Give a thread of a pool with one stack."""
    return thread(f"opensearch[{node}][{pool}][T#{number}]", cpu(share), stack(10, *frames))


def text_at(at: datetime, *threads: str, node: str = "data-1") -> str:
    """Give a report of one node."""
    return section(node, *threads, at=f"{at:%Y-%m-%dT%H:%M:%S}.000Z")


def write_capture(
    folder: Path,
    at: datetime,
    text: str,
    *,
    reason: Reason | None = "at_once",
    tasks: Mapping[str, Any] | None = None,
    formats: tuple[str, ...] = ("txt", "json"),
) -> Path:
    """Write the files of a capture as a task does; return the path of its text."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{at:%Y-%m-%dT%H%M}.txt"
    capture = Capture(text, None, None, (), at, "because", reason)
    for format in formats:
        content = capture.content(format)
        if format == "json" and tasks is not None:
            values = json.loads(content)
            ordered = {"capture": values.pop("capture"), "running_tasks": tasks, **values}
            content = json.dumps(ordered, indent=1).encode()
        file.with_suffix(f".{format}").write_bytes(content)
    return file


def running(opaque_id: str, node: str = "data-1", **figures: Any) -> dict[str, Any]:
    """Give what a node ran: searches of one client."""
    group = {
        "action": "indices:data/read/search",
        "opaque_id": opaque_id,
        "index": "videos",
        "shape": '{"query":{"regexp":{"title":"?"}}}',
        "seen": "both",
        "running": 2,
        "queued": 0,
        "longest_ms": 900.0,
        "cpu_ms": 450.0,
        "pool": "search",
        **figures,
    }
    return {"nodes": [{"node_id": f"id_of_{node}", "node": node, "groups": [group]}], "remarks": []}


def write_two_weeks(folder: Path, *, every: timedelta = timedelta(hours=2)) -> None:
    """
    Write the captures of two weeks up to the second Monday after :data:`MONDAY`, a week before it included.

    Searches are hot by day and bulk indexing by night. Merges ended with the first week, and an automaton began with
    the second. There are spikes on three afternoons, and two damaged files.
    """
    begin = MONDAY - timedelta(days=7)
    for number in range(int(timedelta(days=14) / every)):
        at = begin + number * every
        node = f"data-{number % 3 + 1}"
        is_day, is_second = 8 <= at.hour < 20, at >= MONDAY
        threads = [hot(node, "search", 60 + number % 7 if is_day else 12, SORT)]
        if is_second and is_day:
            threads.append(hot(node, "search", 35 + at.hour, SEARCH, number=2))
        if not is_day:
            threads.append(hot(node, "write", 40 + number % 5, BULK))
        if not is_second:
            threads.append(hot(node, "merge", 20, MERGE))
        tasks = running("nightly-report" if number % 3 else "dashboard", node) if is_second else None
        write_capture(folder, at, text_at(at, *threads, node=node), tasks=tasks)
    for day in (1, 2, 4):
        at = MONDAY + timedelta(days=day, hours=14, minutes=7)
        text = text_at(
            at, hot("data-2", "search", 97.5, SEARCH), hot("data-2", "search", 88.0, SEARCH, number=2), node="data-2"
        )
        write_capture(folder / "spikes", at, text, reason="spike", tasks=running("dashboard", "data-2", running=9))
    (folder / "cut.txt").write_text("<html>no report</html>\n")
    (folder / "empty.txt").write_text("")


def page_of(digest: Digest, path: str = "/reports/weeks/week.html") -> str:
    return digest_page(digest, document_of(digest, ["/reports"]), path)


def capture_at(at: datetime, text: str, path: str = "/reports/x.txt", **facts: Any) -> ReadCapture:
    """Return a capture that was taken at a time."""
    return ReadCapture(parse(text), path, at.timestamp(), "capture", **facts)


def sums_at(at: datetime, text: str, **facts: Any) -> CaptureSums:
    """Return the sums of a capture that was taken at a time."""
    return CaptureSums(capture_at(at, text, **facts))


def digest_from(captures: Iterable[ReadCapture]) -> Digest:
    digest = Digest(Period())
    for each in captures:
        digest.add(each)
    return digest


def digest_of(folder: str = "/reports/days", captures: int = 12) -> Digest:
    """Return the digest of a day with one spike."""

    def read(number: int) -> ReadCapture:
        at = MONDAY + number * timedelta(hours=2)
        text = text_at(at, hot("n", "search", 40.0 + number, SEARCH), hot("n", "write", 10.0, BULK))
        series = "spike" if number == 7 else "scheduled"
        return capture_at(at, text, f"{folder}/{number}.txt", series=series, running_tasks=running("dashboard"))

    return digest_from(map(read, range(captures)))
