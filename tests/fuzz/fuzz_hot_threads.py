"""
Search, guided by coverage, for a text that the hot-threads parser fails on, loses a part of, or is slow at.

    python -m tests.fuzz.fuzz_hot_threads --seconds 600

It needs atheris (dependency group ``fuzz``) and is not part of the suites. It starts from the recorded reports of
``tests/data/hot_threads``, whole and in parts, and mutates them. What reaches new code is kept in the corpus folder,
for the next run. A finding ends the run: its input is written there too (``found-…``), and ``--replay FILE`` shows it
again. It then belongs into ``tests/unit/cluster/hot_threads/test_damaged.py``.

An input is a text in UTF-8. With two zero bytes in it, what stands between them is repeated, as often as the number in
the first two bytes says: a text of a few bytes that costs more than its share shows when there are thousands of it.
Three things must hold for each: the report gives the text back to the last character and can be written as JSON, its
list of what was not understood is in order and quotes the text, and the time on the processor stays below a bound that
grows with the length alone; where a part is repeated, four times the text must not cost much more than four times.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

with atheris.instrument_imports(include=["airflow_provider_mediaops.cluster"]):
    from airflow_provider_mediaops.cluster.folded import folded
    from airflow_provider_mediaops.cluster.hot_threads.parser import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPUS = Path(".cache/fuzz-hot-threads")
RECORDED = Path(__file__).parents[1] / "data" / "hot_threads"
#: Words by which the lines of a report are known, for the fuzzer to put together.
WORDS = (
    *(
        "::: {",
        "}{",
        "]\n",
        "][",
        "[inet[/",
        "]]{",
        "{a=b}\n",
        "{10.0.0.1:9300}",
        "qT7xH2b0Qm6UdXo5cVnK1w",
        "Hot threads at ",
    ),
    *("2022-04-01T15:15:27.658Z", ", interval=500ms", ", busiestThreads=3", ", ignoreIdleThreads=true:\n"),
    *("10.0% (5ms out of 500ms) cpu usage", "9.9% [cpu=0.1%, other=9.8%] (", "1.2mb memory allocated", " by thread '"),
    *("unique snapshot\n", "10/10 snapshots sharing", " following 2 elements\n", "       a.B.c(B.java:1)\n"),
    *("not supported", "# ", "\r\n", "\n\n", "\0", "\x85", "\ufeff", "$ curl\n", "{}{:9300}"),
)
#: What is repeated behind each of them to begin with.
UNITS = (*"x .,:=0#%'(){}[]", "\n", "\n ", "~\n", ":::\n", "1% (\n", "a.b()\n", "~\na.b()\n", "unique snapshot\n~\n")
#: Headers of versions of which no report is recorded.
HEADERS = (
    "::: [n1][qT7xH2b0Qm6UdXo5cVnK1w][es1][inet[es1/10.0.0.1:9300]]{a=b, c=d}",
    "::: {n1}{qT7xH2b0Qm6UdXo5cVnK1w}{es1}{10.0.0.1:9300}{a=b}",
    "::: {n1}{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{x1}{es1}{[fe80::1]:9300}{hs}{9.1.0}{80-90}{a=b}",
)
LONGEST_INPUT = 2_000
LONGEST_TEXT = 8_000
# Instrumented code is several times slower than what the benchmark measures, and the machine may be busy.
SECONDS_AT_MOST = 0.05
SECONDS_A_CHARACTER = 40e-6
# A text is compared with a quarter of it where both can be measured; linear is 4, quadratic is 16.
SECONDS_TO_COMPARE = 0.002
GROWTH_AT_MOST = 7.0
LEAST_TIMES = 16


def parts_of(data: bytes) -> tuple[str, str, int, str]:
    """Spell out an input: what comes first, what is repeated, how often, and what comes last."""
    first, *rest = data[2:].decode("utf-8", "surrogateescape").split("\0", maxsplit=2)
    if len(rest) < len(("unit", "last")):
        return "\0".join([first, *rest]), "", 0, ""
    unit, last = rest
    return first, unit, min(int.from_bytes(data[:2], "big"), LONGEST_TEXT // max(1, len(unit))), last


def check(data: bytes) -> None:
    """Parse what an input stands for.

    :raises AssertionError: where something does not hold that has to.
    """
    first, unit, times, last = parts_of(data)
    text = first + unit * times + last
    start = time.thread_time()
    report = parse(text)
    seconds = time.thread_time() - start
    bound = SECONDS_AT_MOST + SECONDS_A_CHARACTER * len(text)
    # What is slow once may have been disturbed.
    assert seconds < bound or _seconds(text) < bound, f"{seconds:.3f} s for {len(text)} characters"
    if seconds > SECONDS_TO_COMPARE and times >= LEAST_TIMES:
        _check_growth(text, first + unit * (times // 4) + last)
    assert report.render() == text, "the report does not give the text back"
    lines = [found.line for found in report.unparsed]
    assert lines == sorted(lines), "what was not understood is out of order"
    assert all(found.text in text and found.text and found.reason for found in report.unparsed), "no quotation"
    json.dumps(report.to_dict(), allow_nan=False)
    folded([report]).encode()


def _check_growth(text: str, quarter: str) -> None:
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
    """Give the inputs to start from: parts of the recorded reports, once and repeated, headers, and words."""
    for path in sorted(RECORDED.glob("*.txt")):
        text = path.read_text("utf-8")
        for mark in ("\n:::", "\n   \n", "\n     "):
            for piece in text.split(mark)[:3]:
                data = (mark.lstrip("\n") + piece + "\n").encode()[:LONGEST_INPUT]
                yield b"\0\0" + data
                yield b"\3\0\0" + data + b"\0"
    for header in HEADERS:
        yield b"\0\0" + header.encode()
    for word, unit in itertools.product(WORDS, UNITS):
        yield b"\xff\xff" + f"{word}\0{unit}\0~".encode()


def fuzz(corpus: Path, seconds: int) -> None:
    """Run until the time is over or something is found; the process ends here."""
    for number, data in enumerate(seeds()):
        (corpus / f"seed-{number:03d}").write_bytes(data)
    words = corpus / "words.dict"
    escaped = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in WORDS)
    words.write_text("".join(f'"{word}"\n' for word in escaped), "utf-8")
    options = {
        "max_total_time": seconds,
        "max_len": LONGEST_INPUT,
        "dict": words,
        "artifact_prefix": f"{corpus}/found-",
        "print_final_stats": 1,
        "timeout": 20,
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
