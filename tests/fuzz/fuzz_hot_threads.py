"""
Search, guided by coverage, for a text that the hot-threads parser fails on, loses a part of, or is slow at.

    python -m tests.fuzz.fuzz_hot_threads --seconds 600

It needs atheris (dependency group ``fuzz``) and is not part of the suites. It starts from the recorded reports of
``tests/data/hot_threads``, whole and in parts, and mutates them. What reaches new code is kept in the corpus folder,
for the next run. A finding ends the run: its input is written there too (``found-…``), and ``--replay FILE`` shows it
again. It then belongs into ``tests/unit/cluster/test_hot_threads_damaged.py``.

An input is a text in UTF-8. With two zero bytes in it, what stands between them is repeated, as often as the number in
the first two bytes says: a text of a few bytes that costs more than its share shows when there are thousands of it.
Three things must hold for each: the report gives the text back to the last character and can be written as JSON, its
list of what was not understood is in order and quotes the text, and the time on the processor stays below a bound that
grows with the length alone; where a part is repeated, four times the text must not cost much more than four times.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

with atheris.instrument_imports(include=["airflow_provider_mediaops.cluster"]):
    from airflow_provider_mediaops.cluster.hot_threads import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPUS = Path(".cache/fuzz-hot-threads")
RECORDED = Path(__file__).parents[1] / "data" / "hot_threads"
#: Words by which the lines of a report are known, for the fuzzer to put together.
WORDS = (
    *("::: {", "}{", "]\\x0a", "][", "[inet[/", "]]{", "{a=b}\\x0a", "Hot threads at ", ", interval=500ms"),
    *(", busiestThreads=3", ", ignoreIdleThreads=true:\\x0a", "10.0% (5ms out of 500ms) cpu usage", " by thread '"),
    *("0.0% [cpu=0.0%, idle=100.0%] (", "1.2mb memory allocated", "unique snapshot\\x0a", "10/10 snapshots sharing"),
    *(" following 2 elements\\x0a", "       a.B.c(B.java:1)\\x0a", "not supported", "# ", "\\x0d\\x0a", "\\x0a\\x0a"),
    *(
        "\\x00",
        "T2022-04-01T15:15:27.658Z",
        "qT7xH2b0Qm6UdXo5cVnK1w",
        "{10.0.0.1:9300}",
        "\\xc2\\x85",
        "\\xef\\xbb\\xbf",
    ),
)
LONGEST_INPUT = 2_000
LONGEST_TEXT = 4_000
# Instrumented code is several times slower than what the benchmark measures, and the machine may be busy.
SECONDS_AT_MOST = 0.05
SECONDS_A_CHARACTER = 40e-6
# A text is compared with a quarter of it where both can be measured; linear is 4, quadratic is 16.
SECONDS_TO_COMPARE = 0.002
GROWTH_AT_MOST = 9.0
LEAST_TIMES = 64


def text_of(data: bytes, *, share: int = 1) -> str:
    """Spell out an input.

    :param data: the input.
    :param share: by what to divide the number of repetitions.
    :returns: the text that it stands for.
    """
    parts = data[2:].decode("utf-8", "surrogateescape").split("\0", maxsplit=2)
    if len(parts) > 2:
        parts[1] *= _times(data, parts[1]) // share
    return "".join(parts)


def _times(data: bytes, unit: str) -> int:
    return min(int.from_bytes(data[:2], "big"), LONGEST_TEXT // max(1, len(unit)))


def check(data: bytes) -> None:
    """Parse what an input stands for.

    :raises AssertionError: where something does not hold that has to.
    """
    text = text_of(data)
    start = time.thread_time()
    report = parse(text)
    seconds = time.thread_time() - start
    bound = SECONDS_AT_MOST + SECONDS_A_CHARACTER * len(text)
    # What is slow once may have been disturbed.
    assert seconds < bound or _seconds(text) < bound, f"{seconds:.3f} s for {len(text)} characters"
    if seconds > SECONDS_TO_COMPARE:
        _check_growth(data, text)
    assert report.render() == text, "the report does not give the text back"
    lines = [found.line for found in report.unparsed]
    assert lines == sorted(lines), "what was not understood is out of order"
    assert all(found.text in text and found.text and found.reason for found in report.unparsed), "no quotation"
    json.dumps(report.to_dict(), allow_nan=False)


def _check_growth(data: bytes, text: str) -> None:
    quarter = text_of(data, share=4)
    if len(quarter) * 3 > len(text) or int.from_bytes(data[:2], "big") < LEAST_TIMES:
        return
    for _ in range(3):
        growth = _seconds(text) / _seconds(quarter)
        if growth < GROWTH_AT_MOST:
            return
    raise AssertionError(f"{len(text)} characters cost {growth:.1f} times what {len(quarter)} do")


def _seconds(text: str, rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        start = time.thread_time()
        parse(text)
        times.append(time.thread_time() - start)
    return min(times)


def seeds() -> Iterator[bytes]:
    """Give the inputs to start from: the recorded reports, by sections, threads and lines, once and repeated."""
    for path in sorted(RECORDED.glob("*.txt")):
        text = path.read_text("utf-8")
        for mark in ("\n:::", "\n   \n", "\n     "):
            for piece in text.split(mark)[:3]:
                data = (mark.lstrip("\n") + piece + "\n").encode()[:LONGEST_INPUT]
                yield b"\0\0" + data
                yield b"\3\0\0" + data + b"\0"
    for word in WORDS:
        yield b"\3\0\0" + word.encode().decode("unicode_escape").encode("latin-1") + b"\0"


def fuzz(corpus: Path, seconds: int) -> None:
    """Run until the time is over or something is found; the process ends here."""
    for number, data in enumerate(seeds()):
        (corpus / f"seed-{number:03d}").write_bytes(data)
    words = corpus / "words.dict"
    words.write_text("".join(f'"{word}"\n' for word in WORDS), "utf-8")
    options = {
        "max_total_time": seconds,
        "max_len": LONGEST_INPUT,
        "dict": words,
        "artifact_prefix": f"{corpus}/found-",
        "print_final_stats": 1,
        "timeout": 60,
        "rss_limit_mb": 4096,
    }
    atheris.Setup([sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), str(corpus)], check)
    atheris.Fuzz()


def main() -> None:
    """Fuzz, or replay a finding."""
    parser = argparse.ArgumentParser(description="Fuzz the hot-threads parser.")
    parser.add_argument("--seconds", type=int, default=600, help="for how long (default: %(default)s)")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="what keeps the inputs (default: %(default)s)")
    parser.add_argument("--replay", type=Path, help="check the input in this file, and nothing else")
    arguments = parser.parse_args()
    if arguments.replay:
        check(arguments.replay.read_bytes())
    else:
        arguments.corpus.mkdir(parents=True, exist_ok=True)
        fuzz(arguments.corpus, arguments.seconds)


if __name__ == "__main__":
    main()
