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

STARTED: dict[str, Any] = {"json": {}}
EXISTS: dict[str, Any] = {"status_code": 409, "json": {"detail": "exists"}}
UNANSWERED: dict[str, Any] = {"exc": requests.ReadTimeout}


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests_mock: Mocker) -> LocalAirflow:
    monkeypatch.setattr(local_airflow, "POLL_SECONDS", 0.0)
    airflow = LocalAirflow(tmp_path, dags=tmp_path)
    requests_mock.get(f"{airflow.url}/api/v2/dags", json={"dags": [{"dag_id": "export"}]})
    requests_mock.patch(f"{airflow.url}/api/v2/dags/export", json={})
    return airflow


@pytest.mark.parametrize(
    "replies", [[LOCKED, LOCKED, STARTED], [LOCKED, EXISTS], [UNANSWERED, STARTED], [UNANSWERED, EXISTS]]
)
def test_a_run_that_was_refused_or_not_answered_is_started_once(
    airflow: LocalAirflow, requests_mock: Mocker, replies: list[dict[str, Any]]
) -> None:
    posted = requests_mock.post(f"{airflow.url}/api/v2/dags/export/dagRuns", replies)
    run_id = airflow.trigger("export")
    assert [request.json()["dag_run_id"] for request in posted.request_history] == [run_id] * len(replies)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ({"status_code": 409, "text": "exists"}, (1, "exists")),
        ({"status_code": 500, "text": "a fault of its own"}, (1, "a fault of its own")),
        (LOCKED, (1, "Database error")),
        (UNANSWERED, (2, "was not answered")),
        ({"exc": requests.ConnectTimeout}, (1, "was not answered")),
        ({"exc": requests.ConnectionError}, (1, "was not answered")),
    ],
)
def test_any_other_reply_and_one_that_never_comes_is_an_error(
    airflow: LocalAirflow,
    requests_mock: Mocker,
    monkeypatch: pytest.MonkeyPatch,
    reply: dict[str, Any],
    outcome: tuple[int, str],
) -> None:
    monkeypatch.setattr(local_airflow, "LOCK_SECONDS", 0.0)
    posted = requests_mock.post(f"{airflow.url}/api/v2/dags/export/dagRuns", [reply])
    with pytest.raises(LocalAirflowError, match=outcome[1]):
        airflow.trigger("export")
    assert posted.call_count == outcome[0]
