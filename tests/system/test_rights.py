"""Who may read the pages about hot threads, on a real API server behind a prefix: those whom Airflow itself lets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.report_urls import LIST_PATH, URL_PREFIX, report_url
from scripts.local_airflow import REQUEST_SECONDS
from tests.system.fab_airflow import (
    CAPTURED,
    DELETED,
    EARLIER,
    LISTED,
    MAPPED,
    ODD,
    OF_ANOTHER_DAG,
    ROLES,
    FabAirflow,
    Instance,
)

if TYPE_CHECKING:
    import requests

    SignIn = Callable[[str, str], requests.Session]

UNKNOWN = Instance("hot", "of-no-run")
#: Each page of a task instance: that of which instance, the query, and a text that it shows to those who may read it.
PAGES = {
    "report": (CAPTURED, "", "Work.step"),
    "comparison": (CAPTURED, f"?before={EARLIER.run_id}", "What changed"),
    "report of a mapped task": (MAPPED, "", "Work.step"),
    "report of an odd run": (ODD, "", "Work.step"),
    "report of another DAG": (OF_ANOTHER_DAG, "", "Work.step"),
    "message about a deleted file": (DELETED, "", "There is no file"),
    "message about no task instance": (UNKNOWN, "", "No such task instance"),
}
#: Of them, those that a role is not refused.
READABLE = {
    "everything": set(PAGES),
    "no_task_instances": set(),
    "no_runs": set(),
    "one_dag": set(PAGES) - {"report of another DAG"},
}
LIST_URL = URL_PREFIX + LIST_PATH


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FabAirflow]:
    with FabAirflow(tmp_path_factory.mktemp("fab")) as running:
        yield running


@pytest.fixture(scope="module")
def sign_in(airflow: FabAirflow) -> SignIn:
    """Give a function that signs somebody in, the first time."""
    return cache(airflow.signed_in)


@pytest.fixture(params=["cookie", "token"])
def by(request: pytest.FixtureRequest) -> str:
    """How somebody signs in."""
    return str(request.param)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_refuses_whom_airflow_refuses_the_task_instance(
    airflow: FabAirflow, sign_in: SignIn, role: str, by: str, page: str
) -> None:
    instance, query, shown = PAGES[page]
    reader = sign_in(role, by)
    own = reader.get(airflow.url + instance.api_path, timeout=REQUEST_SECONDS).status_code
    if page not in READABLE[role]:
        assert own == HTTPStatus.FORBIDDEN
    else:
        assert own == (HTTPStatus.NOT_FOUND if instance is UNKNOWN else HTTPStatus.OK)

    answer = reader.get(report_url(*instance, base_url=airflow.url) + query, timeout=REQUEST_SECONDS)
    assert answer.status_code == own
    if own == HTTPStatus.FORBIDDEN:
        told = (instance.run_id, "of-the-day-before", "/captures/", "Work.step", "The task", shown)
        assert [word for word in told if word in answer.text] == []
        assert "You may not read the task instances of this DAG" in answer.text
    else:
        assert shown in answer.text


@pytest.mark.parametrize("role", ROLES)
def test_the_list_has_what_airflow_shows(airflow: FabAirflow, sign_in: SignIn, role: str, by: str) -> None:
    reader = sign_in(role, by)
    answer = reader.get(airflow.url + LIST_URL, timeout=REQUEST_SECONDS)
    assert answer.status_code == HTTPStatus.OK
    readable = [
        instance
        for instance in LISTED
        if reader.get(airflow.url + instance.api_path, timeout=REQUEST_SECONDS).status_code == HTTPStatus.OK
    ]
    links = re.findall(r'<th scope="row"><a href="([^"]+)"', answer.text)
    assert links == [report_url(*instance, base_url="/airflow") for instance in readable]
    assert ("cold" in answer.text) == (OF_ANOTHER_DAG in readable)
    assert len(readable) == {"everything": 5, "one_dag": 4}.get(role, 0)
