"""``leftovers``: what is listed, what is deleted, and what is asked before."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cli import task_states
from airflow_provider_mediaops.cli.leftovers import seconds_of
from airflow_provider_mediaops.cli.task_states import TaskInstanceId
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.formats import FlatView
from airflow_provider_mediaops.storage.ownership import Owner
from tests.unit.cli.commands import command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TASK = "dag/run/task/-1"
DAY = 86_400


class GivenUpError(Exception):
    """Raised by a task that never comes back."""


@pytest.fixture(autouse=True)
def states(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The states of tasks in Airflow's database that are still to come back."""
    known: dict[str, str] = {}
    monkeypatch.setattr("airflow_provider_mediaops.cli.leftovers.unfinished_state", known.get)
    return known


@pytest.fixture
def left(tmp_path: Path) -> Callable[..., Path]:
    """Leave two records behind that were staged some days ago."""

    def leave(name: str = "d.jsonl", *, days: float = 8, task: str = TASK) -> Path:
        target = tmp_path / name
        view = FlatView(columns={"n": int}, flatten=lambda record: record)
        with suppress(GivenUpError), Dataset(str(target), view=view).staging(Owner(task, "p")) as staging:
            staging.commit([{"n": 1}, {"n": 2}], None)
            raise GivenUpError
        written = time.time() - days * DAY
        for file in target.parent.glob(f".{target.name}.*"):
            os.utime(file, (written, written))
        return target

    return leave


def hidden(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.name.startswith("."))


def test_what_is_left_is_listed_and_stays(left: Callable[..., Path], tmp_path: Path) -> None:
    target = left()
    before = hidden(tmp_path)
    done = command("leftovers", str(tmp_path), "-o", "json")
    (leftover,) = done.document["leftovers"]
    assert leftover.pop("written").startswith("20")
    assert leftover.pop("bytes") > 0
    assert len(leftover.pop("files")) == 2
    assert leftover == {
        "destination": str(target),
        "state": "left",
        "note": None,
        "task": TASK,
        "rows": 2,
        "deleted": False,
    }
    assert (done.code, done.document["problems"], hidden(tmp_path)) == (0, [], before)


def test_it_is_shown_to_people(left: Callable[..., Path], tmp_path: Path) -> None:
    target = left()
    left("young.jsonl", days=2)
    output = command("leftovers", str(tmp_path)).output.splitlines()
    assert output[0].split()[:3] == ["destination", "task", "rows"]
    assert output[1].startswith(str(target))
    assert "8 days ago" in output[1]
    assert output[1].endswith("left behind")
    assert output[2].endswith("kept: written not long ago")
    assert output[3] == "Left behind, not written for 7d: 1 destination. --delete removes it."


def test_nothing_left_is_good_news(tmp_path: Path) -> None:
    done = command("leftovers", str(tmp_path))
    assert (done.code, done.output) == (0, "Nothing is left behind that was not written for 7d.\n")


def test_it_is_deleted(left: Callable[..., Path], tmp_path: Path) -> None:
    left()
    left("young.jsonl", days=2)
    done = command("leftovers", str(tmp_path), "--delete", "--yes", "-o", "json")
    assert [(each["state"], each["deleted"]) for each in done.document["leftovers"]] == [
        ("left", True),
        ("recent", False),
    ]
    assert hidden(tmp_path) == [".young.jsonl.checkpoint", ".young.jsonl.records"]
    assert done.code == 0


@pytest.mark.parametrize(("answer", "gone"), [("y\n", True), ("\n", False)])
def test_deletion_is_asked_for(left: Callable[..., Path], tmp_path: Path, answer: str, *, gone: bool) -> None:
    left()
    done = command("leftovers", str(tmp_path), "--delete", answer=answer)
    assert done.messages.startswith("Delete what is staged for 1 destination, 1")
    assert (hidden(tmp_path) == []) is gone


def test_nobody_there_deletes_nothing(left: Callable[..., Path], tmp_path: Path) -> None:
    left()
    done = command("leftovers", str(tmp_path), "--delete")
    assert done.code == 2
    assert len(hidden(tmp_path)) == 2


def test_there_is_nothing_to_ask_if_nothing_is_left(left: Callable[..., Path], tmp_path: Path) -> None:
    left(days=2)
    done = command("leftovers", str(tmp_path), "--delete")
    assert (done.code, done.messages) == (0, "")


@pytest.mark.parametrize("state", ["deferred", "up_for_retry"])
def test_a_task_that_is_still_to_come_back_is_kept(
    left: Callable[..., Path], tmp_path: Path, states: dict[str, str], state: str
) -> None:
    left()
    states[TASK] = state
    done = command("leftovers", str(tmp_path), "--delete", "--yes")
    assert f"kept: its task is {state}" in done.output
    assert len(hidden(tmp_path)) == 2


def test_a_task_that_was_cleared_while_somebody_was_asked_is_kept(
    left: Callable[..., Path], tmp_path: Path, states: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left()

    def clear(*_: Any, **__: Any) -> bool:
        states[TASK] = "queued"
        return True

    monkeypatch.setattr("airflow_provider_mediaops.cli.terminal.Terminal.confirm", clear)
    command("leftovers", str(tmp_path), "--delete")
    assert len(hidden(tmp_path)) == 2


def test_without_airflows_database_it_is_reported(
    left: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise OSError("Airflow's database cannot be read (OperationalError)")

    monkeypatch.setattr("airflow_provider_mediaops.cli.leftovers.unfinished_state", fail)
    left()
    done = command("leftovers", str(tmp_path))
    assert "Airflow's database cannot be read (OperationalError), so a task that is deferred" in done.output
    assert done.code == 0


def test_without_airflows_database_the_question_says_so(
    left: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_: str) -> None:
        raise OSError("Airflow's database cannot be read (OperationalError)")

    monkeypatch.setattr("airflow_provider_mediaops.cli.leftovers.unfinished_state", fail)
    left()
    messages = command("leftovers", str(tmp_path), "--delete", answer="n\n").messages
    assert messages.startswith("Airflow's database cannot be read (OperationalError), so a task that is deferred")
    assert "Delete what is staged for 1 destination" in messages


@pytest.mark.parametrize("error", [RuntimeError, ImportError, ValueError])
def test_no_error_of_the_database_is_quoted(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def fail(_: TaskInstanceId) -> None:
        raise error("cannot parse postgresql://user:the-password@host")

    monkeypatch.setattr(task_states, "_states_of", fail)
    with pytest.raises(OSError, match=f"cannot be read .{error.__name__}.$"):
        task_states.unfinished_state(TASK)


def test_a_path_that_cannot_be_read_is_a_problem_and_the_others_are_searched(
    left: Callable[..., Path], tmp_path: Path
) -> None:
    left()
    done = command("leftovers", str(tmp_path / "nowhere" / "d.jsonl"), str(tmp_path), "-o", "json")
    assert done.code == 1
    assert len(done.document["leftovers"]) == 1
    (problem,) = done.document["problems"]
    assert "nowhere" in problem


@pytest.mark.airflow(">=3.2")  # before, nobody knows it until the folder is read
def test_a_path_that_can_never_work_is_wrong_use() -> None:
    assert command("leftovers", "s9://bucket/").code == 2


def test_what_cannot_be_deleted_is_a_problem(
    left: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = left()

    def refuse(*_: Any) -> bool:
        raise PermissionError("it belongs to another user")

    monkeypatch.setattr("airflow_provider_mediaops.cli.leftovers.delete_leftover", refuse)
    done = command("leftovers", str(tmp_path), "--delete", "--yes", "-o", "json")
    assert done.code == 1
    assert done.document["problems"] == [f"{target} was not deleted: it belongs to another user"]


def test_a_path_that_is_given_twice_is_listed_once(left: Callable[..., Path], tmp_path: Path) -> None:
    target = left()
    done = command("leftovers", str(tmp_path), str(target), str(tmp_path), "-o", "json")
    assert len(done.document["leftovers"]) == 1


def test_a_younger_age_finds_more(left: Callable[..., Path], tmp_path: Path) -> None:
    left(days=2)
    done = command("leftovers", str(tmp_path), "--older-than", "36h", "-o", "json")
    assert (done.document["older_than_seconds"], done.document["leftovers"][0]["state"]) == (129_600, "left")


@pytest.mark.parametrize(("age", "seconds"), [("15m", 900), ("12h", 43_200), ("7d", 604_800)])
def test_ages(age: str, seconds: int) -> None:
    assert seconds_of(age) == seconds


@pytest.mark.parametrize("age", ["", "7", "14m", "0d", "1w", "-1d", "1.5h", "9999999d", "\u0667d"])
def test_ages_that_are_refused(age: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="at least 15m"):
        seconds_of(age)
    if age and not age.startswith("-"):
        assert command("leftovers", str(tmp_path), "--older-than", age).code == 2


@pytest.mark.parametrize(
    ("task", "read"),
    [
        ("dag/manual__2026-01-01T00:00:00+00:00/task/-1", ("dag", "manual__2026-01-01T00:00:00+00:00", "task", -1)),
        ("d.a-g/run/of/slashes/group.task/12", ("d.a-g", "run/of/slashes", "group.task", 12)),
        ("no task (0123456789abcdef)", None),
        ("dag/run/task/x", None),
        ("dag/task/-1", None),
        ("", None),
    ],
)
def test_the_name_of_a_task_instance(task: str, read: tuple[Any, ...] | None) -> None:
    assert TaskInstanceId.of(task) == read
