"""One list, one key, two machines' worth of workers, and everything that can go wrong meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.sandbox import books
from airflow_provider_mediaops.sandbox.faults import DropFault, LimitFault, StatusFault
from airflow_provider_mediaops.sandbox.isbn import sample_isbns
from scripts.local_airflow import FINAL_STATES
from tests.system.running import Ended, ended, wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.state import RequestRecord
    from tests.distributed.conftest import Installation

DAG = "distributed_enrichment"
NO_BOOK = "9783000000003"
PARTS = 8
UNIQUE = 125  # ISBNs a part; with five requests a second all parts take 200 s and more
WARM_UP = 100
UNDISTURBED = 300  # requests after the warm-up, until things begin to go wrong
IN_FLIGHT = 4  # a task's requests at one moment, at most: replies take milliseconds


def texts_of(part: int) -> list[str]:
    """A part's input: every ISBN once, some a second time, one text that is none, one that no book has."""
    isbns = sample_isbns(PARTS * UNIQUE)[part * UNIQUE : (part + 1) * UNIQUE]
    return [*isbns[:60], "no ISBN at all", *isbns[60:], *isbns[:10], NO_BOOK, isbns[-1]]


def about_books(installation: Installation) -> list[RequestRecord]:
    return [request for request in list(installation.sandbox.state.requests) if request.service == "books"]


def disturb(installation: Installation) -> None:
    """The bad minute, in the words of the switchboard: errors, dropped connections, a burst of limit replies."""
    faults = installation.sandbox.state.faults
    for start in (0, 12, 24):
        faults.arm(StatusFault(service="books", status=503, count=4, after=start))
    faults.arm(DropFault(service="books", point="before_reply", count=3, after=6))
    faults.arm(DropFault(service="books", point="mid_body", count=2, after=18))
    faults.arm(LimitFault(service="books", count=6, after=30))


@pytest.fixture(scope="module")
def run(installation: Installation) -> Ended:
    airflow, sandbox = installation.airflow, installation.sandbox
    for part in range(PARTS):
        (installation.output / f"isbns-{part}.txt").write_text("\n".join(texts_of(part)) + "\n")
    run_id = airflow.trigger(DAG)
    calm = WARM_UP + UNDISTURBED
    wait_for(lambda: len(about_books(installation)) >= calm, f"{calm} requests were made", 180)
    disturb(installation)
    wait_for(lambda: not sandbox.state.faults.armed, "the bad minute is over", 120)
    airflow.kill("worker-1")
    asked = len(about_books(installation))
    wait_for(lambda: len(about_books(installation)) >= asked + 50, "the other worker goes on", 120)
    installation.redis.stop()
    installation.redis.start()
    wait_for(lambda: airflow.state(DAG, run_id) in FINAL_STATES, "all parts are done", 400)
    return ended(airflow, DAG, run_id)


def test_every_row_is_there_once_and_in_order(run: Ended, installation: Installation) -> None:
    assert run.state == "success"
    for part in range(PARTS):
        lines = (installation.output / f"books-{part}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        assert [row["input"] for row in rows] == texts_of(part)
        counts = Counter(row["status"] for row in rows)
        assert counts == {"found": UNIQUE + 11, "invalid": 1, "not_found": 1}


@pytest.mark.usefixtures("run")
def test_nothing_is_refused_but_by_the_bad_minute(installation: Installation) -> None:
    refused = [request for request in about_books(installation) if request.status in (403, 429) and not request.fault]
    limited = [
        request
        for request in about_books(installation)
        if request.status == 404 and not request.fault and NO_BOOK not in request.path
    ]
    assert refused == []
    assert limited == []


@pytest.mark.usefixtures("run")
def test_the_key_s_rate_is_used(installation: Installation) -> None:
    calm = about_books(installation)[WARM_UP : WARM_UP + UNDISTURBED]
    seconds = (calm[-1].at - calm[0].at).total_seconds()
    assert (len(calm) - 1) / seconds >= 0.95 * books.PRO.requests_per_second


def test_no_answer_is_asked_for_again_but_those_that_the_kill_lost(run: Ended, installation: Installation) -> None:
    answered = Counter(
        request.path for request in about_books(installation) if request.status == 200 and not request.fault
    )
    again = sum(count - 1 for path, count in answered.items())
    witnesses = sum(NO_BOOK in request.path for request in about_books(installation))
    killed = sum(task.try_number > 1 for task in run.tasks.values())
    assert again <= killed * IN_FLIGHT + witnesses
