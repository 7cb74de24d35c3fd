"""Asking an Airflow whose database is locked, or which leaves a request unanswered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import requests

from scripts import local_airflow
from scripts.local_airflow import LocalAirflow, LocalAirflowError

if TYPE_CHECKING:
    from pathlib import Path

    from requests_mock import Mocker

LOCKED: dict[str, Any] = {"status_code": 500, "json": {"detail": {"reason": "Database error", "orig_error": "hidden"}}}


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests_mock: Mocker) -> LocalAirflow:
    monkeypatch.setattr(local_airflow, "POLL_SECONDS", 0.0)
    airflow = LocalAirflow(tmp_path, dags=tmp_path)
    requests_mock.get(f"{airflow.url}/api/v2/dags", json={"dags": [{"dag_id": "export"}]})
    requests_mock.patch(f"{airflow.url}/api/v2/dags/export", json={})
    return airflow


def test_a_run_is_started_once_the_database_is_free(airflow: LocalAirflow, requests_mock: Mocker) -> None:
    replies: list[dict[str, Any]] = [LOCKED, LOCKED, {"json": {}}]
    posted = requests_mock.post(f"{airflow.url}/api/v2/dags/export/dagRuns", replies)
    run_id = airflow.trigger("export")
    assert [request.json()["dag_run_id"] for request in posted.request_history] == [run_id] * 3


def test_a_run_that_the_locked_try_has_started_is_not_started_again(
    airflow: LocalAirflow, requests_mock: Mocker
) -> None:
    replies: list[dict[str, Any]] = [LOCKED, {"status_code": 409, "json": {"detail": "exists"}}]
    posted = requests_mock.post(f"{airflow.url}/api/v2/dags/export/dagRuns", replies)
    run_id = airflow.trigger("export")
    assert [request.json()["dag_run_id"] for request in posted.request_history] == [run_id] * 2


@pytest.mark.parametrize(
    "reply", [{"status_code": 409, "text": "exists"}, {"status_code": 500, "text": "a fault of its own"}]
)
def test_any_other_refusal_is_an_error_at_once(
    airflow: LocalAirflow, requests_mock: Mocker, reply: dict[str, object]
) -> None:
    posted = requests_mock.post(f"{airflow.url}/api/v2/dags/export/dagRuns", [reply])
    with pytest.raises(LocalAirflowError, match=str(reply["text"])):
        airflow.trigger("export")
    assert posted.call_count == 1


def test_a_database_that_stays_locked_is_an_error(
    airflow: LocalAirflow, requests_mock: Mocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_airflow, "LOCK_SECONDS", 0.0)
    requests_mock.post(f"{airflow.url}/api/v2/dags/export/dagRuns", [LOCKED])
    with pytest.raises(LocalAirflowError, match="Database error"):
        airflow.trigger("export")


@pytest.mark.parametrize("second", [{"json": {}}, {"status_code": 409, "json": {"detail": "exists"}}])
def test_a_run_whose_start_was_not_answered_is_asked_for_again(
    airflow: LocalAirflow, requests_mock: Mocker, second: dict[str, Any]
) -> None:
    replies: list[dict[str, Any]] = [{"exc": requests.ReadTimeout}, second]
    posted = requests_mock.post(f"{airflow.url}/api/v2/dags/export/dagRuns", replies)
    run_id = airflow.trigger("export")
    assert [request.json()["dag_run_id"] for request in posted.request_history] == [run_id] * 2


@pytest.mark.parametrize(
    ("error", "asked"), [(requests.ReadTimeout, 2), (requests.ConnectTimeout, 1), (requests.ConnectionError, 1)]
)
def test_request_that_is_never_answered_is_an_error(
    airflow: LocalAirflow, requests_mock: Mocker, error: type[Exception], asked: int
) -> None:
    posted = requests_mock.post(f"{airflow.url}/api/v2/dags/export/dagRuns", exc=error)
    with pytest.raises(LocalAirflowError, match="was not answered"):
        airflow.trigger("export")
    assert posted.call_count == asked
