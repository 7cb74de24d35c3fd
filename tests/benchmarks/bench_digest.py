"""
How long the digest of 10,000 captures takes, and how much memory.

The captures are texts of 500 kB, made of the recorded reports with other ids, figures and thread numbers in each, and
with a frame that no other has. There are 200 different ones; the files are hard links to them, so 5 GB of text are read
and parsed, but not written first. Beside each text is a JSON file with the head of a capture: one every ten
minutes, each twentieth at a spike, with the tasks of a node. A hundred texts are damaged.

Time is that of the processor, since the machine may do other things meanwhile; memory is the highest of a fresh process
that does nothing else, Airflow and the interpreter included. The peer matches a pattern against each line of the
different texts, and keeps nothing. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_digest`; `--captures`
makes it shorter.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from airflow_provider_mediaops.cluster.digest.attempt import DigestAttempt, DigestPlan
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.storage.ownership import Owner
from tests.benchmarks.bench_hot_threads import recorded, text_of, varied
from tests.benchmarks.fresh_process import environment, last_line_of, peak_memory_mb, spent
from tests.benchmarks.ratios.peers import match_lines
from tests.benchmarks.results import Limit, Row, record

CAPTURES, DIFFERENT, SIZE = 10_000, 200, 500_000
MOST_MS, MOST_MEMORY = 30.0, 300.0
SECONDS = 7_200
PEER = "match each line of the texts"
# Each hundredth capture is no report.
DAMAGED = 100
BEGIN = datetime(2026, 9, 1, tzinfo=timezone.utc)
_AT = "Hot threads at "


def taken_at(number: int) -> datetime:
    """Return when a capture was taken."""
    return BEGIN + timedelta(minutes=10 * number)


def texts(folder: Path, captures: int) -> list[Path]:
    """Write the different texts. Of those who share one, each finds a node in it that prints its time."""
    sections = varied(recorded("3.8.0-cpu"))
    files = []
    for number in range(min(DIFFERENT, captures)):
        text = text_of(sections, SIZE)
        file = folder / f"text-{number}"
        first, *sections_after = text.replace("java.lang.Thread.run(", f"org.example.Own{number}.run(", 1).split(_AT)
        times = [f"{taken_at(sharing):%Y-%m-%dT%H:%M:%S}" for sharing in range(number, captures, DIFFERENT)]
        if len(times) > len(sections_after):
            raise ValueError(f"{len(times)} captures share a text of {len(sections_after)} nodes; take more texts.")
        # All begin as long: 2026-11-20T22:48:37.
        timed = (f"{time}{section[19:]}" for time, section in zip(cycle(times), sections_after, strict=False))
        file.write_text(_AT.join([first, *timed]))
        files.append(file)
    return files


def head(number: int) -> str:
    """Return the head of a JSON file: a capture every ten minutes, each twentieth at a spike."""
    group = {
        "action": "indices:data/read/search",
        "opaque_id": f"report-{number % 30}",
        "index": "videos",
        "shape": '{"query":{"match":{"title":"?"}}}',
        "running": 3,
        "queued": 0,
        "longest_ms": 900.0 + number % 100,
        "cpu_ms": 400.0,
        "pool": "search",
    }
    capture = {
        "taken": taken_at(number).isoformat(),
        "reason": "spike" if number % 20 == 0 else "at_once",
        "cause": "",
        "nodes_asked": None,
    }
    running = {"nodes": [{"node_id": "a", "node": f"node-{number % 5}", "groups": [group]}], "remarks": []}
    return json.dumps({"capture": capture, "running_tasks": running, "nodes": [], "unparsed": []}, indent=1)


def captures(folder: Path, number: int) -> Path:
    """Write the captures; return their folder."""
    source = folder / "reports"
    source.mkdir()
    for place, text in zip(range(number), cycle(texts(folder, number)), strict=False):
        file = source / f"{taken_at(place):%Y%m%dT%H%M}.txt"
        if place % DAMAGED == DAMAGED - 1:
            file.write_text("This is no report.\n")
        else:
            file.hardlink_to(text)
        file.with_suffix(".json").write_text(head(place))
    return source


class Figure(NamedTuple):
    """
    What a digest took.

    :param cpu: seconds on the processor.
    :param memory: the most memory, in MB.
    :param page: the size of the page, in MB.
    :param headline: the first sentence of the page.
    """

    cpu: float
    memory: float
    page: float
    headline: str


def digest(source: Path, number: int) -> Figure:
    """Make the digest in this process."""
    end = taken_at(number).timestamp()
    plan = DigestPlan((str(source),), str(source.parent / "digest.html"), Period(BEGIN.timestamp(), end))
    results: list[Any] = []
    cpu = spent(
        lambda: results.append(DigestAttempt(plan, Owner("bench", "p"), log=lambda _: None, warn=lambda _: None).run())
    )
    [result] = results
    if (used := result["captures"]) != number - number // DAMAGED:
        raise RuntimeError(f"Of {number} captures, {used} are in the digest.")
    return Figure(cpu, peak_memory_mb(), Path(result["paths"]["html"]).stat().st_size / 1e6, result["headline"])


def match(files: list[Path]) -> None:
    """Read texts, and match a pattern against each of their lines."""
    for file in files:
        match_lines(file.read_text(encoding="utf-8"))


def main() -> None:
    """Measure and print; or make the digest, as the process that this starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=int, default=CAPTURES)
    parser.add_argument("--digest", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    number: int = arguments.captures
    if arguments.digest:
        sys.stdout.write(f"\n{json.dumps(digest(arguments.digest, number))}\n")
        return
    with tempfile.TemporaryDirectory() as name:
        source = captures(Path(name), number)
        command = ["-m", "tests.benchmarks.bench_digest", "--digest", source, "--captures", number]
        found = Figure(*json.loads(last_line_of(command, environment(name), seconds=SECONDS)))
        files = list(Path(name).glob("text-*"))
        matched = spent(lambda: match(files))
    sys.stdout.write(f"{number:,} captures, {number * SIZE / 1e9:.1f} GB of text: {found.headline}\n")
    what = f"digest of {number:,} captures"
    ours, peer = 1_000 * found.cpu / number, 1_000 * matched / len(files)
    record(
        "digest",
        [
            Row(f"{what}, processor time of each", "ms", ours, PEER, peer, Limit("at most", MOST_MS)),
            Row(f"{what}, processor time", "s", found.cpu),
            Row(f"{what}, memory", "MB", found.memory, limit=Limit("at most", MOST_MEMORY)),
            Row(f"{what}, size of the page", "MB", found.page),
        ],
    )


if __name__ == "__main__":
    main()
