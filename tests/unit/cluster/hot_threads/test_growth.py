"""What reading costs: time and memory grow with the text's length and no faster, whatever the text is."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.cluster.hot_threads.short_texts import HEADER, REPORT, SAMPLING, STACK, THREAD, UNIQUE

pytestmark = pytest.mark.long


LONG = 300_000


@pytest.mark.parametrize(
    "text",
    [
        "::: {" + "a}{" * LONG + "a}",
        "::: {a}{b}{1.1.1.1:1}{k=" + "v," * LONG + "}",
        "::: [" + "a][" * LONG + "inet[/",
        ":::" + " " * LONG + "x",
        HEADER + " \n" * LONG + "x",
        HEADER + SAMPLING + " \n" * LONG + "x",
        "Hot threads at " + "x=1," * LONG + ":",
        "9" * LONG + "% (",
        "1.0% (" + " " * LONG + " by thread '" + "'" * LONG,
        THREAD[:-2] + "' " * LONG + "x",
        THREAD[:-3] + "[]" * LONG + "'",
        "a.b(" * LONG + ")",
        "a" * LONG + ".b" + ")" * LONG,
        "a.b(" + ") " * LONG + "x",
        " " * LONG + "#" * LONG + " " * LONG,
        "9/9 snapshots sharing following " + "9" * LONG,
        "~" + "\n  " * LONG + "~",
        "unique snapshot" + " " * LONG + "x",
        # As if they were wrapped: such a text is read several times.
        '{"log":"' + '\\"' * (LONG // 4) + "\\n::: {a}\\n",
        '::: {a}\n ::: {b}\n"a"' + " " * (LONG // 4) + "x\n",
        "\\n::: {a}" + "\"'" * (LONG // 4),
        "x ::: {a}\n" + " " * (LONG // 4) + "\n y 1/2 snapshots sharing following",
        "".join(f"{chr(97 + n % 26)}{n} x{n}y ::: {{a}}\n" for n in range(LONG // 36)),
        "1 " * (LONG // 4) + "::: {a}\n",
        "<p " * (LONG // 4) + "::: {a}",
        "a [part 1]: H4sIAAAA\n" * (LONG // 80),
        "5% (1 by thread ‘" * (LONG // 36),  # noqa: RUF001
        "a 1/2 snapshots sharing following 3 elements " + "a.b(" * (LONG // 4),
        '"log" ' * (LONG // 4) + "::: {a}",
    ],
    ids=lambda text: f"{text[:20].strip()}...",
)
@pytest.mark.parametrize("before", ["", THREAD + UNIQUE], ids=["alone", "in a stack"])
def test_long_text_is_read_in_a_few_passes(before: str, text: str) -> None:
    # Anything quadratic in these lengths would take minutes here.
    assert parse(before + text).render() == before + text


def work(text: str) -> int:
    """How many calls, of Python and of C functions, it takes to read a text."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    # What other tests have left would be finalized meanwhile, by calls that are counted.
    gc.disable()
    sys.setprofile(count)
    try:
        parse(text)
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


@pytest.mark.parametrize(
    "text",
    [
        REPORT,
        HEADER,
        HEADER[:40] + "\n",
        SAMPLING,
        SAMPLING[:40] + "\n",
        THREAD,
        THREAD[:30] + "\n",
        THREAD[:-3] + "\nand more\n",
        STACK,
        "       a.B.c(B.java:1)\n",
        "~\n",
        "\n",
        THREAD + "     unique snapshot\n~\n       a.B.c(B.java:1)\n",
        THREAD + "     1/9 snapshots sharing following 999999999 elements\n\n~\n",
    ],
    ids=lambda text: text.strip()[:40] or "blank",
)
def test_work_grows_with_the_number_of_lines_and_no_faster(text: str) -> None:
    few, many = work(text * 100), work(text * 400)
    # The first lines may take less than those that follow.
    assert many <= 4.01 * few


def frames(number: int) -> str:
    """As many frames, no two of which are the same."""
    return "".join(f"       a.bcd.efgh.Fo{number:05d}.m{line:03d}(Foooo.java:1{line:04d})\n" for line in range(90))


def cost(text: str) -> tuple[float, float]:
    """The memory that parsing takes at its peak, and that the report keeps, by the bytes of the text."""
    # The first text that is not understood loads modules.
    parse("::: {a}\n")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        report = parse(text)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.nodes
    size = len(text.encode())
    return (peak - before) / size, (after - before) / size


@pytest.mark.parametrize(
    ("most", "text"),
    [
        # Reports.
        (4, HEADER + SAMPLING + "".join(THREAD + UNIQUE + frames(number) for number in range(100))),
        (4, "".join(HEADER.replace("n1", f"n{number}") + SAMPLING for number in range(2_000))),
        (4, HEADER + SAMPLING + "".join(THREAD.replace("#1", f"#{n}") + UNIQUE for n in range(4_000))),
        (4, HEADER + SAMPLING + "".join(THREAD.replace("#1", f"#{n}") + STACK for n in range(2_000))),
        (5, HEADER + SAMPLING + "".join(THREAD + STACK.replace("1)", f"{number})") for number in range(2_000))),
        (2, REPORT.replace(STACK, STACK * 10) * 500),
        # What is none.
        (2, "".join(f"{number} is what?\n" for number in range(30_000))),
        (2, "<p>\n\n" * 80_000),
        (48, "1% (\n" * 40_000),
        (48, "::: {a}\n" * 20_000),
        (16, THREAD + UNIQUE + "".join(f"a.b{number}()\n" for number in range(40_000))),
        (16, "~\na.b()\n" * 50_000),
    ],
    ids=[
        *("frames that are all different", "nodes with nothing hot", "threads without a stack"),
        *("short stacks", "short stacks that are all different"),
        "stacks that repeat",
        *("lines", "a page", "bare shares", "bare names", "short frames", "lines and frames"),
    ],
)
def test_memory_is_a_few_times_the_text(most: float, text: str) -> None:
    peak, kept = cost(text)
    assert kept <= peak < most


def test_the_same_stack_in_two_threads_is_kept_once() -> None:
    first, second = parse(REPORT + REPORT).nodes
    assert first.threads[0].groups[0] is second.threads[0].groups[0]
