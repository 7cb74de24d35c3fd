"""What a task instance has published is found again, by it alone; and what was staged beside it is not resumed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError
from tests.unit.storage.places import Place, StoppedError, attempt, owner, rows, stopped

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.ownership import Owner

# When a run began; one of them on the second.
STARTS = ("2026-11-24T10:00:00+00:00", "2026-11-24T10:00:00.500000+00:00", "2026-11-24T12:00:00+00:00")

# What a receipt may hold once somebody has changed it by hand, beside its other fields.
OWNER = {"task": "other", "parameters": "", "clears": 0, "run_start": ""}
RECEIPT = {"owner": OWNER, "summary": {"bytes": 1}, "digest": None, "identity": "1:1", "earlier_owners": []}
NO_OWNERS: list[object] = ["text", 7, True, None, {"0": 1}, [None], ["text"], [{}]]
NO_FIELDS: list[dict[str, object]] = [
    {"task": ["a"]},
    {"task": "\ud800"},
    {"parameters": {}},
    {"clears": "9"},
    {"run_start": 5},
    {"x": 1},
]
NO_RECEIPTS: list[object] = [
    "text",
    7,
    [1],
    True,
    {"owner": 1},
    RECEIPT | {"summary": 5},
    RECEIPT | {"identity": 5},
    *(RECEIPT | {"earlier_owners": value} for value in [*NO_OWNERS, *([OWNER | fields] for fields in NO_FIELDS)]),
]


def tasks_in_receipt(place: Place) -> list[str]:
    """Return the task that has published, and those before it."""
    content = json.loads(place.read(".d.jsonl.checkpoint"))
    return [who["task"] for who in (content["last_receipt"]["owner"], *content["last_receipt"]["earlier_owners"])]


class TestPublished:
    def test_nothing(self, place: Place) -> None:
        assert place.dataset().published(owner()) is None
        assert place.names() == []

    def test_by_this_task_instance(self, place: Place) -> None:
        summary = attempt(place.dataset(), owner(), rows(0)).summary

        assert place.dataset().published(owner()) == summary
        assert place.dataset().published(owner()) == summary

    @pytest.mark.parametrize("other", [owner("other"), owner(parameters="others"), owner(clears=1)])
    def test_by_another_or_before_a_clear(self, place: Place, other: Owner) -> None:
        attempt(place.dataset(), owner(), rows(0))

        assert place.dataset().published(other) is None

    @pytest.mark.parametrize(("clears", "start"), [(0, 1), (1, 1), (0, 0)])
    def test_a_cleared_task_resumes_nothing_that_was_staged_after_it_had_published(
        self, place: Place, clears: int, start: int
    ) -> None:
        """An attempt that was thought dead may begin after another one has published: of its try, or after a clear."""
        attempt(place.dataset(), owner(clears=1, run_start=STARTS[1]), rows(0))
        attempt(place.dataset(), owner(clears=clears, run_start=STARTS[start]), rows(1), stop=True)

        # The run had ended before this clear, so it has begun anew.
        cleared = owner(clears=2, run_start=STARTS[2])
        staging = attempt(place.dataset(), cleared, rows(2), stop=True)
        assert (staging.resumed, staging.rows) == (False, len(rows(2)))
        assert attempt(place.dataset(), cleared, rows(3)).resumed is True

    def test_nor_if_the_published_file_has_been_removed_since(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0))
        attempt(place.dataset(), owner(), rows(1), stop=True)
        place.remove("d.jsonl")

        assert attempt(place.dataset(), owner(clears=1), rows(2)).resumed is False
        assert place.lines() == rows(2)

    @pytest.mark.parametrize("following", [owner(), owner(clears=1)])
    def test_what_is_staged_after_the_file_was_removed_is_resumed(self, place: Place, following: Owner) -> None:
        attempt(place.dataset(), owner(), rows(0))
        place.remove("d.jsonl")
        attempt(place.dataset(), owner(), rows(1), stop=True)

        assert attempt(place.dataset(), following, rows(3)).resumed is True
        assert place.lines() == rows(1, 4)

    def test_nor_if_the_file_was_removed_between_two_attempts(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0))
        attempt(place.dataset(), owner(), rows(1), stop=True)
        place.remove("d.jsonl")
        assert attempt(place.dataset(), owner(), rows(2), stop=True).resumed is True

        assert attempt(place.dataset(), owner(clears=1), rows(3)).resumed is False
        assert place.lines() == rows(3)

    @pytest.mark.parametrize("others", [1, 3, 10])
    def test_nor_if_others_have_published_since(self, place: Place, others: int) -> None:
        attempt(place.dataset(), owner(), rows(0))
        for number in range(others):
            attempt(place.dataset(), owner(f"other {number}"), rows(number))
        attempt(place.dataset(), owner(), rows(1), stop=True)

        assert attempt(place.dataset(), owner(clears=1), rows(2)).resumed is False
        assert place.lines() == rows(2)

    def test_nor_if_another_has_published_and_found_the_file_unchanged(self, place: Place) -> None:
        for who in (owner(), owner("other")):
            with place.dataset().staging(who) as staging:
                staging.commit(rows(0), None)
                staging.digest = "the same"
        assert staging.summary["changed"] is False
        attempt(place.dataset(), owner(), rows(1), stop=True)

        assert attempt(place.dataset(), owner(clears=1), rows(2)).resumed is False

    def test_the_size_of_an_unchanged_file_is_known_without_the_receipt_of_it(self, place: Place) -> None:
        for who in (owner(), owner("other")):
            with place.dataset().staging(who) as staging:
                staging.commit(rows(0), None)
                staging.digest = "the same"
            content = json.loads(place.read(".d.jsonl.checkpoint"))
            del content["last_receipt"]["summary"]["bytes"]
            place.write(".d.jsonl.checkpoint", json.dumps(content).encode() + b"\n")

        assert staging.summary["changed"] is False
        assert staging.summary["bytes"] == len(place.read("d.jsonl"))

    def test_nor_if_another_program_has_replaced_the_file(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0))
        place.write("d.jsonl", b"of another program")
        attempt(place.dataset(), owner(), rows(1), stop=True)

        assert attempt(place.dataset(), owner(clears=1), rows(2)).resumed is False

    @pytest.mark.parametrize("replaced_with", [None, b"of another program"])
    @pytest.mark.parametrize("attempts", [1, 2])
    def test_nor_if_the_attempt_has_shortened_its_journal(
        self, place: Place, attempts: int, replaced_with: bytes | None
    ) -> None:
        """The journal of a local disk is written anew once it is long; it keeps the latest receipt."""
        for who in (owner(), owner("other")):
            attempt(place.dataset(), who, rows(0))
        if replaced_with:
            place.write("d.jsonl", replaced_with)
        for _ in range(attempts):
            with stopped(), place.dataset().staging(owner()) as staging:
                for _ in range(2):
                    staging.commit(rows(1), "long" * 100_000)
                raise StoppedError

        assert attempt(place.dataset(), owner(clears=1), rows(2)).resumed is False
        assert place.lines() == rows(2)

    @pytest.mark.parametrize("other", [owner("other", clears=3), owner(parameters="others", clears=3)])
    def test_what_others_have_published_makes_no_attempt_superfluous(self, place: Place, other: Owner) -> None:
        attempt(place.dataset(), other, rows(0))
        attempt(place.dataset(), owner(), rows(1), stop=True)

        assert attempt(place.dataset(), owner(clears=1), rows(3)).resumed is True

    def test_a_task_is_once_in_the_receipt(self, place: Place) -> None:
        for who in ("a", "b", "c", "b", "a"):
            attempt(place.dataset(), owner(who), rows(0))

        assert tasks_in_receipt(place) == ["a", "b", "c"]

    def test_the_receipt_does_not_grow_with_the_tasks_that_have_published(self, place: Place) -> None:
        for number in range(40):
            attempt(place.dataset(), owner(f"other {number}"), rows(0))

        assert tasks_in_receipt(place) == [f"other {n}" for n in range(39, 28, -1)]

    @pytest.mark.parametrize("damaged", NO_RECEIPTS)
    def test_a_receipt_that_somebody_has_damaged_is_none_of_a_task(self, place: Place, damaged: object) -> None:
        attempt(place.dataset(), owner(), rows(0))
        content = json.loads(place.read(".d.jsonl.checkpoint"))
        place.write(".d.jsonl.checkpoint", json.dumps(content | {"last_receipt": damaged}).encode() + b"\n")

        if "://" not in place.prefix:
            assert place.dataset().published(owner()) is None
            assert attempt(place.dataset(), owner(clears=1), rows(1)).resumed is False
            return
        # Somebody may be writing.
        with pytest.raises(DestinationInUseError, match="cannot be understood"):
            place.dataset().published(owner())
        with pytest.raises(DestinationInUseError, match="cannot be understood"):
            attempt(place.dataset(), owner(clears=1), rows(1))

    @pytest.mark.parametrize(
        ("writer", "staged", "following"),
        [
            ((5, 0), (3, 0), (3, 0)),  # cleared with fewer retries, and tried again
            ((2, 0), (2, 1), (2, 1)),  # of a run that was deleted and made again, and tried again
            ((4, 0), (2, 1), (3, 1)),  # the same, and cleared
            ((2, 0), (3, 1), (4, 2)),  # cleared after its run had ended, and once more
        ],
    )
    def test_what_a_later_try_has_staged_is_resumed(
        self, place: Place, writer: tuple[int, int], staged: tuple[int, int], following: tuple[int, int]
    ) -> None:
        writes, stages, follows = (
            owner(clears=clears, run_start=STARTS[number]) for clears, number in (writer, staged, following)
        )
        attempt(place.dataset(), writes, rows(0))
        attempt(place.dataset(), stages, rows(1), stop=True)

        assert attempt(place.dataset(), follows, rows(3)).resumed is True
        assert place.lines() == rows(1, 4)

    def test_retries_resume_after_another_program_has_replaced_the_published_file(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0))
        place.write("d.jsonl", b"of another program")

        assert place.dataset().published(owner()) is None
        attempt(place.dataset(), owner(), rows(1), stop=True)
        assert attempt(place.dataset(), owner(), rows(3), stop=True).resumed is True
        assert attempt(place.dataset(), owner(), rows(5)).resumed is True
        assert place.lines() == rows(1, 6)

    def test_a_cleared_task_does_the_work_again(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0))

        assert attempt(place.dataset(), owner(clears=1), rows(2)).resumed is False
        assert place.lines() == rows(2)
        assert place.dataset().published(owner(clears=1))

    def test_not_where_the_file_is_gone(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0))
        place.remove("d.jsonl")

        assert place.dataset().published(owner()) is None
        assert attempt(place.dataset(), owner(), rows(2)).resumed is False
        assert place.lines() == rows(2)

    def test_not_where_another_has_published_since(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0))
        attempt(place.dataset(), owner("other"), rows(2))

        assert place.dataset().published(owner()) is None

    def test_while_another_has_only_begun(self, place: Place) -> None:
        summary = attempt(place.dataset(), owner(), rows(0)).summary
        with place.dataset().staging(owner("other")) as staging:
            staging.commit(rows(2), None)
            assert place.dataset().published(owner()) == summary

    def test_a_stage_is_not(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0), stop=True)

        assert place.dataset().published(owner()) is None

    def test_each_destination_has_its_own(self, place: Place) -> None:
        attempt(place.dataset("a.jsonl"), owner(), rows(0))

        assert place.dataset("b.jsonl").published(owner()) is None
