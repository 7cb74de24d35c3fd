"""One attempt at an enrichment: what it commits and when, and what it tells."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.batch.runner import BatchUpdate
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.enrichment.attempt import Enrichment, EnrichmentAttempt
from airflow_provider_mediaops.enrichment.dataset_rows import list_lines
from airflow_provider_mediaops.exceptions import InvalidArgumentError, ServiceUnavailableError
from airflow_provider_mediaops.storage.local import LocalBackend
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.storage.source_list import find_files, read_list, version_of
from tests.unit.book_database import CALENDAR, CRIME
from tests.unit.call_flows import FakeClock
from tests.unit.storage.conftest import store as store  # noqa: PLC0414 a fixture

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.dataset import Staging

OWNER = Owner("dag/run/task/-1", "digest")
FOUND = Lookup(CRIME, CRIME, "found", book=Book({"isbn13": CRIME}), requests=1)


def enrichment(destination: object, **fields: Any) -> Enrichment:
    return Enrichment(owner=asdict(OWNER), destination=str(destination), **{"total": 9, **fields})


def nobody(_: str) -> None:
    """Hear what is told."""


def update(*done: Lookup, out_of_order: tuple[Lookup, ...] = (), changed: bool = True) -> BatchUpdate:
    return BatchUpdate(done, out_of_order, {}, len(done), changed=changed)


def attempt_at(
    plan: Enrichment, staging: Staging, log: Callable[[str], None] = nobody, isbns: Sequence[str] = (CRIME,) * 9
) -> EnrichmentAttempt:
    """Begin an attempt, and read all rows of the list, as a batch does ahead of its requests."""
    attempt = EnrichmentAttempt(plan, staging, log, isbns=isbns)
    for _ in attempt.rows():
        pass
    return attempt


def temporary_files() -> int:
    """Count the files without a name that this process has open, and that are no garbage."""
    gc.collect()
    return sum("(deleted)" in str(each.resolve()) for each in Path("/proc/self/fd").iterdir())


@pytest.fixture
def local(tmp_path: Path) -> Iterator[tuple[Enrichment, Staging]]:
    plan = enrichment(tmp_path / "books.jsonl", max_failures=3)
    with plan.dataset().staging(OWNER) as staging:
        yield plan, staging


@pytest.mark.parametrize(
    ("total", "done", "line"),
    [
        (9, 9, "9 of 9 rows: 9 found, 0 not found, 0 invalid, 0 failed; 1.0 a second."),
        (1, 0, "0 of 1 row: 0 found, 0 not found, 0 invalid, 0 failed; 0.0 a second."),
        (
            9120,
            1200,
            "1,200 of 9,120 rows: 1,200 found, 0 not found, 0 invalid, 0 failed; 1.0 a second, 2 h 12 min left.",
        ),
    ],
)
def test_line_says_how_far_how_fast_and_how_long(tmp_path: Path, total: int, done: int, line: str) -> None:
    plan, clock = enrichment(tmp_path / "books.jsonl", total=total), FakeClock()
    with plan.dataset().staging(OWNER) as staging:
        attempt = EnrichmentAttempt(plan, staging, nobody, isbns=[CRIME] * done, clock=clock.clock.monotonic)
        list(attempt.rows())
        clock.wait(done)
        attempt.save(update(*[FOUND] * done))

        assert attempt.end_line().startswith(f"{line} Written to ")


class TestCommitting:
    def test_requests_of_a_bound_are_committed_although_no_row_is_done(self, tmp_path: Path) -> None:
        plan = enrichment(tmp_path / "books.jsonl", max_requests=5)

        def dies_after_three() -> None:
            with plan.dataset().staging(OWNER) as staging:
                attempt = attempt_at(plan, staging)
                attempt.options().budget.spend(3)
                attempt.save(update(changed=False))
                raise ServiceUnavailableError("503")

        with pytest.raises(ServiceUnavailableError):
            dies_after_three()
        with plan.dataset().staging(OWNER) as staging:
            budget = attempt_at(plan, staging).options().budget

        assert budget.left == 2

    def test_row_whose_commit_failed_once_stands_in_the_dataset_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plan, names = enrichment(tmp_path / "books.jsonl", total=3), LocalBackend.names

        def fail_once(*_: object) -> list[str]:
            monkeypatch.setattr(LocalBackend, "names", names)
            raise OSError(116, "Stale file handle")

        def stops_amid_a_commit() -> None:
            with plan.dataset().staging(OWNER) as staging:
                attempt = attempt_at(plan, staging, isbns=[CRIME, CALENDAR, CRIME])
                attempt.save(update(FOUND))
                monkeypatch.setattr(LocalBackend, "names", fail_once)
                try:
                    attempt.save(update(Lookup(CALENDAR, CALENDAR, "not_found")))
                finally:
                    attempt.abort()

        with pytest.raises(OSError, match="Stale file handle"):
            stops_amid_a_commit()
        with plan.dataset().staging(OWNER) as staging:
            attempt = attempt_at(plan, staging, isbns=[CRIME, CALENDAR, "the last"])
            attempt.save(update(Lookup("the last", None, "invalid")))
            attempt.finish()

        lines = (tmp_path / "books.jsonl").read_text().splitlines()
        assert [json.loads(line)["input"] for line in lines] == [CRIME, CALENDAR, "the last"]


class TestGoingOn:
    def interrupted(self, plan: Enrichment, *updates: BatchUpdate) -> dict[str, Any]:
        """Commit updates, and be killed; return the state that is left."""
        with suppress(ZeroDivisionError), plan.dataset().staging(OWNER) as staging:
            attempt = attempt_at(plan, staging, isbns=[CALENDAR, CRIME, "x"])
            for each in updates:
                attempt.save(each)
            raise ZeroDivisionError
        state: dict[str, Any] = staging.state
        return state

    def test_rows_answered_out_of_order_and_doubts_outlive_two_kills(self, tmp_path: Path) -> None:
        plan = enrichment(tmp_path / "books.jsonl", total=3)
        doubts = {"undecided": {}, "disproved": ["foreign"], "speaks_clearly": False}
        failed_too = replace(FOUND, isbn13=CALENDAR, status="failed")
        first = replace(update(out_of_order=(FOUND, failed_too)), doubts=doubts)

        states = [self.interrupted(plan, first), self.interrupted(plan), self.interrupted(plan, first, first)]
        later = self.interrupted(plan, replace(update(), doubts=doubts))

        for state in (*states, later):
            assert {row["isbn13"] for row in state["ahead"]} == {CRIME}
            assert state["doubts"] == doubts
        # Its turn has come.
        done = self.interrupted(plan, update(replace(FOUND, isbn13=CALENDAR), FOUND))
        assert (done["ahead"], done["figures"]["found"]) == ([], 2)

    def test_attempt_saves_before_its_first_update_the_state_that_it_has_resumed(self, tmp_path: Path) -> None:
        plan = enrichment(tmp_path / "books.jsonl", total=3, max_requests=9)
        doubts = {"undecided": {}, "disproved": ["limit"], "speaks_clearly": True}
        before = self.interrupted(plan, replace(update(out_of_order=(FOUND,)), doubts=doubts))

        with suppress(ZeroDivisionError), plan.dataset().staging(OWNER) as staging:
            attempt = attempt_at(plan, staging, isbns=[CALENDAR, CRIME, "x"])
            attempt.options().budget.spend(2)
            attempt.abort()
            raise ZeroDivisionError

        assert staging.state == {**before, "spent": 2}

    def test_a_source_that_has_changed_meanwhile_is_not_read_on(self, tmp_path: Path) -> None:
        source = tmp_path / "isbns.txt"
        source.write_text(f"{CRIME}\n{CALENDAR}\n")
        plan = enrichment(tmp_path / "books.jsonl", source=[str(source)], version=version_of(find_files([str(source)])))
        with suppress(ZeroDivisionError), plan.dataset().staging(OWNER) as staging:
            attempt_at(plan, staging).save(update(FOUND))
            raise ZeroDivisionError
        source.write_text(f"{CALENDAR}\n{CRIME}\n\n")

        with (
            pytest.raises(OSError, match=r"isbns\.txt has changed since the task began; its next attempt starts anew"),
            plan.dataset().staging(OWNER) as staging,
        ):
            attempt_at(plan, staging)

    def test_attempt_that_cannot_read_an_earlier_dataset_leaves_no_file_open(self, tmp_path: Path) -> None:
        (tmp_path / "before.jsonl").write_text("{}\nno dataset\n")
        plan = enrichment(tmp_path / "books.jsonl", reuse=[str(tmp_path / "before.jsonl")])
        with plan.dataset().staging(OWNER) as staging:
            before = temporary_files()

            with pytest.raises(InvalidArgumentError):
                EnrichmentAttempt(plan, staging, nobody, isbns=(CRIME,) * 9)

            assert temporary_files() == before


class TestLists:
    ROWS = ("a", None, 9780140449136, " b ", "half \ud83d", "two\nlines", "")

    def kept(self, destination: object) -> str:
        dataset = enrichment(destination).dataset()
        dataset.check(OWNER)
        return dataset.keep(OWNER, "isbns.jsonl", list_lines(self.ROWS))

    def test_list_that_goes_through_a_file_is_the_same(self, tmp_path: Path) -> None:
        path = self.kept(tmp_path / "day" / "books.csv")

        rows = [row.text for row in read_list(find_files([path]))]
        assert rows == ["a", "", "9780140449136", " b ", "half \ud83d", "two\nlines", ""]

    @pytest.mark.usefixtures("store")
    @pytest.mark.parametrize("folder", ["bucket/day", "bucket/day/", "bucket//day//"])
    def test_list_stands_beside_a_destination_on_a_store(self, folder: str) -> None:
        path = self.kept(f"memory://shelf@{folder}/books.csv")

        assert path.startswith("memory://shelf@")
        # Airflow 3.1 makes one of two slashes.
        assert "/.books.csv.staging/" in path
        assert len(list(read_list(find_files([path])))) == len(self.ROWS)

    def test_list_is_removed_once_the_dataset_is_published(self, tmp_path: Path) -> None:
        path = self.kept(tmp_path / "books.csv")
        with enrichment(tmp_path / "books.csv").dataset().staging(OWNER):
            assert Path(path).exists()
        assert not Path(path).exists()
