"""Exports in the triggerer, from the operator's side: what it hands over, and what comes of it."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    InvalidArgumentError,
    PermanentError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sandbox.faults import StatusFault
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import Settings
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
from airflow_provider_mediaops.video.export import SUBSCRIPTIONS
from tests.airflow_names import TaskDeferred
from tests.unit.call_flows import on_a_loop
from tests.unit.permanent import permanent
from tests.unit.sensor_forms import first_event, made_again

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.conftest import Supervisor

FORMS = ("worker", "triggerer")
FORMATS = ("jsonl", "csv", "parquet")
ROWS, PAGES = 120, 3


@pytest.fixture(autouse=True)
def platform(supervisor: Supervisor) -> Iterator[SandboxServer]:
    """Have a platform with three pages of subscriptions, and a connection that repeats nothing."""
    with SandboxServer(settings=Settings(subscriptions=ROWS)) as server:
        fields = json.loads(server.connections()["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"])
        fields["extra"] = {**fields.get("extra", {}), "max_attempts": 1}
        supervisor.connect("mediaops_video_default", json.dumps(fields))
        yield server


def context(run: str = "today", **more: Any) -> Any:
    fields = {"dag_id": "dag", "run_id": run, "task_id": "export", "map_index": -1, "max_tries": 2}
    return {"ti": SimpleNamespace(**fields), **more}


def make(file: object, **arguments: Any) -> ExportSubscriptionsOperator:
    arguments = {"mine": True, "deferrable": True, **arguments}
    return ExportSubscriptionsOperator(task_id="export", destination=str(file), **arguments)


def deferred(operator: ExportSubscriptionsOperator, context: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(context)
    return caught.value


def trigger_of(operator: ExportSubscriptionsOperator) -> ExportSubscriptionsTrigger:
    trigger = deferred(operator, context()).trigger
    assert isinstance(trigger, ExportSubscriptionsTrigger)
    return trigger


def export(form: str, file: Path, **arguments: Any) -> dict[str, Any]:
    """Export in a worker; or in the triggerer, from what the database keeps of the trigger and of its event."""
    operator = make(file, deferrable=form == "triggerer", **arguments)
    if form == "worker":
        return operator.execute(context())
    left = deferred(operator, context())
    trigger = made_again(left.trigger)
    event = json.loads(json.dumps(on_a_loop(asyncio.wait_for(first_event(trigger), 240))))
    summary: dict[str, Any] = operator.resume_execution(left.method_name, {"event": event}, context())
    return summary


def tokens(platform: SandboxServer) -> list[str | None]:
    return [request.query.get("pageToken") for request in list(platform.state.requests)]


class TestHandingOver:
    def test_nothing_is_sent_and_the_destination_is_free(self, tmp_path: Path, platform: SandboxServer) -> None:
        file = tmp_path / "subs.csv"
        left = deferred(make(file, for_channel_ids="a,b", page_size=7, if_changed="yes"), context())

        assert (left.method_name, left.timeout) == ("execute_complete", None)
        arguments = left.trigger.serialize()[1]
        owner = arguments["export"].pop("owner")
        assert owner["task"] == "dag/today/export/-1"
        assert arguments == {
            "conn_id": "mediaops_video_default",
            "export": {
                "destination": str(file),
                "query": {
                    "channel_id": None,
                    "ids": None,
                    "mine": True,
                    "part": ("id", "snippet", "contentDetails"),
                    "for_channel_ids": ("a", "b"),
                    "order": "alphabetical",
                    "max_results": 7,
                },
                "format": None,
                "csv_formulas": "keep",
                "if_changed": True,
                "require_complete": False,
                "changes": None,
            },
        }
        assert tokens(platform) == []
        with Dataset(str(file), view=SUBSCRIPTIONS).staging(Owner("dag/other/export/-1", "p")):
            pass

    def test_retry_of_a_published_export_is_not_deferred(self, tmp_path: Path, platform: SandboxServer) -> None:
        first = export("worker", tmp_path / "subs.csv")
        platform.state.requests.clear()

        assert make(tmp_path / "subs.csv").execute(context()) == first
        assert tokens(platform) == []

    def test_destination_that_cannot_be_written_raises_before_the_deferral(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(OSError, match=r"subs\.csv cannot be written"):
            make(tmp_path / "file" / "subs.csv").execute(context())


class TestBothForms:
    @pytest.mark.parametrize("name", FORMATS)
    @pytest.mark.parametrize("arguments", [{}, {"if_changed": True, "part": "id,snippet", "csv_formulas": "escape"}])
    def test_they_write_the_same_bytes_and_return_the_same(
        self, tmp_path: Path, platform: SandboxServer, name: str, arguments: dict[str, Any]
    ) -> None:
        summaries, requests = [], []
        for form in FORMS:
            platform.state.requests.clear()
            summaries.append({**export(form, tmp_path / form / f"subs.{name}", **arguments), "path": ""})
            requests.append([{**request.query} for request in platform.state.requests])

        assert summaries[0] == summaries[1]
        assert (summaries[0]["rows"], summaries[0]["pages"]) == (ROWS, PAGES)
        assert requests[0] == requests[1]
        files = [tmp_path / form / f"subs.{name}" for form in FORMS]
        assert files[0].read_bytes() == files[1].read_bytes()

    @pytest.mark.parametrize("form", FORMS)
    def test_a_file_that_is_no_export_to_compare_with_fails_for_good(self, tmp_path: Path, form: str) -> None:
        file = tmp_path / "subs.jsonl"
        file.write_text('{"isbn": "9780140328721"}\n')
        with pytest.raises(
            (permanent(InvalidArgumentError), permanent(PermanentError)), match="no export of subscriptions"
        ):
            export(form, file, changes=str(tmp_path / "changes.jsonl"))

    @pytest.mark.parametrize("first", FORMS)
    @pytest.mark.parametrize("second", FORMS)
    def test_each_form_goes_on_where_the_other_has_failed(
        self, tmp_path: Path, platform: SandboxServer, first: str, second: str
    ) -> None:
        file = tmp_path / "subs.jsonl"
        platform.state.faults.arm(StatusFault(service="video", status=503, after=1))
        with pytest.raises(ServiceUnavailableError):
            export(first, file)
        summary = export(second, file)

        assert (summary["resumed"], summary["rows"]) == (True, ROWS)
        assert len(set(tokens(platform))) == PAGES
        assert len(tokens(platform)) == PAGES + 1
