"""A digest from its captures to its files: what it finds, and that any death leaves nothing half done."""

from __future__ import annotations

import json
import re
import shutil
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.digest.attempt import DigestPlan, make_digest
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError, TaskStoppedError
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
from tests.unit.storage.attached import attached
from tests.unit.storage.dying import DeathError, Life
from tests.unit.storage.fake_store import FakeStore

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = Period()
WEEK = Period(MONDAY.timestamp(), (MONDAY + timedelta(days=7)).timestamp())
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
def week(days: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result of a week's digest, and its JSON."""
    result = make(days, tmp_path_factory.mktemp("week") / "digest.html", WEEK)
    return result, json.loads(Path(result["paths"]["json"]).read_text())


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


def test_capture_of_which_one_file_is_left_counts_and_pages_are_none(tmp_path: Path) -> None:
    for hour in range(4):
        at = MONDAY + timedelta(hours=hour)
        file = write_capture(tmp_path / "in", at, text_at(at, hot("data-1", "search", 50, SEARCH)))
        file.with_suffix(".html").write_text("<!DOCTYPE html>")
    deleted, overwritten, alone, _ = sorted((tmp_path / "in").glob("*.txt"))
    deleted.unlink()
    overwritten.with_suffix(".json").write_text("")
    alone.unlink()
    alone.with_suffix(".json").unlink()
    warnings: list[str] = []

    result = make(tmp_path / "in", tmp_path / "out.html", warn=warnings.append)

    assert (result["captures"], result["damaged"], result["outside"]) == (3, 0, 0)
    assert result["frames"][0]["captures"] == 2
    assert warnings == [f"Read {overwritten} without the .json file beside it: it is not valid JSON."]


class TestFindings:
    def test_recurring_frames_are_in_k_of_n_captures_of_one_series(self, week: Any) -> None:
        scheduled, spike = week[1]["profiles"]
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

    def test_against_no_captures_nothing_is_new(self, week: Any) -> None:
        (frame,) = week[1]["profiles"][1]["frames"]
        assert (frame["new"], frame["captures_before"], frame["of_before"]) == (False, None, None)

    def test_frame_that_has_gone_is_named(self, week: Any) -> None:
        (gone,) = week[1]["profiles"][0]["gone"]
        assert gone["frame"] == "org.apache.lucene.codecs.DocValuesConsumer.merge"
        assert (gone["captures_before"], gone["of_before"]) == (28, 28)

    def test_groups_of_tasks_are_in_k_of_n_captures(self, week: Any) -> None:
        scheduled, spike = week[1]["profiles"]
        tasks = {task["opaque_id"]: (task["captures"], task["of"], task["running"]) for task in scheduled["tasks"]}
        assert tasks == {"nightly-report": (19, 28, 38), "dashboard": (9, 28, 18)}
        assert [task["running"] for task in spike["tasks"]] == [27]

    def test_damaged_files_are_named_and_left_out(self, week: Any) -> None:
        assert {Path(each["file"]).name for each in week[1]["damaged"]} == {"cut.txt", "empty.txt"}
        assert week[0]["damaged"] == 2

    def test_the_result_is_small_and_has_no_query(self, week: Any) -> None:
        result = week[0]
        assert result["captures"] == 31
        assert result["series"] == {"scheduled": 28, "spike": 3, "unknown": 0}
        # The kinds of work name kinds of queries, and none that was sent.
        assert "regexp" not in json.dumps({**result, "works": []})
        assert [(work["series"], work["work"], work["captures"], work["of"]) for work in result["works"]] == [
            ("scheduled", "search.other", 28, 28),
            ("scheduled", "search.multi_term", 14, 28),
            ("scheduled", "index.buffer", 14, 28),
            ("spike", "search.multi_term", 3, 3),
        ]
        assert "regexp" in json.dumps(week[1])
        share = result["frames"][0]["share_percent"]
        assert result["headline"] == (
            "Hot threads, 2026-11-16 to 2026-11-23: Sorting.compare in 28 of 28 scheduled captures, "
            f"{share:.1f} % of the CPU, pool search; RunAutomaton.step in 3 of 3 captures at "
            "spikes, 100.0 % of the CPU, pool search. New against the period before: RunAutomaton.step."
        )

    def test_stacks_of_series_are_under_roots_of_their_own(self, week: Any) -> None:
        lines = Path(week[0]["paths"]["folded"]).read_text().splitlines()
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


class TestEnds:
    @pytest.fixture
    def undisturbed(self, days: Path, tmp_path: Path) -> dict[str, bytes]:
        destination = tmp_path / "digest.html"
        make(days, destination, WEEK)
        whole = contents(tmp_path)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        return whole

    def test_attempt_that_is_stopped_writes_nothing_and_the_next_ends_with_the_same_files(
        self, days: Path, tmp_path: Path, undisturbed: dict[str, bytes]
    ) -> None:
        with pytest.raises(TaskStoppedError):
            make(days, tmp_path / "digest.html", WEEK, check_stop=_stop_at(30))
        assert not contents(tmp_path)
        make(days, tmp_path / "digest.html", WEEK)
        assert contents(tmp_path) == undisturbed

    def test_process_that_dies_at_any_step_is_followed_by_the_same_files(
        self, days: Path, tmp_path: Path, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first attempt dies at its first step, the next one at its second, and so on."""
        deaths = 0
        while True:
            with monkeypatch.context() as patch:
                life = Life(patch, left=deaths)
                life.of_files()
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


def _stop_at(number: int) -> Callable[[], None]:
    calls = count()

    def stop() -> None:
        if next(calls) == number:
            raise TaskStoppedError

    return stop


class TestNothing:
    def test_a_source_without_captures_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(
            PermanentError, match=r"^There is nothing to digest: source '.*' holds no \.txt or \.json file"
        ):
            make(tmp_path, tmp_path / "out" / "digest.html")
        assert not list((tmp_path / "out").glob("*"))
        (tmp_path / "index.html").write_text("<!DOCTYPE html>")
        with pytest.raises(PermanentError, match=r"holds no \.txt or \.json file of a capture\. No file was written"):
            make(tmp_path, tmp_path / "out" / "digest.html")

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


def test_a_store_has_the_same_files(tmp_path: Path) -> None:
    """And an attempt that ended there is followed by a whole one."""
    for number in range(5):
        at = MONDAY + timedelta(hours=number)
        write_capture(tmp_path / "in", at, text_at(at, hot("n", "search", 50, SEARCH)))
    make(tmp_path / "in", tmp_path / "digest.html")
    places = ("memory://digests@in/", "memory://digests@out/digest.html")
    with attached(FakeStore(), "digests") as store:
        for path in (tmp_path / "in").iterdir():
            store.pipe_file(f"/in/{path.name}", path.read_bytes())
        with pytest.raises(TaskStoppedError):
            make(*places, check_stop=_stop_at(3))
        assert not [path for path in store.find("/out") if "/." not in path]
        result = make(*places)
    local = contents(tmp_path)
    assert (result["path"], result["captures"]) == (places[1], 5)
    assert store.cat_file("/out/digest.folded") == local["digest.folded"]
    frames = [
        json.loads(data)["profiles"][0]["frames"] for data in (store.cat_file("/out/digest.json"), local["digest.json"])
    ]
    assert frames[0] == frames[1]


@pytest.mark.parametrize("period", [ALL, Period(-62135596800.0, 253402300799.0)])
def test_times_at_the_ends_of_the_calendar_are_no_fault(tmp_path: Path, period: Period) -> None:
    for at in (MONDAY, MONDAY.replace(year=1, month=1, day=2)):
        write_capture(tmp_path / "reports", at, text_at(at, hot("data-1", "search", 50, SEARCH)), formats=("json",))
    result = make(tmp_path / "reports", tmp_path / "out.html", period)
    assert (result["captures"], result["first"]) == (2, "0001-01-02T00:00:00+00:00")
    assert "0001-01-01T00:00:00+00:00" in Path(result["paths"]["json"]).read_text()
