"""What the operators put into the events of their outlets and give to OpenLineage, however a task ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_mediaops.exceptions import PermissionDeniedError
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.triggers.deferral import done_event
from tests.airflow_names import TaskDeferred
from tests.unit.book_database import CRIME
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.operators.enrichment import make
from tests.unit.operators.video_platform_tasks import SUBSCRIPTIONS
from tests.unit.operators.video_platform_tasks import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent
from tests.unit.video_platform import error, page

if TYPE_CHECKING:
    from pathlib import Path

    from requests_mock import Mocker

    from airflow_provider_mediaops.lineage.task_lineage import TaskLineage

pytestmark = pytest.mark.usefixtures("supervisor")
ASSET = Asset("written")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at what OpenLineage would get, also if it is not installed."""
    monkeypatch.setattr("airflow_provider_mediaops.lineage.openlineage.operator_lineage", lambda lineage: lineage)


def export(destination: object) -> ExportSubscriptionsOperator:
    return ExportSubscriptionsOperator(task_id="task", destination=str(destination), mine=True, outlets=[ASSET])


def told(operator: Any, when: str = "complete") -> TaskLineage:
    """Return what OpenLineage is told."""
    lineage: TaskLineage = getattr(operator, f"get_openlineage_facets_on_{when}")(None)
    return lineage


def test_another_worker_tells_what_the_triggerer_has_written(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(f"isbn,price\n{CRIME},9.5\n")
    file, events = tmp_path / "books.csv", OutletEventAccessors()
    arguments: dict[str, Any] = {"source": str(tmp_path / "list.csv"), "deferrable": True, "outlets": [ASSET]}
    with pytest.raises(TaskDeferred) as deferred:
        make(file, **arguments).execute({"outlet_events": events})
    assert len(events) == 0

    summary = {"path": str(file), "rows": 1, "bytes": 99, "found": 1, "failed": 0, "not_asked": 0}
    operator = make(file, **arguments)
    operator.execute_complete({"outlet_events": events}, done_event(summary), **(deferred.value.kwargs or {}))

    assert events[ASSET].extra == {**summary, "complete": True}
    [written] = told(operator).outputs
    assert (written.uri, written.rows, written.bytes) == (file.as_uri(), 1, 99)
    assert list((written.columns or {}).items())[-1] == ("source_price", "string")


def test_failed_task_reports_no_output(tmp_path: Path, platform: Mocker) -> None:
    platform.get(SUBSCRIPTIONS, status_code=403, json=error(403, "forbidden"))
    operator, events = export(tmp_path / "subs.csv"), OutletEventAccessors()
    with pytest.raises(permanent(PermissionDeniedError)):
        operator.execute({"outlet_events": events})

    assert [each.uri for each in told(operator, "failure").inputs] == [
        "mediaops-video://mediaops_video_default/subscriptions/mine"
    ]
    assert told(operator, "failure").outputs == ()
    assert events[ASSET].extra == {}


def test_dataset_published_before_the_task_failed_is_reported(tmp_path: Path, platform: Mocker) -> None:
    platform.get(SUBSCRIPTIONS, json=page(1))
    operator = export(tmp_path / "subs.csv")
    operator.execute({"outlet_events": OutletEventAccessors()})

    assert [each.uri for each in told(operator, "failure").outputs] == [(tmp_path / "subs.csv").as_uri()]


@pytest.mark.parametrize("rendered", [{"page_size": "many"}, {"destination": "/no/suffix"}])
def test_arguments_that_cannot_be_read_tell_nothing_and_raise_nothing(rendered: dict[str, Any]) -> None:
    operator = export("/data/subs.csv")
    for name, value in rendered.items():
        setattr(operator, name, value)

    assert told(operator, "failure").outputs == ()
