"""
How fast the hot-threads parser reads, and how much memory it takes, by the kind of text.

The texts are made of the recorded reports, dressed as each version writes them, with ids, figures and names that differ
from section to section. MB/s is by the time on the processor, median of five. `read` adds that every value of every
node, thread and stack is asked for once. Memory is what `tracemalloc` sees at the peak of parsing, above the text
itself and divided by its length in bytes of UTF-8.

The goals are 150 MB/s for reports as servers write them and 80 MB/s with every value read, and less than 4 times the
text for all reports. Run by ``python -m tests.benchmarks.bench_hot_threads``.
"""

from __future__ import annotations

import itertools
import re
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.benchmarks.results import Limit, Row, record

ROUNDS = 5
MEGABYTE = 1_000_000
REPORT_SIZE = 5 * MEGABYTE
LEAST_SPEED, LEAST_READ_SPEED, MOST_MEMORY = 150.0, 80.0, 4.0
RECORDED = Path(__file__).parents[1] / "data" / "hot_threads"

# What differs from section to section: the middle of ids, the first figure of a thread's line.
_ID = re.compile(r"(?<=[{\[])[A-Za-z0-9_-]{18}(?=[A-Za-z0-9_-]{4}[}\]])")
_FIGURE = re.compile(r"^ *[0-9.]+(?=%|kb)", re.MULTILINE)
_HEADER = re.compile(r"^::: \{(.*?)\}\{(.*?)\}\{(.*?)\}\{(.*?)\}\{(.*?)\}\{(.*?)\}\{(.*?)\}$", re.MULTILINE)
_USAGE = re.compile(r"% (?=\()")
_MEMORY = re.compile(r"% .* cpu usage by")
# What the peer matches against each line.
_LINE = re.compile(r"\s*([\d.]+)% \[?.*\]?.*usage by thread '(.*)'|\s*(\d+)/(\d+) snapshots|\s*(\S.*)")


class Figures(NamedTuple):
    """What was measured of one kind of text.

    :param speed: MB/s to parse it.
    :param read_speed: MB/s to parse it and to read every value.
    :param peak: memory at the peak, by the length of the text.
    """

    speed: float
    read_speed: float
    peak: float


def match_lines(text: str) -> None:
    """Match a pattern against each line of a report, and keep what it finds: what one would write without a parser."""
    kept = [found.groups() for line in text.splitlines() if (found := _LINE.match(line))]
    if not kept:
        raise RuntimeError("The pattern matches no line.")


def recorded(name: str) -> str:
    """Give a report that a cluster sent."""
    return (RECORDED / f"opensearch-{name}.txt").read_text("utf-8")


def of_elasticsearch_1(text: str) -> str:
    """Dress a report as Elasticsearch 1 does."""
    return _HEADER.sub(r"::: [\1][\2][\4][inet[/\5]]{master=true}", text).replace("opensearch", "elasticsearch")


def of_elasticsearch_9(text: str) -> str:
    """Dress a report as Elasticsearch 9 does."""
    slots = r"::: {\1}{\2}{\3}{\1}{\4}{\5}{\6}{9.1.0}{8000099-9033000}{xpack.installed=true, zone=a}"
    return _USAGE.sub("% [cpu=7.2%, other=5.2%] ", _HEADER.sub(slots, text)).replace("opensearch", "elasticsearch")


def by_memory(text: str) -> str:
    """Dress a report as one on memory."""
    return _MEMORY.sub("kb memory allocated by", of_elasticsearch_9(text))


def varied(text: str) -> Iterator[str]:
    """Give a report over and over, each time with other ids, figures and thread numbers."""
    for number in itertools.count():
        other = _ID.sub(f"Ab{number:016d}", text).replace("[T#", f"[T#{number}")
        yield _FIGURE.sub(f"   {number % 999 / 10:>4}", other)


def nothing_hot() -> Iterator[str]:
    """Give nodes without threads."""
    header, sampling, *_ = recorded("3.8.0-cpu").splitlines(keepends=True)
    for number in itertools.count():
        when = sampling.replace("37.152Z", f"{number % 60:02d}.{number % 1000:03d}Z")
        yield f"{_ID.sub(f'Ab{number:016d}', header)}{when}   \n\n"


def threads(stack: Callable[[int], str], name: str = "node") -> Iterator[str]:
    """Give nodes of 500 threads, each with the stack that is made for its number."""
    nodes = nothing_hot()
    for number in itertools.count():
        yield next(nodes) if number % 500 == 0 else "   \n"
        yield f"   {number % 999 / 10:>4}% (62.3ms out of 500ms) cpu usage by thread 'es[{name}][T#{number}]'\n"
        yield stack(number)


def frames(count: int, number: int) -> str:
    """Give a stack of frames that are all different from those of another number."""
    lines = "".join(f"       org.x.Abc{number:06d}.m{line:02d}(Ab.java:{line + 1000})\n" for line in range(count))
    return f"     10/10 snapshots sharing following {count} elements\n{lines}"


#: As servers write them.
OF_SERVERS: dict[str, Callable[[], Iterator[str]]] = {
    "OpenSearch 2.19": lambda: varied(recorded("2.19.1-cpu")),
    "OpenSearch 3.8": lambda: varied(recorded("3.8.0-cpu")),
    "  with idle threads": lambda: varied(recorded("3.8.0-cpu-with-idle-threads")),
    "  contention": lambda: varied(recorded("3.8.0-block")),
    "Elasticsearch 1": lambda: varied(of_elasticsearch_1(recorded("3.8.0-cpu"))),
    "Elasticsearch 9": lambda: varied(of_elasticsearch_9(recorded("3.8.0-cpu"))),
    "  memory": lambda: varied(by_memory(recorded("3.8.0-cpu"))),
    "Windows line ends": lambda: varied(recorded("3.8.0-cpu").replace("\n", "\r\n")),
}
REPORTS: dict[str, Callable[[], Iterator[str]]] = {
    **OF_SERVERS,
    # The least text for the most parts.
    "no two frames alike": lambda: threads(lambda number: frames(60, number)),
    "one frame a stack": lambda: threads(lambda number: frames(1, number % 9)),
    "no frames at all": lambda: threads(lambda _: "     unique snapshot\n"),
    "names of 4 kB": lambda: threads(lambda number: frames(1, number % 9), "[index][0]" * 400),
    "nothing hot": nothing_hot,
}
#: The kind that is compared with the peer.
COMPARED = "OpenSearch 3.8"


def text_of(sections: Iterator[str], size: int) -> str:
    """Join sections until a text is as long as it should be."""
    parts: list[str] = []
    length = 0
    while length < size:
        parts.append(next(sections))
        length += len(parts[-1])
    return "".join(parts)


def read_all(text: str) -> list[object]:
    """Parse a text, and ask for every kind of value once."""
    values: list[object] = []
    for node in parse(text).nodes:
        values += (node.name, node.node_id, node.roles, node.timestamp, node.interval_seconds)
        for thread in node.threads:
            values += (thread.name, thread.pool, thread.kind, thread.percent, thread.seconds, thread.amount)
            values += [(group.snapshots, group.frames) for group in thread.groups]
    return values


def speed(work: Callable[[str], object], text: str) -> float:
    """Measure in MB of text a second on the processor; the median of several rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        work(text)
        times.append(time.thread_time() - start)
    return len(text.encode()) / MEGABYTE / statistics.median(times)


def peak_memory(text: str) -> float:
    """Measure the memory at the peak of parsing, by the length of the text."""
    tracemalloc.start()
    report = parse(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if report.render() != text:
        raise RuntimeError("The report does not give the text back.")
    return peak / len(text.encode())


def measure(sections: Iterator[str]) -> Figures:
    """Measure one kind of text."""
    text = text_of(sections, REPORT_SIZE)
    return Figures(speed(parse, text), speed(read_all, text), peak_memory(text))


def main() -> None:
    """Measure and print."""
    record("hot_threads", list(_rows({name: measure(sections()) for name, sections in REPORTS.items()})))


def _rows(figures: dict[str, Figures]) -> Iterator[Row]:
    matched = speed(match_lines, text_of(REPORTS[COMPARED](), REPORT_SIZE))
    peer = "a pattern matched against each line"
    of_servers = [figures[name] for name in OF_SERVERS]
    yield Row(f"parse a report of {COMPARED}", "MB/s", figures[COMPARED].speed, peer, matched)
    slowest, read = min(each.speed for each in of_servers), min(each.read_speed for each in of_servers)
    yield Row(
        "parse the slowest kind of report that servers write", "MB/s", slowest, limit=Limit("at least", LEAST_SPEED)
    )
    yield Row("parse it and read every value", "MB/s", read, limit=Limit("at least", LEAST_READ_SPEED))
    peak = max(each.peak for each in figures.values())
    yield Row("memory of parsing any kind, for each byte of it", "bytes", peak, limit=Limit("at most", MOST_MEMORY))


if __name__ == "__main__":
    main()
