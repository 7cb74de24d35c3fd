"""Checkpointed datasets, the same on the local disk and on an object store."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError, DestinationReplacedError, PermanentError
from tests.unit.storage.places import Place, StoppedError, attempt, owner, rows, stopped

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.ownership import Owner

FORMATS = ("jsonl", "csv", "parquet")


def test_commits_are_published_when_the_block_ends(place: Place) -> None:
    with place.dataset().staging(owner()) as staging:
        assert (staging.resumed, staging.rows, staging.state, list(staging.records())) == (False, 0, None, [])
        staging.commit(rows(0), {"token": "T1"})
        staging.commit([], ["any", 1, None])
        staging.commit(rows(2), {"token": None})
        assert (staging.rows, staging.state, list(staging.records())) == (4, {"token": None}, rows(0, 4))
        assert place.visible() == []
        staging.summary["pages"] = 3

    assert place.lines() == rows(0, 4)
    size = len(place.read("d.jsonl"))
    assert staging.summary == {"path": f"{place.prefix}/d.jsonl", "rows": 4, "pages": 3, "bytes": size}
    assert place.visible() == ["d.jsonl"]
    assert place.is_settled()


def test_next_attempt_goes_on_where_the_last_commit_left_off(place: Place) -> None:
    attempt(place.dataset(), owner(), rows(0), rows(2), stop=True)
    assert place.visible() == []

    with place.dataset().staging(owner()) as staging:
        assert (staging.resumed, staging.rows, staging.state) == (True, 4, {"batch": 2})
        assert list(staging.records()) == rows(0, 4)
        staging.commit(rows(4), {"batch": 4})

    assert place.lines() == rows(0, 6)
    assert place.visible() == ["d.jsonl"]
    assert place.is_settled()


def test_discarded_records_are_in_no_dataset_and_those_since_are(place: Place) -> None:
    attempt(place.dataset(), owner("dag/yesterday/task/-1"), rows(9))
    attempt(place.dataset(), owner(), rows(0), rows(2), stop=True)
    with stopped(), place.dataset().staging(owner()) as staging:
        assert staging.resumed
        staging.discard()
        assert (staging.resumed, staging.rows, staging.state, list(staging.records())) == (False, 0, None, [])
        raise StoppedError
    with stopped(), place.dataset().staging(owner()) as staging:
        assert (staging.resumed, staging.rows, staging.state, list(staging.records())) == (False, 0, None, [])
        staging.commit(rows(7), {"batch": 1})
        raise StoppedError
    assert place.lines() == rows(9)

    with place.dataset().staging(owner()) as staging:
        assert (staging.resumed, list(staging.records()), staging.state) == (True, rows(7), {"batch": 1})

    assert place.lines() == rows(7)
    assert place.is_settled()


def test_a_state_without_records_is_gone_on_with(place: Place) -> None:
    attempt(place.dataset(), owner(), [], stop=True)

    with place.dataset().staging(owner()) as staging:
        assert (staging.resumed, staging.rows, staging.state) == (True, 0, {"batch": 0})


@pytest.mark.parametrize("format_", FORMATS)
def test_file_is_made_of_all_attempts_and_replaces_an_older_one(place: Place, format_: str) -> None:
    name = f"d.{format_}"
    attempt(place.dataset(name), owner("old"), rows(7))
    older = place.read(name)
    attempt(place.dataset(name), owner(), rows(0), stop=True)
    assert place.read(name) == older

    summary = attempt(place.dataset(name), owner(), rows(2)).summary
    content = place.read(name)
    assert summary["bytes"] == len(content)
    assert place.visible() == [name]
    assert place.is_settled(name)
    if format_ == "parquet":
        found = pq.read_table(io.BytesIO(content)).to_pylist()
    elif format_ == "csv":
        found = [{**row, "n": int(row["n"])} for row in csv.DictReader(io.StringIO(content.decode()))]
    else:
        found = place.lines()
    assert found == rows(0, 4)


@pytest.mark.parametrize("other", [owner("dag/tomorrow/task/-1"), owner(parameters="others")])
def test_another_run_or_other_parameters_start_anew(place: Place, other: Owner) -> None:
    attempt(place.dataset(), owner(), rows(0), rows(2), stop=True)

    with place.dataset().staging(other) as staging:
        assert (staging.resumed, staging.rows, staging.state) == (False, 0, None)
        staging.commit(rows(7), None)

    assert place.lines() == rows(7)
    assert place.visible() == ["d.jsonl"]


class TestOthers:
    def test_an_older_attempt_of_the_same_task_ends_at_its_next_commit(self, place: Place) -> None:
        def commit_twice() -> None:
            with place.dataset().staging(owner()) as first:
                first.commit(rows(0), 1)
                first.flush()
                attempt(place.dataset(), owner(), rows(2), stop=True)
                first.commit(rows(9), 2)
                first.flush()

        with pytest.raises(DestinationInUseError, match=r"d\.jsonl is being written by a newer attempt") as caught:
            commit_twice()

        assert caught.value.temporary
        attempt(place.dataset(), owner())
        assert place.lines() == rows(0, 4)

    def test_a_mapped_task_does_not_write_over_what_one_beside_it_has_published(self, place: Place) -> None:
        attempt(place.dataset(), owner("dag/run/task/0"), rows(0))

        with pytest.raises(PermanentError, match=r"d\.jsonl is the dataset of dag/run/task/0, .*ti\.map_index"):
            attempt(place.dataset(), owner("dag/run/task/1", "other"), rows(9))

        assert place.lines() == rows(0)
        assert place.dataset().published(owner("dag/run/task/0"))
        assert place.visible() == ["d.jsonl"]

    @pytest.mark.parametrize(
        "later",
        [
            owner("dag/next/task/1", "other"),
            owner("dag/run/elsewhere/1", "other"),
            owner("dag/run/task/-1", "other"),
            owner("dag/run/task/1", "other", clears=1),
            owner("dag/run/task/0", "other"),
            owner("dag/run/task/1"),
        ],
    )
    def test_but_any_other_does(self, place: Place, later: Owner) -> None:
        attempt(place.dataset(), owner("dag/run/task/0"), rows(0))
        attempt(place.dataset(), later, rows(2))

        assert place.lines() == rows(2)

    def test_neighbours_do_not_meet(self, place: Place) -> None:
        with place.dataset("a.jsonl").staging(owner("one")) as one, place.dataset("b.jsonl").staging(owner()) as two:
            one.commit(rows(0), None)
            two.commit(rows(2), None)

        assert (place.lines("a.jsonl"), place.lines("b.jsonl")) == (rows(0), rows(2))


class TestDigest:
    def publish(
        self, place: Place, digest: str | None, *, who: Owner | None = None, first: int = 0, name: str = "d.jsonl"
    ) -> dict[str, Any]:
        with place.dataset(name).staging(who or owner(f"task of {place.now}")) as staging:
            staging.commit(rows(first), None)
            staging.digest = digest
            place.now += 1
        return staging.summary

    @pytest.mark.parametrize("format_", FORMATS)
    def test_same_content_leaves_the_file_as_it_is_and_makes_it_the_latest_tasks(
        self, place: Place, format_: str
    ) -> None:
        name = f"d.{format_}"
        first = self.publish(place, "same", name=name)
        attempt(place.dataset(name), owner("fails"), rows(0), stop=True)
        content = place.read(name)
        second = self.publish(place, "same", who=owner("mine"), first=2, name=name)

        assert (first["changed"], second["changed"]) == (True, False)
        assert {**second, "changed": True} == first
        assert place.read(name) == content
        assert place.visible() == [name]
        assert place.dataset(name).published(owner("mine")) == second

    def test_other_content_other_parameters_and_a_file_of_another_origin_are_replaced(self, place: Place) -> None:
        self.publish(place, "one")
        assert self.publish(place, "two", who=owner("a", "p"), first=2)["changed"] is True
        assert place.lines() == rows(2)
        assert self.publish(place, "two", who=owner("b", "q"))["changed"] is True

        place.write("d.jsonl", b"of another program")
        assert self.publish(place, "two", who=owner("c", "q"))["changed"] is True
        assert place.lines() == rows(0)
        place.remove("d.jsonl")
        assert self.publish(place, "two", who=owner("d", "q"))["changed"] is True
        self.publish(place, None)
        assert self.publish(place, "two", who=owner("e", "q"))["changed"] is True

    def test_file_that_is_removed_meanwhile_is_not_reported_as_kept(self, place: Place) -> None:
        self.publish(place, "same")
        with pytest.raises(DestinationReplacedError), place.dataset().staging(owner("later")) as staging:  # noqa: PT012
            staging.commit(rows(2), None)
            staging.digest = "same"
            place.remove("d.jsonl")

        assert self.publish(place, "same", who=owner("later"))["changed"] is True
