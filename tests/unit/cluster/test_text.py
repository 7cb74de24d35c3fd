"""Figures and names as the page writes them."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.cluster.folded import Measure
from airflow_provider_mediaops.cluster.text import count, difference, excerpt, figure, listed, readable

PERCENT, BYTES, THREADS = Measure("cpu", "percent"), Measure("mem", "bytes"), Measure("wait", "threads")


@pytest.mark.parametrize(
    ("amount", "measure", "written"),
    [
        (96.149, PERCENT, "96.1 %"),
        (0.44, THREADS, "0.4 threads"),
        (0, BYTES, "0 B"),
        (1023, BYTES, "1023 B"),
        (1536, BYTES, "1.5 kB"),
        (3 << 20, BYTES, "3.0 MB"),
        (5 << 30, BYTES, "5.0 GB"),
        (7 << 50, BYTES, "7168.0 TB"),
    ],
)
def test_figures(amount: float, measure: Measure, written: str) -> None:
    assert figure(amount, measure) == written


@pytest.mark.parametrize(
    ("amount", "written"),
    [(12.34, "+12.3 points"), (-0.1, "−0.1 points"), (0.04, "±0.0 points"), (-0.04, "±0.0 points")],  # noqa: RUF001
)
def test_differences_have_a_sign(amount: float, written: str) -> None:
    assert difference(amount, PERCENT) == written


@pytest.mark.parametrize(
    ("names", "written"),
    [(("a",), "a"), (("a", "b"), "a and b"), (("a", "b", "c"), "a, b and c"), (tuple("abcde"), "a, b, c and 2 more")],
)
def test_names_in_a_sentence(names: tuple[str, ...], written: str) -> None:
    assert listed(names) == written


def test_numbers_of_things() -> None:
    assert [count(number, "thread") for number in (0, 1, 12_345)] == ["0 threads", "1 thread", "12,345 threads"]


def test_names_keep_letters_of_all_scripts() -> None:
    assert readable("größe 検索 a\tb\u200b") == r"größe 検索 a\x09b\u200b"


@pytest.mark.parametrize(
    ("text", "most", "shown", "left_out"),
    [
        ("ab\ncd\n", 6, "ab\ncd\n", 0),
        ("ab\ncd\n", 5, "ab\n", 3),
        ("abcdef", 4, "abcd", 2),
        ("a\r\nb\rc\td\x00", 99, "a\nb\\x0dc\td\\x00", 0),
    ],
)
def test_the_beginning_of_a_text(text: str, most: int, shown: str, left_out: int) -> None:
    assert excerpt(text, most) == (shown, left_out)
