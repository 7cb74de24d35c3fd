"""A bulletin is posted at most once: what becomes of it where its task is killed, retried or cleared."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.faults import DelayFault, DropFault, Fault, StatusFault
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.video.at_most_once import RECORD_KEY
from tests.system.running import ended, wait_for, worker_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

    from tests.system.running import Ended, WatchedAirflow

DAG_ID = "system_bulletins"
# How the first try of each of these ends: killed alone, as by a system that is out of memory; killed with its worker,
# as on a machine that is switched off; or frozen with its worker, to go on when it is long given up.
ENDS = {
    "killed_before_the_intent": "killed alone",
    "killed_before_sending": "killed",
    "killed_while_sending": "killed",
    "killed_before_storing": "killed",
    "killed_after_storing": "killed alone",
    "frozen_before_the_intent": "frozen",
}
OTHERS = ("reply_lost", "reply_lost_twice", "refused", "retried", "cleared", "cleared_to_post_again")
MISHAPS: dict[str, Fault] = {
    "killed_while_sending": DelayFault(service="video", seconds=30, point="before_reply"),
    "reply_lost": DropFault(service="video", point="before_reply"),
    "reply_lost_twice": DropFault(service="video", point="before_reply"),
    "refused": StatusFault(service="video", status=400),
}
# Which task, in the run or after it was cleared, stands for which row of the table in the documentation.
ROWS = {
    "its worker was killed before it wrote that it is about to post": ("first", "killed_before_the_intent"),
    "its worker was killed after that and before sending": ("first", "killed_before_sending"),
    "its worker was killed while sending": ("first", "killed_while_sending"),
    "its worker was killed after sending, before the activity was stored": ("first", "killed_before_storing"),
    "its worker was killed after the activity was stored": ("first", "killed_after_storing"),
    "the reply was lost": ("second", "reply_lost"),
    "the service refused": ("second", "refused"),
    "it posted, and failed afterwards": ("first", "retried"),
    "it succeeded, and the task was cleared": ("second", "cleared"),
    "it succeeded, and the task was cleared, with `post_again_on_clear=True`": ("second", "cleared_to_post_again"),
}
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "post_bulletin.md"
TABLE = PAGE.read_text(encoding="utf-8").partition("| what happened to a try |")[2].partition("\n\n")[0]


@dataclass(frozen=True)
class Outcome:
    """
    How the run has ended, once or again.

    :param run: the run.
    :param posted: the ids of the bulletins on each task's own platform.
    :param asked: how many requests it got.
    :param records: what each task's state store says of its bulletin.
    """

    run: Ended
    posted: dict[str, list[str]]
    asked: dict[str, int]
    records: dict[str, dict[str, Any]]

    def end(self, task_id: str) -> tuple[str | None, int]:
        """How a task ended, and at which try."""
        return self.run.tasks[task_id].state, self.run.tasks[task_id].try_number

    def what_became_of(self, task_id: str) -> str:
        """What a task's last try did, in the words of the documentation."""
        if self.end(task_id)[0] != "success":
            assert "\nUncertainDeliveryError: " in self.run.log(task_id)
            return "`UncertainDeliveryError`"
        posted = "Posted bulletin " in self.run.log(task_id)
        assert self.returned(task_id) == self.posted[task_id][-1]
        return "posts" if posted else "returns the same activity"

    def returned(self, task_id: str) -> str:
        """Which bulletin a task returned."""
        return str(self.run.value(task_id)["id"])


@pytest.fixture(scope="module")
def platforms(airflow: WatchedAirflow) -> Iterator[dict[str, SandboxServer]]:
    """Have a platform for each task, with a connection to it."""
    with ExitStack() as stack:
        servers = {task_id: stack.enter_context(SandboxServer()) for task_id in (*ENDS, *OTHERS)}
        for task_id, server in servers.items():
            airflow.connect(f"to_{task_id}", json.loads(server.connections()["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"]))
        for task_id, mishap in MISHAPS.items():
            servers[task_id].state.faults.arm(mishap)
        yield servers


@pytest.fixture(scope="module")
def first(airflow: WatchedAirflow, platforms: dict[str, SandboxServer], output: Path) -> Outcome:
    """Let the run end, after each worker has met its own end; then let the frozen one go on."""
    run_id = airflow.trigger(DAG_ID)
    left = dict(ENDS)
    frozen: list[psutil.Process] = []

    def all_met() -> bool:
        for task_id in list(left):
            note = output / f"{task_id}.pid"
            on_its_way = task_id == "killed_while_sending" and not platforms[task_id].state.bulletins
            if note.exists() and not on_its_way:
                frozen.extend(meet(int(note.read_text()), left.pop(task_id)))
        return not left

    try:
        wait_for(all_met, "each worker has come to its end")
        run = ended(airflow, DAG_ID, run_id)
        (output / "frozen_before_the_intent.thawed").touch()
    finally:
        for process in frozen:
            process.resume()
    wait_for(lambda: not frozen[1].is_running(), "the task that was frozen has ended")
    return outcome(run, platforms)


def meet(task_pid: int, end: str) -> list[psutil.Process]:
    """Bring about the end of a task's process; give what is only frozen, the worker first."""
    worker, task = worker_of(task_pid)
    if end == "killed alone":
        task.kill()
        return []
    for process in (worker, task):
        process.suspend() if end == "frozen" else process.kill()
    return [worker, task] if end == "frozen" else []


@pytest.fixture(scope="module")
def second(airflow: WatchedAirflow, platforms: dict[str, SandboxServer], first: Outcome) -> Outcome:
    """Let the run end again, after some of its tasks were cleared; of one the record was deleted before."""
    airflow.forget_task_state(DAG_ID, first.run.run_id, "killed_before_sending", RECORD_KEY)
    tasks = ("reply_lost", "refused", "cleared", "cleared_to_post_again", "killed_before_sending")
    airflow.clear(DAG_ID, first.run.run_id, tasks)
    return outcome(ended(airflow, DAG_ID, first.run.run_id), platforms)


def outcome(run: Ended, platforms: dict[str, SandboxServer]) -> Outcome:
    return Outcome(
        run,
        posted={name: [bulletin["id"] for bulletin in at.state.bulletins] for name, at in platforms.items()},
        asked={name: len(at.state.requests) for name, at in platforms.items()},
        records={name: run.airflow.task_state(DAG_ID, run.run_id, name).get(RECORD_KEY, {}) for name in platforms},
    )


@pytest.mark.parametrize("task_id", ["killed_before_the_intent", "frozen_before_the_intent"])
def test_lost_before_the_intent_is_written_it_is_posted_by_the_retry_only(first: Outcome, task_id: str) -> None:
    assert first.end(task_id) == ("success", 2)
    assert first.posted[task_id] == [first.returned(task_id)]
    assert first.asked[task_id] == 1


@pytest.mark.parametrize(
    ("task_id", "asked", "posted"),
    [("killed_before_sending", 0, 0), ("killed_while_sending", 1, 1), ("killed_before_storing", 1, 1)],
)
def test_killed_between_intent_and_result_it_is_uncertain(
    first: Outcome, task_id: str, asked: int, posted: int
) -> None:
    assert first.end(task_id) == ("failed", 2)
    assert "UncertainDeliveryError: Try 1 of this task was about to post" in first.run.log(task_id)
    assert (first.asked[task_id], len(first.posted[task_id])) == (asked, posted)
    assert first.records[task_id]["state"] == "intended"


@pytest.mark.parametrize("task_id", ["killed_after_storing", "retried"])
def test_killed_or_failed_after_the_result_is_stored_the_retry_returns_it(first: Outcome, task_id: str) -> None:
    assert first.end(task_id) == ("success", 2)
    assert first.posted[task_id] == [first.returned(task_id)]
    assert first.asked[task_id] == 1
    assert "Try 1 has posted bulletin BULLETIN-000001; nothing is posted." in first.run.log(task_id)


def test_a_lost_reply_ends_the_task(first: Outcome) -> None:
    assert first.end("reply_lost") == ("failed", 1)
    assert first.records["reply_lost"]["state"] == "intended"
    assert (first.asked["reply_lost"], len(first.posted["reply_lost"])) == (1, 1)


def test_a_lost_reply_is_followed_by_another_post_where_that_is_asked_for(first: Outcome) -> None:
    assert first.end("reply_lost_twice") == ("success", 2)
    assert len(first.posted["reply_lost_twice"]) == 2
    assert first.returned("reply_lost_twice") == first.posted["reply_lost_twice"][1]


def test_a_refusal_leaves_no_record(first: Outcome) -> None:
    assert first.end("refused") == ("failed", 1)
    assert first.posted["refused"] == []
    assert first.records["refused"] == {}


def test_a_task_that_is_cleared_returns_what_it_has_posted(first: Outcome, second: Outcome) -> None:
    assert (first.end("cleared"), second.end("cleared")) == (("success", 1), ("success", 2))
    assert second.posted["cleared"] == first.posted["cleared"] == [second.returned("cleared")]
    assert second.asked["cleared"] == 1


def test_a_task_that_is_cleared_posts_again_where_that_is_asked_for(first: Outcome, second: Outcome) -> None:
    assert len(first.posted["cleared_to_post_again"]) == 1
    assert second.end("cleared_to_post_again") == ("success", 2)
    assert len(second.posted["cleared_to_post_again"]) == 2
    assert second.returned("cleared_to_post_again") == second.posted["cleared_to_post_again"][1]


def test_what_is_uncertain_stays_so_where_the_task_is_cleared(second: Outcome) -> None:
    assert second.end("reply_lost") == ("failed", 2)
    assert "UncertainDeliveryError: Try 1 of this task was about to post" in second.run.log("reply_lost")
    assert second.asked["reply_lost"] == 1


@pytest.mark.parametrize("task_id", ["refused", "killed_before_sending"])
def test_what_was_refused_or_whose_record_was_deleted_is_posted_when_it_is_cleared(
    second: Outcome, task_id: str
) -> None:
    assert second.run.states[task_id] == "success"
    assert second.posted[task_id] == [second.returned(task_id)]


@pytest.mark.parametrize("row", TABLE.splitlines()[2:])
def test_it_is_as_the_documentation_says(first: Outcome, second: Outcome, row: str) -> None:
    case, what_follows, bulletins = (cell.strip() for cell in row.strip("|").split("|"))
    phase, task_id = ROWS[case]
    outcome = {"first": first, "second": second}[phase]
    assert what_follows.startswith(outcome.what_became_of(task_id))
    assert str(len(outcome.posted[task_id])) in bulletins.split(" or ")


def test_each_case_is_documented() -> None:
    assert [row.split("|")[1].strip() for row in TABLE.splitlines()[2:]] == list(ROWS)
