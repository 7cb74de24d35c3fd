"""A digest is bounded, whatever its captures hold and however far apart they are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_mediaops.cluster.digest.capture_sums import CaptureSums, Row, Series, sums_of
from airflow_provider_mediaops.cluster.digest.model import (
    MOST_DAMAGED,
    MOST_POOLS,
    MOST_ROWS,
    MOST_SPANS,
    MOST_STACKS,
    OTHER_POOLS,
    BoundedRows,
    Digest,
)
from airflow_provider_mediaops.cluster.hot_threads import parse
from tests.unit.cluster.digest.captured_days import MONDAY, SEARCH, SORT, hot, text_at

HOUR = timedelta(hours=1)
BEGIN = MONDAY.timestamp()


def sums(number: int, *, series: Series = "scheduled", hours: float = 1.0, text: str = "") -> CaptureSums:
    at = MONDAY + number * hours * HOUR
    report = text or text_at(at, hot("n", "search", 25.0 + number, SEARCH), hot("n", "write", 12.5, SORT))
    return sums_of(parse(report), path=f"/r/{number:06}.txt", time=at.timestamp(), series=series)


def digest_of(*captures: CaptureSums) -> Digest:
    digest = Digest()
    for each in captures:
        digest.add(each)
    return digest


def test_series_have_profiles_of_their_own() -> None:
    digest = digest_of(sums(0), sums(1, series="spike"), sums(2, series="unknown"), sums(3))
    assert {key: profile.frames.captures for key, profile in digest.profiles.items()} == {
        ("scheduled", "cpu"): 2,
        ("spike", "cpu"): 1,
        ("unknown", "cpu"): 1,
    }


@pytest.mark.parametrize(
    ("hours", "width"), [(1 / 6, 600), (1.0, 1800), (3.0, 7200), (24.0, 43_200), (24 * 365.0, 31_449_600)]
)
def test_spans_get_longer_with_the_time_and_stay_few(hours: float, width: int) -> None:
    digest = digest_of(*(sums(number, hours=hours) for number in range(48)))
    spans = digest.profiles["scheduled", "cpu"].spans
    assert digest.width == width
    assert sum(sizes[0] for sizes in spans.values()) == 48
    assert (max(spans) - min(spans)) / width <= MOST_SPANS
    assert all(span % width == 0 for span in spans)


def test_a_cell_names_its_hottest_captures() -> None:
    digest = digest_of(*(sums(number, hours=0.01) for number in range(9)))
    (cell,) = digest.profiles["scheduled", "cpu"].cells["search"].values()
    assert cell.captures == 9
    assert [named.path for named in cell.named] == ["/r/000008.txt", "/r/000007.txt", "/r/000006.txt"]


def test_hostile_captures_do_not_make_it_large() -> None:
    """No two captures share a frame, a pool or a stack, but for one frame that all have."""
    digest = Digest()
    for number in range(60):
        odd = (
            hot(f"n{number}", f"pool-{number}-{each}", 1.0 + each % 7, (f"o.x.C{number}.m{each}(C.java:1)", *SEARCH))
            for each in range(100)
        )
        digest.add(sums(number, text=text_at(MONDAY, hot("n", "search", 50.0, SEARCH), *odd)))
    profile = digest.profiles["scheduled", "cpu"]
    assert len(profile.frames.rows.rows) <= 2 * MOST_ROWS
    assert len(profile.stacks) <= 2 * MOST_STACKS
    assert len(profile.cells) <= 2 * MOST_POOLS + 1
    frames = profile.frames.rows
    assert frames.rows["org.apache.lucene.util.automaton.RunAutomaton.step",].captures == 60
    assert 1 <= frames.error <= 3
    # Nothing is lost of the sums of all.
    assert sum(amount for _, amount, _ in profile.pools()) == pytest.approx(profile.frames.amount)
    assert OTHER_POOLS in profile.cells


def test_of_many_damaged_files_the_first_are_named() -> None:
    digest = Digest()
    for number in range(MOST_DAMAGED + 5):
        digest.add_damaged(f"/r/{number}.txt", "it is empty")
    assert digest.damaged_count == MOST_DAMAGED + 5
    assert len(digest.damaged) == MOST_DAMAGED


def test_sums_of_spans_that_were_joined_are_those_of_all_captures() -> None:
    """The first captures were summed up in shorter spans than the last one."""
    captures = [*(sums(number, hours=0.25) for number in range(39)), sums(1000)]
    profile = digest_of(*captures).profiles["scheduled", "cpu"]
    total, threads = sum(each.amount for each in captures), sum(each.threads for each in captures)
    columns = [
        [sum(sizes[number] for sizes in profile.spans.values()) for number in (0, 1, 2)],
        [
            sum(getattr(cell, name) for cells in profile.cells.values() for cell in cells.values())
            for name in ("amount", "threads")
        ],
        [sum(sizes[number] for found in profile.stacks.values() for sizes in found.values()) for number in (0, 1)],
        [sum(sizes[number] for found in profile.works.values() for sizes in found.values()) for number in (1, 2)],
    ]
    assert columns == [[40, total, threads], *[[total, threads]] * 3]
    spans = {span for cells in profile.cells.values() for span in cells}
    assert spans == set(profile.spans) == {span for found in profile.stacks.values() for span in found}


def test_the_rarer_rows_are_dropped_and_the_most_that_a_row_may_lack_is_known() -> None:
    rows = BoundedRows(2)
    for name in "abcd":
        rows.add((name,), Row(1))
    rows.prune()
    assert (len(rows.rows), rows.error) == (4, 0)
    for name in "aabce":
        rows.add((name,), Row(1))
    rows.prune()
    assert [key for key, _ in rows.ranked()] == [("a",), ("b",)]
    assert rows.error == 2
    for name in "fgh":
        rows.add((name,), Row(1))
    rows.prune()
    assert rows.error == 3
