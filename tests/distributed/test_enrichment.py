"""One list, one key, two machines' worth of workers, and everything that can go wrong meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.books.batch.scheduler import IN_FLIGHT
from airflow_provider_mediaops.sandbox import books
from airflow_provider_mediaops.sandbox.books import sample_isbns
from airflow_provider_mediaops.sandbox.faults import DropFault, LimitFault, StatusFault
from scripts.local_airflow import FINAL_STATES
from tests.system.running import Ended, ended, wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.faults import FaultBoard, RequestRecord
    from tests.distributed.conftest import Installation

DAG = "distributed_enrichment"
NO_BOOK = "9783000000003"
PARTS = 8
UNIQUE = 100  # ISBNs a part; with five requests a second all parts take 160 s and more
UNDISTURBED = 100  # requests after all parts have begun, until things begin to go wrong
FAULTS = 3 * 4 + 3 + 2 + 6  # requests that arm_faults() lets fail
TASKS_OF_A_WORKER = 4
RATE = books.PRO.requests_per_second
PART_OF_ISBN = {isbn: number // UNIQUE for number, isbn in enumerate(sample_isbns(PARTS * UNIQUE))}


def texts_of(part: int) -> list[str]:
    """A part's input: every ISBN once, some a second time, one text that is none, one that no book has."""
    isbns = sample_isbns(PARTS * UNIQUE)[part * UNIQUE : (part + 1) * UNIQUE]
    return [*isbns[:60], "no ISBN at all", *isbns[60:], *isbns[:10], NO_BOOK, isbns[-1]]


@dataclass(frozen=True)
class Disturbed:
    """The run that had a bad minute."""

    run: Ended
    began: datetime
    killed: datetime


def about_books(installation: Installation) -> list[RequestRecord]:
    return [request for request in list(installation.sandbox.state.requests) if request.service == "books"]


def isbn_of(request: RequestRecord) -> str:
    return request.path.rpartition("/")[2]


def part_of(request: RequestRecord) -> int | None:
    """Return the part whose input holds the request's ISBN; None for the ISBNs that all parts ask for."""
    return PART_OF_ISBN.get(isbn_of(request))


def wait_for_requests(installation: Installation, more: int) -> None:
    enough = len(about_books(installation)) + more
    wait_for(lambda: len(about_books(installation)) >= enough, f"{more} more requests were made", 600)


def wait_for_all_parts(installation: Installation) -> None:
    """Wait until each worker has its tasks: a worker that starts late has none to lose."""
    parts = set(range(PARTS))
    wait_for(lambda: parts <= {part_of(request) for request in about_books(installation)}, "all parts began", 600)


def arm_faults(faults: FaultBoard) -> None:
    """In the words of the switchboard: errors, dropped connections, a burst of limit replies."""
    for after in (0, 30, 60):
        faults.arm(StatusFault(service="books", status=503, count=4, after=after))
    faults.arm(DropFault(service="books", point="before_reply", count=3, after=15))
    faults.arm(DropFault(service="books", point="mid_body", count=2, after=45))
    faults.arm(LimitFault(service="books", count=6, after=75))


def have_a_bad_minute(installation: Installation) -> tuple[datetime, datetime]:
    """Let the service fail in every way, and kill a worker with its tasks; it is started again, as by Kubernetes."""
    faults, began = installation.sandbox.state.faults, datetime.now(timezone.utc)
    arm_faults(faults)
    wait_for_requests(installation, 10)
    installation.airflow.kill("worker-1")
    killed = datetime.now(timezone.utc)
    installation.airflow.start_again("worker-1")
    minute = began + timedelta(minutes=1)
    wait_for(lambda: datetime.now(timezone.utc) >= minute and not faults.armed, "the bad minute is over", 600)
    return began, killed


def lost_tasks_run_again(installation: Installation, run_id: str, killed: datetime) -> bool:
    """Tell whether all tasks of the killed worker are at their second try, and look up books again."""
    again = [task for task in installation.airflow.task_instances(DAG, run_id) if task.try_number > 1]
    asking = {part_of(request) for request in about_books(installation) if request.at > killed}
    return len(again) == TASKS_OF_A_WORKER and all(
        task.state in FINAL_STATES or (task.state == "running" and task.map_index in asking) for task in again
    )


@pytest.fixture(scope="module")
def disturbed(installation: Installation) -> Disturbed:
    airflow = installation.airflow
    for part in range(PARTS):
        (installation.output / f"isbns-{part}.txt").write_text("\n".join(texts_of(part)) + "\n")
    run_id = airflow.trigger(DAG)
    wait_for_all_parts(installation)
    wait_for_requests(installation, UNDISTURBED)
    began, killed = have_a_bad_minute(installation)
    wait_for_requests(installation, 50)
    # Redis also carries the tasks to the workers. One that Airflow queues while it is down has failed.
    wait_for(lambda: lost_tasks_run_again(installation, run_id, killed), "the killed worker's tasks run again", 600)
    installation.redis.stop()
    installation.redis.start()
    wait_for(lambda: airflow.state(DAG, run_id) in FINAL_STATES, "all parts are done", 1200)
    return Disturbed(ended(airflow, DAG, run_id), began, killed)


def test_every_row_is_there_once_and_in_order(disturbed: Disturbed, installation: Installation) -> None:
    assert disturbed.run.state == "success"
    for part in range(PARTS):
        lines = (installation.output / f"books-{part}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        assert [row["input"] for row in rows] == texts_of(part)
        counts = Counter(row["status"] for row in rows)
        assert counts == {"found": UNIQUE + 11, "invalid": 1, "not_found": 1}


@pytest.mark.usefixtures("disturbed")
def test_nothing_fails_but_by_the_faults_of_the_bad_minute(installation: Installation) -> None:
    requests = about_books(installation)
    faults = [request for request in requests if request.fault]
    assert len(faults) == FAULTS
    others = [request for request in requests if not request.fault]
    assert {request.status for request in others} == {200, 404}
    assert {isbn_of(request) for request in others if request.status == 404} == {NO_BOOK}


@pytest.mark.usefixtures("disturbed")
def test_no_more_requests_arrive_than_the_rate_allows_from_the_first_to_the_last(installation: Installation) -> None:
    """In the calm, the bad minute, and after the restart of Redis alike, however busy the machine is."""
    arrivals = sorted(request.at.timestamp() for request in about_books(installation))
    assert len(arrivals) > PARTS * UNIQUE
    for first, last in combinations(range(0, len(arrivals), 10), 2):
        # A request that was held up on the way may arrive with the next ones: some seconds more.
        assert last - first <= RATE * (arrivals[last] - arrivals[first] + 5.0)


def test_the_killed_worker_s_tasks_alone_were_tried_again(disturbed: Disturbed) -> None:
    tries = sorted(task.try_number for task in disturbed.run.tasks.values())
    assert tries == [1] * TASKS_OF_A_WORKER + [2] * TASKS_OF_A_WORKER


def test_no_answer_is_asked_for_again_but_those_that_the_kill_lost(
    disturbed: Disturbed, installation: Installation
) -> None:
    answered: dict[str, list[RequestRecord]] = {}
    for request in about_books(installation):
        if request.status == 200 and not request.fault and part_of(request) is not None:
            answered.setdefault(isbn_of(request), []).append(request)
    again = [requests for requests in answered.values() if len(requests) > 1]
    probes = sum(isbn_of(request) == NO_BOOK for request in about_books(installation))
    # A probe is asked for again whatever is known of it: one for each answer that a book is unknown.
    lost = [requests for requests in again if requests[0].at <= disturbed.killed < requests[1].at]
    assert len(again) - len(lost) <= probes
    assert all(len(requests) == 2 for requests in lost)
    parts = Counter(part_of(requests[0]) for requests in lost)
    assert len(parts) <= TASKS_OF_A_WORKER
    assert max(parts.values(), default=0) <= IN_FLIGHT
