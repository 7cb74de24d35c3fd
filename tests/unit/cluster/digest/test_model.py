"""A digest is bounded, whatever its captures hold and however far apart they are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_mediaops.cluster.digest.capture_sums import CaptureSums, Row, Series
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
from airflow_provider_mediaops.cluster.folded import Measure
from tests.unit.cluster.digest.captured_days import MONDAY, SEARCH, SORT, hot, text_at
from tests.unit.cluster.made_digests import digest_from, sums_at

CPU = Measure("cpu", "percent")
HOUR = timedelta(hours=1)


def sums(number: int, *, series: Series = "scheduled", hours: float = 1.0, text: str = "") -> CaptureSums:
    at = MONDAY + number * hours * HOUR
    report = text or text_at(at, hot("n", "search", 25.0 + number, SEARCH), hot("n", "write", 12.5, SORT))
    return sums_at(at, report, f"/r/{number:06}.txt", series=series)


def test_series_have_profiles_of_their_own() -> None:
    digest = digest_from([sums(0), sums(1, series="spike"), sums(2, series="unknown"), sums(3)])
    assert {key: profile.frames.captures for key, profile in digest.profiles.items()} == {
        ("scheduled", CPU): 2,
        ("spike", CPU): 1,
        ("unknown", CPU): 1,
    }


@pytest.mark.parametrize(
    ("hours", "width"), [(1 / 6, 600), (1.0, 1800), (3.0, 7200), (24.0, 43_200), (24 * 365.0, 31_449_600)]
)
def test_spans_get_longer_with_the_time_and_stay_few(hours: float, width: int) -> None:
    digest = digest_from(sums(number, hours=hours) for number in range(48))
    spans = digest.profiles["scheduled", CPU].spans
    assert digest.width == width
    assert sum(sizes[0] for sizes in spans.values()) == 48
    assert (max(spans) - min(spans)) / width <= MOST_SPANS
    assert all(span % width == 0 for span in spans)


def test_a_cell_names_its_hottest_captures() -> None:
    digest = digest_from(sums(number, hours=0.01) for number in range(9))
    profile = digest.profiles["scheduled", CPU]
    ((span, (captures, _)),) = profile.pools.rows["search"].items()
    assert captures == 9
    assert [named.path for named in profile.named["search", span]] == [
        "/r/000008.txt",
        "/r/000007.txt",
        "/r/000006.txt",
    ]


def test_hostile_captures_do_not_make_it_large() -> None:
    """No two captures share a frame, a pool or a stack, but for one frame that all have."""
    digest = Digest()
    for number in range(60):
        odd = (
            hot(f"n{number}", f"pool-{number}-{each}", 1.0 + each % 7, (f"o.x.C{number}.m{each}(C.java:1)", *SEARCH))
            for each in range(100)
        )
        digest.add(sums(number, text=text_at(MONDAY, hot("n", "search", 50.0, SEARCH), *odd)))
    profile = digest.profiles["scheduled", CPU]
    assert len(profile.frames.rows.rows) <= 2 * MOST_ROWS
    assert len(profile.stacks.rows) <= 2 * MOST_STACKS
    assert len(profile.pools.rows) <= 2 * MOST_POOLS + 1
    assert {pool for pool, _ in profile.named} == set(profile.pools.rows)
    frames = profile.frames.rows
    assert frames.rows["org.apache.lucene.util.automaton.RunAutomaton.step",].captures == 60
    assert 1 <= frames.error <= 3
    # Nothing is lost of the sums of all.
    assert sum(amount for *_, amount in profile.pools.ranked()) == pytest.approx(profile.frames.amount)
    assert OTHER_POOLS in profile.pools.rows


def test_of_many_damaged_files_the_first_are_named() -> None:
    digest = Digest()
    for number in range(MOST_DAMAGED + 5):
        digest.add_damaged(f"/r/{number}.txt", "it is empty")
    assert digest.damaged_count == MOST_DAMAGED + 5
    assert len(digest.damaged) == MOST_DAMAGED


def test_sums_of_spans_that_were_joined_are_those_of_all_captures() -> None:
    """The first captures were summed up in shorter spans than the last one."""
    captures = [*(sums(number, hours=0.25) for number in range(39)), sums(1000)]
    profile = digest_from(captures).profiles["scheduled", CPU]
    total = sum(each.amount for each in captures)
    assert [sum(column) for column in zip(*profile.spans.values(), strict=True)] == [40, total]
    for table in (profile.pools, profile.works, profile.stacks):
        assert sum(amount for *_, amount in table.ranked()) == total
        assert {span for row in table.rows.values() for span in row} == set(profile.spans)
    assert {span for _, span in profile.named} == set(profile.spans)


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
