"""A digest is the same however its captures are split, and bounded whatever they hold."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from airflow_provider_mediaops.cluster.digest.capture_sums import CaptureSums, Series, sums_of
from airflow_provider_mediaops.cluster.digest.model import MOST_DAMAGED, MOST_SPANS, Digest
from airflow_provider_mediaops.cluster.digest.profile import MOST_POOLS, MOST_ROWS, MOST_STACKS, OTHER_POOLS
from airflow_provider_mediaops.cluster.hot_threads import parse
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
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


def again(digest: Digest) -> Digest:
    return Digest.from_dict(parse_json(json_line(digest.to_dict())))


def plain(digest: Digest) -> object:
    return json.loads(json.dumps(digest.to_dict()))


@pytest.mark.parametrize("cut", [1, 7, 39])
def test_merged_parts_are_the_whole(cut: int) -> None:
    """Also if the parts have spans of other lengths than the whole."""
    captures = [sums(number, hours=6) for number in range(40)]
    merged = Digest()
    for part in (captures[:cut], captures[cut:]):
        merged.merge(again(digest_of(*part)))
    whole = digest_of(*captures)
    assert merged.width == whole.width
    one, other = merged.profiles["scheduled", "cpu"], whole.profiles["scheduled", "cpu"]
    assert one.frames.rows.rows == other.frames.rows.rows
    assert one.spans == other.spans
    assert one.stacks == other.stacks
    cells = [
        {pool: {span: cell.to_list() for span, cell in row.items()} for pool, row in each.cells.items()}
        for each in (one, other)
    ]
    assert cells[0] == cells[1]


def test_a_digest_survives_json() -> None:
    digest = digest_of(sums(0), sums(1, series="spike"))
    digest.add_before(sums(-3))
    digest.add_damaged("/r/x.txt", "it is empty")
    digest.outside = 4
    assert plain(again(digest)) == plain(digest)


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
    digest.merge(again(digest))
    assert digest.damaged_count == 2 * (MOST_DAMAGED + 5)
    assert len(digest.damaged) == MOST_DAMAGED
