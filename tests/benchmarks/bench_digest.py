"""
How long the digest of 10,000 captures takes, and how much memory.

The captures are texts of 500 kB, made of the recorded reports with other ids, figures and thread numbers in each, and
with a frame that no other has. There are 200 different ones; the files are hard links to them, so 5 GB of text are read
and parsed, but not written first. Beside each text is a JSON file with the head of a capture: one every ten
minutes, each twentieth at a spike, with the tasks of a node. A hundred texts are damaged.

Time is that of the processor, since the machine may do other things meanwhile; memory is the highest of the process,
Airflow and the interpreter included. The goals are 300 s and 300 MB. It is run by
``python -m tests.benchmarks.bench_digest``, with a number of captures for a shorter one.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from itertools import cycle
from pathlib import Path

from airflow_provider_mediaops.cluster.digest.attempt import DigestAttempt, DigestPlan
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.storage.ownership import Owner
from tests.benchmarks.bench_hot_threads import recorded, text_of, varied

CAPTURES, DIFFERENT, SIZE = 10_000, 200, 500_000
BEGIN = datetime(2026, 9, 1, tzinfo=timezone.utc)


def texts(folder: Path) -> list[Path]:
    """Write the different texts."""
    sections = varied(recorded("3.8.0-cpu"))
    files = []
    for number in range(DIFFERENT):
        text = text_of(sections, SIZE)
        file = folder / f"text-{number}"
        file.write_text(text.replace("java.lang.Thread.run(", f"org.example.Own{number}.run(", 1))
        files.append(file)
    return files


def head(number: int) -> str:
    """Return the head of a JSON file: a capture every ten minutes, each twentieth at a spike."""
    spike = number % 20 == 0
    taken = BEGIN + timedelta(minutes=10 * number)
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
    capture = {"taken": taken.isoformat(), "reason": "spike" if spike else "at_once", "cause": "", "nodes_asked": None}
    running = {"nodes": [{"node_id": "a", "node": f"node-{number % 5}", "groups": [group]}], "remarks": []}
    return json.dumps({"capture": capture, "running_tasks": running, "nodes": [], "unparsed": []}, indent=1)


def captures(folder: Path, number: int) -> Path:
    """Write the captures; return their folder."""
    source = folder / "reports"
    source.mkdir()
    for place, text in zip(range(number), cycle(texts(folder)), strict=False):
        file = source / f"{BEGIN + timedelta(minutes=10 * place):%Y%m%dT%H%M}.txt"
        if place % 100 == 99:
            file.write_text("This is no report.\n")
        else:
            file.hardlink_to(text)
        file.with_suffix(".json").write_text(head(place))
    return source


def main() -> None:
    """Measure and print."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else CAPTURES
    with tempfile.TemporaryDirectory() as name:
        source = captures(Path(name), number)
        destination = Path(name) / "digest.html"
        end = (BEGIN + timedelta(minutes=10 * number)).timestamp()
        plan = DigestPlan((str(source),), str(destination), Period(BEGIN.timestamp(), end))
        begun, begun_wall = time.process_time(), time.monotonic()
        result = DigestAttempt(plan, Owner("bench", "p"), log=lambda _: None, warn=lambda _: None).run()
        used, passed = time.process_time() - begun, time.monotonic() - begun_wall
        sizes = {each: Path(path).stat().st_size for each, path in result["paths"].items()}
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sys.stdout.write(
            f"{number:,} captures, {number * SIZE / 1e9:.1f} GB of text:\n"
            f"{used:.0f} s of the processor ({1000 * used / number:.1f} ms a capture; {passed:.0f} s passed), "
            f"{megabytes:.0f} MB at the most\n"
            f"page {sizes['html'] / 1e6:.2f} MB, JSON {sizes['json'] / 1e6:.2f} MB, "
            f"folded {sizes['folded'] / 1e6:.2f} MB\n{result['headline']}\n"
        )


if __name__ == "__main__":
    main()
