"""What the operators put into the events of their outlets and give to OpenLineage, however a task ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_mediaops.exceptions import PermissionDeniedError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.triggers.base import done_event
from airflow_provider_mediaops.version_compat import AirflowSkipException
from tests.airflow_names import TaskDeferred
from tests.unit import search_cluster, video_platform
from tests.unit.book_database import CRIME
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

    from airflow_provider_mediaops.lineage.task_lineage import TaskLineage
    from tests.unit.conftest import Supervisor

VIDEO, CLUSTER = "https://video.example", "http://cluster.example:9200"
SUBSCRIPTIONS = f"{VIDEO}/v3/subscriptions"
ASSET = Asset("written")


@pytest.fixture(autouse=True)
def _services(supervisor: Supervisor, database: requests_mock.Mocker) -> None:
    """Have a platform with three subscriptions, a hot cluster, and a database with two books."""
    supervisor.connect("mediaops_video_default", video_platform.connection(VIDEO))
    supervisor.connect("mediaops_cluster_default", search_cluster.connection(CLUSTER))
    database.get(SUBSCRIPTIONS, json=video_platform.page(1, 2, 3))
    database.get(f"{CLUSTER}/_nodes/stats/os,process", json=search_cluster.stats({"node-1": 95}))
    database.get(f"{CLUSTER}/_nodes/hot_threads", text=search_cluster.report("node-1"))
    database.get(f"{CLUSTER}/_nodes/os", json={})


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at what OpenLineage would get, also if it is not installed."""
    monkeypatch.setattr("airflow_provider_mediaops.lineage.task_lineage.operator_lineage", lambda lineage: lineage)


def export(destination: object, **arguments: Any) -> ExportSubscriptionsOperator:
    how: dict[str, Any] = {"mine": True, "outlets": [ASSET], **arguments}
    return ExportSubscriptionsOperator(task_id="task", destination=str(destination), **how)


def enrich(destination: object, **arguments: Any) -> EnrichIsbnsOperator:
    return EnrichIsbnsOperator(task_id="task", destination=str(destination), outlets=[ASSET], **arguments)


def capture(destination: object, **arguments: Any) -> CaptureHotThreadsOperator:
    return CaptureHotThreadsOperator(task_id="task", destination=str(destination), outlets=[ASSET], **arguments)


def run(operator: Any) -> dict[str, Any]:
    """Run a task; give the extra of its asset's event."""
    events = OutletEventAccessors()
    operator.execute({"outlet_events": events})
    return dict(events[ASSET].extra)


def reported(operator: Any, when: str = "complete") -> tuple[list[str], list[tuple[str, int | None, int | None]]]:
    """Give what OpenLineage is told: the URIs that are read, and those that are written with their rows and bytes."""
    ask = getattr(operator, f"get_openlineage_facets_on_{when}")
    lineage: TaskLineage = ask() if when == "start" else ask(None)
    return [dataset.uri for dataset in lineage.inputs], [
        (dataset.uri, dataset.rows, dataset.bytes) for dataset in lineage.outputs
    ]


def columns_of(operator: Any) -> Any:
    """Give the columns of what was written, as OpenLineage is told."""
    return operator.get_openlineage_facets_on_complete(None).outputs[0].columns


MINE = "mediaops-video://mediaops_video_default/subscriptions/mine"
BOOKS = "mediaops-books://mediaops_books_default/books"
HOT_THREADS = "mediaops-cluster://mediaops_cluster_default/hot_threads"


class TestDeferred:
    def test_another_worker_tells_what_the_triggerer_has_written(self, tmp_path: Path) -> None:
        (tmp_path / "list.csv").write_text(f"isbn,price\n{CRIME},9.5\n")
        file, events = tmp_path / "books.csv", OutletEventAccessors()
        arguments: dict[str, Any] = {"source": str(tmp_path / "list.csv"), "deferrable": True}
        with pytest.raises(TaskDeferred) as deferred:
            enrich(file, **arguments).execute({"outlet_events": events})
        assert len(events) == 0
        summary = {"path": str(file), "rows": 1, "bytes": 99, "found": 1, "failed": 0, "not_asked": 0}
        operator = enrich(file, **arguments)
        operator.execute_complete({"outlet_events": events}, done_event(summary), **(deferred.value.kwargs or {}))
        assert events[ASSET].extra == {**summary, "complete": True}
        assert reported(operator)[1] == [(file.as_uri(), 1, 99)]
        assert list(columns_of(operator).items())[-1] == ("source_price", "string")


class TestNotDone:
    def test_failed_task_reports_no_output(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        database.get(SUBSCRIPTIONS, status_code=403, json=video_platform.error(403, "forbidden"))
        operator, events = export(tmp_path / "subs.csv"), OutletEventAccessors()
        with pytest.raises(permanent(PermissionDeniedError)):
            operator.execute({"outlet_events": events})
        assert reported(operator, "failure") == ([MINE], [])
        assert events[ASSET].extra == {}

    def test_skipped_task_reports_no_output(self, tmp_path: Path, database: requests_mock.Mocker) -> None:
        database.get(f"{CLUSTER}/_nodes/stats/os,process", json=search_cluster.stats({"node-1": 5}))
        operator = capture(tmp_path / "hot.txt", when_cpu_above=99, wait_timeout=0.01, poll_interval=0.01)
        with pytest.raises(AirflowSkipException):
            run(operator)
        assert reported(operator) == ([HOT_THREADS], [])

    def test_dataset_published_before_the_task_failed_is_reported(self, tmp_path: Path) -> None:
        operator = export(tmp_path / "subs.csv")
        run(operator)
        assert [uri for uri, _, _ in reported(operator, "failure")[1]] == [(tmp_path / "subs.csv").as_uri()]

    @pytest.mark.parametrize("rendered", [{"page_size": "many"}, {"mine": "perhaps"}, {"destination": "/no/suffix"}])
    def test_arguments_that_cannot_be_read_tell_nothing_and_raise_nothing(self, rendered: dict[str, Any]) -> None:
        operator = export("/data/subs.csv")
        for name, value in rendered.items():
            setattr(operator, name, value)
        reported(operator, "start")
        reported(operator, "failure")
