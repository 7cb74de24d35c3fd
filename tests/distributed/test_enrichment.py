"""One list, one key, two machines' worth of workers, and everything that can go wrong meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.sandbox import books
from airflow_provider_mediaops.sandbox.faults import DropFault, LimitFault, StatusFault
from airflow_provider_mediaops.sandbox.isbn import sample_isbns
from scripts.local_airflow import FINAL_STATES
from tests.system.running import Ended, ended, wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.faults import FaultBoard
    from airflow_provider_mediaops.sandbox.state import RequestRecord
    from tests.distributed.conftest import Installation

DAG = "distributed_enrichment"
NO_BOOK = "9783000000003"
PARTS = 8
UNIQUE = 125  # ISBNs a part; with five requests a second all parts take 200 s and more
WARM_UP = 100
UNDISTURBED = 300  # requests after the warm-up, until things begin to go wrong
TASKS_OF_A_WORKER = 4
IN_FLIGHT = 4  # a task's requests at one moment, at most: replies take milliseconds


def texts_of(part: int) -> list[str]:
    """A part's input: every ISBN once, some a second time, one text that is none, one that no book has."""
    isbns = sample_isbns(PARTS * UNIQUE)[part * UNIQUE : (part + 1) * UNIQUE]
    return [*isbns[:60], "no ISBN at all", *isbns[60:], *isbns[:10], NO_BOOK, isbns[-1]]


@dataclass(frozen=True)
class Disturbed:
    """The run that had a bad minute, and when that was."""

    run: Ended
    began: datetime
    ended: datetime


def about_books(installation: Installation) -> list[RequestRecord]:
    return [request for request in list(installation.sandbox.state.requests) if request.service == "books"]


def wait_for_requests(installation: Installation, more: int) -> None:
    enough = len(about_books(installation)) + more
    wait_for(lambda: len(about_books(installation)) >= enough, f"{more} more requests were made", 600)


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
    installation.airflow.start_again("worker-1")
    minute = began + timedelta(minutes=1)
    wait_for(lambda: datetime.now(timezone.utc) >= minute and not faults.armed, "the bad minute is over", 600)
    return began, datetime.now(timezone.utc)


@pytest.fixture(scope="module")
def disturbed(installation: Installation) -> Disturbed:
    airflow = installation.airflow
    for part in range(PARTS):
        (installation.output / f"isbns-{part}.txt").write_text("\n".join(texts_of(part)) + "\n")
    run_id = airflow.trigger(DAG)
    wait_for_requests(installation, WARM_UP + UNDISTURBED)
    began, over = have_a_bad_minute(installation)
    wait_for_requests(installation, 50)
    installation.redis.stop()
    installation.redis.start()
    wait_for(lambda: airflow.state(DAG, run_id) in FINAL_STATES, "all parts are done", 1200)
    return Disturbed(ended(airflow, DAG, run_id), began, over)


def test_every_row_is_there_once_and_in_order(disturbed: Disturbed, installation: Installation) -> None:
    assert disturbed.run.state == "success"
    for part in range(PARTS):
        lines = (installation.output / f"books-{part}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        assert [row["input"] for row in rows] == texts_of(part)
        counts = Counter(row["status"] for row in rows)
        assert counts == {"found": UNIQUE + 11, "invalid": 1, "not_found": 1}


def test_nothing_but_the_limit_refuses_outside_the_bad_minute(disturbed: Disturbed, installation: Installation) -> None:
    others = [request for request in about_books(installation) if not disturbed.began <= request.at <= disturbed.ended]
    assert others
    assert [request for request in others if request.fault] == []
    # A busy machine may hold requests up until they arrive together and meet the limit, but nothing else is refused.
    assert {request.status for request in others} <= {200, 404, 429}


@pytest.mark.usefixtures("disturbed")
def test_the_key_s_rate_is_kept_by_all_together(installation: Installation) -> None:
    calm = about_books(installation)[WARM_UP : WARM_UP + UNDISTURBED]
    # The first request of the calm may arrive late by some seconds, which is little beside the minute that it takes.
    seconds = (calm[-1].at - calm[0].at).total_seconds()
    assert (len(calm) - 1) / seconds <= 1.1 * books.PRO.requests_per_second


def test_the_killed_worker_s_tasks_alone_were_tried_again(disturbed: Disturbed) -> None:
    tries = sorted(task.try_number for task in disturbed.run.tasks.values())
    assert tries == [1] * TASKS_OF_A_WORKER + [2] * TASKS_OF_A_WORKER


def test_no_answer_is_asked_for_again_but_those_that_the_kill_lost(
    disturbed: Disturbed, installation: Installation
) -> None:
    answered = Counter(
        request.path for request in about_books(installation) if request.status == 200 and not request.fault
    )
    again = sum(count - 1 for path, count in answered.items())
    witnesses = sum(NO_BOOK in request.path for request in about_books(installation))
    killed = sum(task.try_number > 1 for task in disturbed.run.tasks.values())
    assert again <= killed * IN_FLIGHT + witnesses
