"""
A bulletin is posted at most once: what becomes of it where its task is killed, retried or cleared.

Each case is there twice: with the record in the task state store, and with a journal on the disk.
"""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.faults import DelayFault, DropFault, Fault, StatusFault
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.video.at_most_once import RECORD_KEY, folder_name
from scripts.local_airflow import FINAL_STATES
from tests.system.running import ended, wait_for, worker_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

    from tests.system.running import Ended, WatchedAirflow

DAG_ID, OTHER_DAG_ID = "system_bulletins", "system_bulletins_elsewhere"
# How the first try of each of these ends: killed alone, as by a system that is out of memory; killed with its worker,
# as on a machine that is switched off; or frozen with its worker, to go on when it is long given up.
KILLED = {
    "killed_before_the_intent": "killed alone",
    "killed_before_sending": "killed",
    "killed_while_sending": "killed",
    "killed_before_storing": "killed",
    "killed_after_storing": "killed alone",
}
MISHAPS: dict[str, Fault] = {
    # Longer than it takes to find the task and to kill it, however slow Airflow answers meanwhile.
    "killed_while_sending": DelayFault(service="video", seconds=600, point="before_reply"),
    "reply_lost": DropFault(service="video", point="before_reply"),
    "refused": StatusFault(service="video", status=400),
}
# The ends of the names of tasks: with the record in the state store, and in a journal.
JOURNAL = "_in_journal"
FORMS = ("", JOURNAL)
# For a journal, it makes no difference whether the worker dies, too; Airflow notices it later.
ENDS = {**KILLED, **{f"{name}{JOURNAL}": "killed alone" for name in KILLED}, "frozen_before_the_intent": "frozen"}
# Held until another DAG has tried to post the same bulletin.
OF_TWO_DAGS = f"of_two_dags{JOURNAL}"
OTHERS = ("reply_lost", "refused", "retried", "cleared", "cleared_to_post_again")
TASKS = [*ENDS, *(f"{name}{form}" for name in OTHERS for form in FORMS), "reply_lost_twice", OF_TWO_DAGS]
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
    :param records: what the state store or the journal says of each task's bulletin.
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
        servers = {task_id: stack.enter_context(SandboxServer()) for task_id in TASKS}
        for task_id, server in servers.items():
            connection = json.loads(server.connections()["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"])
            airflow.connect(f"to_{task_id}", {**connection, "extra": {**connection["extra"], "timeout": 900}})
        for name, mishap in MISHAPS.items():
            for form in FORMS:
                servers[f"{name}{form}"].state.faults.arm(mishap)
        servers["reply_lost_twice"].state.faults.arm(MISHAPS["reply_lost"])
        yield servers


@dataclass(frozen=True)
class Elsewhere:
    """
    What the other DAG's runs have come to.

    :param meanwhile: its first run, while the task of the first DAG was about to post.
    :param cleared: the same, when its task was cleared after that.
    :param later: a second run.
    """

    meanwhile: Ended
    cleared: Ended
    later: Ended


@pytest.fixture(scope="module")
def first_run(airflow: WatchedAirflow, platforms: dict[str, SandboxServer], output: Path) -> tuple[Ended, Ended]:
    """
    Let the run end, after each worker has met its own end; then let the frozen one go on.

    :returns: the run, and that of the other DAG, which came between.
    """
    run_id = airflow.trigger(DAG_ID)
    left = dict(ENDS)
    frozen: list[psutil.Process] = []
    others: list[str] = []
    thawed = output / f"{OF_TWO_DAGS}.thawed"

    def another_dag_has_tried() -> bool:
        if not others and (output / f"{OF_TWO_DAGS}.pid").exists():
            others.append(airflow.trigger(OTHER_DAG_ID))
        if others and airflow.state(OTHER_DAG_ID, others[0]) in FINAL_STATES:
            thawed.touch()
        return thawed.exists()

    def all_met() -> bool:
        for task_id in list(left):
            note = output / f"{task_id}.pid"
            on_its_way = task_id.startswith("killed_while_sending") and not platforms[task_id].state.bulletins
            if note.exists() and not on_its_way:
                frozen.extend(meet(int(note.read_text()), left.pop(task_id)))
        return another_dag_has_tried() and not left

    try:
        wait_for(all_met, "each worker has come to its end")
        meanwhile = ended(airflow, OTHER_DAG_ID, others[0])
        run = ended(airflow, DAG_ID, run_id)
        (output / "frozen_before_the_intent.thawed").touch()
    finally:
        for process in frozen:
            process.resume()
    wait_for(lambda: not frozen[1].is_running(), "the task that was frozen has ended")
    return run, meanwhile


@pytest.fixture(scope="module")
def first(first_run: tuple[Ended, Ended], platforms: dict[str, SandboxServer], output: Path) -> Outcome:
    """Look at what the run has come to."""
    return outcome(first_run[0], platforms, output)


@pytest.fixture(scope="module")
def elsewhere(airflow: WatchedAirflow, first_run: tuple[Ended, Ended]) -> Elsewhere:
    """Let the other DAG try again."""
    meanwhile = first_run[1]
    later = airflow.trigger(OTHER_DAG_ID)
    airflow.clear(OTHER_DAG_ID, meanwhile.run_id, [OF_TWO_DAGS])
    cleared = ended(airflow, OTHER_DAG_ID, meanwhile.run_id)
    return Elsewhere(meanwhile, cleared, ended(airflow, OTHER_DAG_ID, later))


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
def second(airflow: WatchedAirflow, platforms: dict[str, SandboxServer], first: Outcome, output: Path) -> Outcome:
    """Let the run end again, after some of its tasks were cleared; of one the record was deleted before."""
    airflow.forget_task_state(DAG_ID, first.run.run_id, "killed_before_sending", RECORD_KEY)
    shutil.rmtree(folder_of(output, first.run.run_id, f"killed_before_sending{JOURNAL}"))
    names = ("reply_lost", "refused", "cleared", "cleared_to_post_again", "killed_before_sending")
    airflow.clear(DAG_ID, first.run.run_id, [f"{name}{form}" for name in names for form in FORMS])
    return outcome(ended(airflow, DAG_ID, first.run.run_id), platforms, output)


def folder_of(output: Path, run_id: str, task_id: str) -> Path:
    """Find the folder that the journal has for a task."""
    return output / "journal" / folder_name({"task": f"{DAG_ID}/{run_id}/{task_id}/-1"})


def outcome(run: Ended, platforms: dict[str, SandboxServer], output: Path) -> Outcome:
    records = {}
    for name in platforms:
        versions = sorted(folder_of(output, run.run_id, name).glob("[!.]*"))
        in_store = run.airflow.task_state(DAG_ID, run.run_id, name)
        # With a journal, the state store is not used.
        assert not (name.endswith(JOURNAL) and in_store), name
        in_journal = json.loads(versions[-1].read_text()) if versions else None
        records[name] = in_journal or in_store.get(RECORD_KEY, {})
    return Outcome(
        run,
        posted={name: [bulletin["id"] for bulletin in at.state.bulletins] for name, at in platforms.items()},
        asked={name: len(at.state.requests) for name, at in platforms.items()},
        records=records,
    )


@pytest.mark.parametrize(
    "task_id", ["killed_before_the_intent", f"killed_before_the_intent{JOURNAL}", "frozen_before_the_intent"]
)
def test_lost_before_the_intent_is_written_it_is_posted_by_the_retry_only(first: Outcome, task_id: str) -> None:
    assert first.end(task_id) == ("success", 2)
    assert first.posted[task_id] == [first.returned(task_id)]
    assert first.asked[task_id] == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "asked", "posted"),
    [("killed_before_sending", 0, 0), ("killed_while_sending", 1, 1), ("killed_before_storing", 1, 1)],
)
def test_killed_between_intent_and_result_it_is_uncertain(
    first: Outcome, name: str, form: str, asked: int, posted: int
) -> None:
    task_id = f"{name}{form}"
    assert first.end(task_id) == ("failed", 2)
    assert "UncertainDeliveryError: Try 1 of this task was about to post" in first.run.log(task_id)
    assert (first.asked[task_id], len(first.posted[task_id])) == (asked, posted)
    assert first.records[task_id]["state"] == "intended"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["killed_after_storing", "retried"])
def test_killed_or_failed_after_the_result_is_stored_the_retry_returns_it(first: Outcome, name: str, form: str) -> None:
    task_id = f"{name}{form}"
    assert first.end(task_id) == ("success", 2)
    assert first.posted[task_id] == [first.returned(task_id)]
    assert first.asked[task_id] == 1
    assert "Try 1 has posted bulletin BULLETIN-000001; nothing is posted." in first.run.log(task_id)


@pytest.mark.parametrize("form", FORMS)
def test_a_lost_reply_ends_the_task(first: Outcome, form: str) -> None:
    task_id = f"reply_lost{form}"
    assert first.end(task_id) == ("failed", 1)
    assert first.records[task_id]["state"] == "intended"
    assert (first.asked[task_id], len(first.posted[task_id])) == (1, 1)


def test_a_lost_reply_is_followed_by_another_post_where_that_is_asked_for(first: Outcome) -> None:
    assert first.end("reply_lost_twice") == ("success", 2)
    assert len(first.posted["reply_lost_twice"]) == 2
    assert first.returned("reply_lost_twice") == first.posted["reply_lost_twice"][1]


@pytest.mark.parametrize("form", FORMS)
def test_a_refusal_leaves_no_record(first: Outcome, form: str) -> None:
    task_id = f"refused{form}"
    assert first.end(task_id) == ("failed", 1)
    assert first.posted[task_id] == []
    assert first.records[task_id] == {}


@pytest.mark.parametrize("form", FORMS)
def test_a_task_that_is_cleared_returns_what_it_has_posted(first: Outcome, second: Outcome, form: str) -> None:
    task_id = f"cleared{form}"
    assert (first.end(task_id), second.end(task_id)) == (("success", 1), ("success", 2))
    assert second.posted[task_id] == first.posted[task_id] == [second.returned(task_id)]
    assert second.asked[task_id] == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_task_that_is_cleared_posts_again_where_that_is_asked_for(first: Outcome, second: Outcome, form: str) -> None:
    task_id = f"cleared_to_post_again{form}"
    assert len(first.posted[task_id]) == 1
    assert second.end(task_id) == ("success", 2)
    assert len(second.posted[task_id]) == 2
    assert second.returned(task_id) == second.posted[task_id][1]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_uncertain_stays_so_where_the_task_is_cleared(second: Outcome, form: str) -> None:
    task_id = f"reply_lost{form}"
    assert second.end(task_id) == ("failed", 2)
    assert "UncertainDeliveryError: Try 1 of this task was about to post" in second.run.log(task_id)
    assert second.asked[task_id] == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["refused", "killed_before_sending"])
def test_what_was_refused_or_whose_record_was_deleted_is_posted_when_it_is_cleared(
    second: Outcome, name: str, form: str
) -> None:
    task_id = f"{name}{form}"
    assert second.run.states[task_id] == "success"
    assert second.posted[task_id] == [second.returned(task_id)]


class TestTwoDags:
    def test_while_one_is_about_to_post_the_other_posts_nothing(self, first: Outcome, elsewhere: Elsewhere) -> None:
        run = elsewhere.meanwhile
        assert run.states == {OF_TWO_DAGS: "failed"}
        author = f"{DAG_ID}/{first.run.run_id}/{OF_TWO_DAGS}/-1"
        assert f"DestinationInUseError: Nothing was sent: {author}, try 1, has been posting" in run.log(OF_TWO_DAGS, 1)
        assert first.end(OF_TWO_DAGS) == ("success", 1)
        assert first.posted[OF_TWO_DAGS] == [first.returned(OF_TWO_DAGS)]

    def test_when_it_is_posted_the_other_returns_it_cleared_or_in_another_run(
        self, first: Outcome, elsewhere: Elsewhere, platforms: dict[str, SandboxServer]
    ) -> None:
        for run in (elsewhere.cleared, elsewhere.later):
            assert run.states == {OF_TWO_DAGS: "success"}
            assert run.value(OF_TWO_DAGS)["id"] == first.returned(OF_TWO_DAGS)
            log = run.log(OF_TWO_DAGS)
            assert f"{OF_TWO_DAGS}/-1 has posted bulletin BULLETIN-000001; nothing is posted." in log
            assert "It was posted with another text, video, playlist or connection" in log
        assert len(platforms[OF_TWO_DAGS].state.requests) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", TABLE.splitlines()[2:])
def test_it_is_as_the_documentation_says(first: Outcome, second: Outcome, row: str, form: str) -> None:
    case, what_follows, bulletins = (cell.strip() for cell in row.strip("|").split("|"))
    phase, name = ROWS[case]
    task_id = f"{name}{form}"
    outcome = {"first": first, "second": second}[phase]
    assert what_follows.startswith(outcome.what_became_of(task_id))
    assert str(len(outcome.posted[task_id])) in bulletins.split(" or ")


def test_each_case_is_documented() -> None:
    assert [row.split("|")[1].strip() for row in TABLE.splitlines()[2:]] == list(ROWS)
