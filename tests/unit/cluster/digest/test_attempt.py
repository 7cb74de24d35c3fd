"""A digest from its captures to its files: its period, what it finds, and that any death leaves nothing half done."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.digest.attempt import DigestPlan, make_digest
from airflow_provider_mediaops.cluster.digest.period import Period, read_period
from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError
from tests.unit.cluster.digest.captured_days import (
    MERGE,
    MONDAY,
    SEARCH,
    SORT,
    hot,
    text_at,
    write_capture,
    write_two_weeks,
)
from tests.unit.storage.dying import DeathError, die_at

ALL = Period()
WEEK = Period(MONDAY.timestamp(), (MONDAY + timedelta(days=7)).timestamp())
NOW = datetime(2026, 11, 23, 6, tzinfo=timezone.utc)
STEP = "org.apache.lucene.util.automaton.RunAutomaton.step"
COMPARE = "org.opensearch.search.sort.Sorting.compare"


def make(
    source: object,
    destination: object,
    period: Period = ALL,
    **options: Any,
) -> dict[str, Any]:
    plan = DigestPlan((str(source),), str(destination), period)
    given: dict[str, Any] = {"log": lambda _: None, "warn": lambda _: None, **options}
    return make_digest(plan, **given)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*") if path.is_file()}


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The captures of two weeks."""
    folder = tmp_path_factory.mktemp("two_weeks")
    write_two_weeks(folder, every=timedelta(hours=6))
    return folder


@pytest.fixture(scope="module")
def week(days: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a week's digest."""
    folder = tmp_path_factory.mktemp("week")
    make(days, folder / "digest.html", WEEK)
    return folder


@pytest.fixture
def profiles(week: Path) -> list[dict[str, Any]]:
    """The profiles of the week: of scheduled captures, and of those at spikes."""
    found: list[dict[str, Any]] = json.loads((week / "digest.json").read_text())["profiles"]
    return found


@pytest.mark.parametrize("formats", [("txt", "json"), ("txt",), ("json",)])
@pytest.mark.parametrize("suffix", [".html", ".json", ".txt", ""])
def test_no_capture_is_replaced_by_a_digest_of_its_name(tmp_path: Path, formats: tuple[str, ...], suffix: str) -> None:
    text = text_at(MONDAY, hot("data-1", "search", 50, SEARCH))
    name = write_capture(tmp_path, MONDAY, text, formats=formats)
    before = contents(tmp_path)

    for source in (tmp_path, name.with_suffix(f".{formats[-1]}")):
        with pytest.raises(InvalidArgumentError, match="is the source, too, which the digest would replace"):
            make(source, name.with_suffix(suffix))

    assert contents(tmp_path) == before


class TestFindings:
    def test_recurring_frames_are_in_k_of_n_captures_of_one_series(self, profiles: Any) -> None:
        scheduled, spike = profiles
        frames = {frame["frame"]: frame for frame in scheduled["frames"]}
        assert (scheduled["series"], scheduled["captures"], scheduled["captures_before"]) == ("scheduled", 28, 28)
        assert (frames[COMPARE]["captures"], frames[COMPARE]["of"], frames[COMPARE]["new"]) == (28, 28, False)
        assert (frames[STEP]["captures"], frames[STEP]["of"], frames[STEP]["new"]) == (14, 28, True)
        assert frames[STEP]["pools"] == {"search": 14}
        assert frames[STEP]["nodes"] == 3
        assert frames[STEP]["first"] == "2026-11-16T12:00:00+00:00"
        assert sum(frame["share_percent"] for frame in scheduled["frames"]) == pytest.approx(100, abs=0.1)
        assert (spike["series"], spike["captures"]) == ("spike", 3)
        assert [(frame["frame"], frame["captures"], frame["of"]) for frame in spike["frames"]] == [(STEP, 3, 3)]

    def test_against_no_captures_nothing_is_new(self, profiles: Any) -> None:
        (frame,) = profiles[1]["frames"]
        assert (frame["new"], frame["captures_before"], frame["of_before"]) == (False, None, None)

    def test_frame_that_has_gone_is_named(self, profiles: Any) -> None:
        (gone,) = profiles[0]["gone"]
        assert gone["frame"] == "org.apache.lucene.codecs.DocValuesConsumer.merge"
        assert (gone["captures_before"], gone["of_before"]) == (28, 28)

    def test_groups_of_tasks_are_in_k_of_n_captures(self, profiles: Any) -> None:
        scheduled, spike = profiles
        tasks = {task["opaque_id"]: (task["captures"], task["of"], task["running"]) for task in scheduled["tasks"]}
        assert tasks == {"nightly-report": (19, 28, 38), "dashboard": (9, 28, 18)}
        assert [task["running"] for task in spike["tasks"]] == [27]

    def test_stacks_of_series_are_under_roots_of_their_own(self, week: Path) -> None:
        lines = (week / "digest.folded").read_text().splitlines()
        assert {line.partition(";")[0] for line in lines} == {"scheduled", "spike"}
        total = sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith("spike;"))
        assert total == round(3 * (97.5 + 88.0))

    def test_frames_in_which_threads_wait_are_last(self, tmp_path: Path) -> None:
        park = ("java.base@21/jdk.internal.misc.Unsafe.park(Native Method)",)
        text = text_at(MONDAY, hot("n", "search", 90, park), hot("n", "search", 5, SORT, number=2))
        write_capture(tmp_path / "in", MONDAY, text)
        result = make(tmp_path / "in", tmp_path / "out.html")
        assert [frame["frame"] for frame in result["frames"]] == [COMPARE]
        assert "Sorting.compare in 1 of 1 scheduled captures" in result["headline"]
        assert "hottest kind of work: Search: which kind is not visible, " in result["headline"]


class TestEnds:
    @pytest.mark.long
    def test_process_that_dies_at_any_step_is_followed_by_the_same_files(
        self, days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first attempt dies at its first step, the next one at its second, and so on."""
        make(days, tmp_path / "digest.html", WEEK)
        undisturbed = contents(tmp_path)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        deaths = 0
        while True:
            with monkeypatch.context() as patch:
                die_at(patch, deaths)
                try:
                    make(days, tmp_path / "digest.html", WEEK)
                except DeathError:
                    deaths += 1
                    continue
            break
        assert deaths > 5
        assert contents(tmp_path) == undisturbed
        # What a dying process was writing has a hidden name.
        hidden = {path.name for path in tmp_path.glob(".*")}
        assert all(re.fullmatch(r"\.digest\.(html|folded|json)\.[0-9a-f]{16}\.part", name) for name in hidden)


class TestNothing:
    def test_captures_of_another_time_and_damaged_ones_are_counted(self, days: Path, tmp_path: Path) -> None:
        later = (MONDAY + timedelta(days=30)).timestamp()
        with pytest.raises(
            PermanentError, match=r"59 are of another time: see since and until; 2 are damaged; the first, .*cut"
        ):
            make(days, tmp_path / "digest.html", Period(later, later + 3600))
        assert not contents(tmp_path)

    def test_a_period_whose_captures_are_all_before_it_is_refused(self, days: Path, tmp_path: Path) -> None:
        end = (MONDAY + timedelta(days=7)).timestamp()
        with pytest.raises(PermanentError, match=r"31 are of the period before"):
            make(days, tmp_path / "digest.html", Period(end, end + 7 * 86_400))


def test_a_digest_in_its_source_folder_does_not_read_itself(tmp_path: Path) -> None:
    write_capture(tmp_path, MONDAY, text_at(MONDAY, hot("n", "search", 50, MERGE)))
    for _ in range(2):
        result = make(tmp_path, tmp_path / "digest.html")
        assert (result["captures"], result["damaged"], result["outside"]) == (1, 0, 0)


@pytest.mark.parametrize("drawn", [".html", ".folded", ".kinds"])
def test_files_of_a_capture_that_hold_no_report_are_not_read(tmp_path: Path, drawn: str) -> None:
    name = write_capture(tmp_path / "in", MONDAY, text_at(MONDAY, hot("n", "search", 50, MERGE)))
    name.with_suffix(drawn).write_text("drawn")
    result = make(tmp_path / "in" / "*", tmp_path / "out.html")
    assert (result["captures"], result["damaged"]) == (1, 0)


@pytest.mark.parametrize("period", [ALL, Period(-62135596800.0, 253402300799.0)])
def test_times_at_the_ends_of_the_calendar_are_no_fault(tmp_path: Path, period: Period) -> None:
    for at in (MONDAY, MONDAY.replace(year=1, month=1, day=2)):
        write_capture(tmp_path / "reports", at, text_at(at, hot("data-1", "search", 50, SEARCH)), formats=("json",))
    result = make(tmp_path / "reports", tmp_path / "out.html", period)
    assert (result["captures"], result["first"]) == (2, "0001-01-02T00:00:00+00:00")
    assert "0001-01-01T00:00:00+00:00" in Path(result["paths"]["json"]).read_text()


@pytest.mark.parametrize(
    ("time", "place"), [(99, "outside"), (100, "before"), (149, "before"), (150, "now"), (199, "now"), (200, "outside")]
)
def test_the_period_before_is_as_long(time: float, place: str) -> None:
    assert Period(150, 200).place_of(time) == place


def test_without_a_beginning_there_is_no_period_before() -> None:
    assert Period(None, 200).before is None
    assert [Period(None, 200).place_of(time) for time in (-1e9, 199, 200)] == ["now", "now", "outside"]
    assert Period().place_of(0) == "now"


@pytest.mark.parametrize(
    "since",
    [
        "2026-11-16",
        "2026-11-16T00:00:00+00:00",
        "2026-11-16T00:00:00Z",
        "2026-11-16 01:00:00+01:00",
        datetime(2026, 11, 16),  # noqa: DTZ001 - it is in UTC
    ],
)
def test_a_moment_is_read_as_templates_write_it(since: object) -> None:
    assert read_period(since, None, NOW) == Period(MONDAY.timestamp(), NOW.timestamp())
