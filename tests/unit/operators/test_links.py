"""What a task tells of what it wrote: by its links, by the events of its outlets and to OpenLineage."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import Asset
from airflow.utils.state import TaskInstanceState

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.links import DatasetLink, HotThreadsReportLink
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.plugin.airflow_plugin import MediaOpsPlugin
from airflow_provider_mediaops.report_urls import LIST_ROUTE, TAB_ROUTE, tab_url
from tests.unit.operators.video_platform_tasks import platform as platform  # noqa: PLC0414 a fixture

if TYPE_CHECKING:
    from airflow_provider_mediaops.lineage import TaskLineage

RUN_ID = "manual__2026-11-22T09:30:00+00:00"
TASK = "/dags/dag/runs/manual__2026-11-22T09%3A30%3A00%2B00%3A00/tasks/task"
ASSET = Asset("written")


pytestmark = pytest.mark.usefixtures("supervisor")


def instance(state: Any = TaskInstanceState.SUCCESS, map_index: int | None = -1) -> Any:
    return SimpleNamespace(dag_id="dag", run_id=RUN_ID, task_id="task", map_index=map_index, state=state)


@pytest.fixture
def tab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the tab, also on an Airflow that cannot have it."""
    monkeypatch.setattr(MediaOpsPlugin, "external_views", [{"url_route": LIST_ROUTE}, {"url_route": TAB_ROUTE}])


def capture() -> CaptureHotThreadsOperator:
    return CaptureHotThreadsOperator(task_id="task", destination="/r/hot.txt")


def export(destination: object = "/data/subs.csv", **arguments: Any) -> ExportSubscriptionsOperator:
    return ExportSubscriptionsOperator(task_id="task", mine=True, destination=str(destination), **arguments)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at what OpenLineage would get, also if it is not installed."""
    monkeypatch.setattr("airflow_provider_mediaops.lineage.operator_lineage", lambda lineage: lineage)


def test_which_operators_have_which_links() -> None:
    kinds = (PostBulletinOperator, ExportSubscriptionsOperator, CaptureHotThreadsOperator, EnrichIsbnsOperator)
    names = [[link.name for link in kind.operator_extra_links] for kind in kinds]
    assert names == [[], ["Dataset"], ["Hot threads report"], ["Dataset"]]


def report_link(**how: Any) -> str:
    return HotThreadsReportLink().get_link(capture(), ti_key=instance(**how))


@pytest.mark.usefixtures("tab")
def test_link_of_a_capture_leads_to_its_tab() -> None:
    assert report_link() == report_link(map_index=None) == f"{TASK}/plugin/mediaops-hot-threads"
    assert report_link(map_index=2) == f"{TASK}/mapped/2/plugin/mediaops-hot-threads"


def test_there_is_no_link_of_a_capture_without_the_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MediaOpsPlugin, "external_views", [{"url_route": LIST_ROUTE}])
    assert report_link() == ""


@pytest.mark.airflow(">=3.1.1")
def test_the_tab_is_installed_with_this_package() -> None:
    assert report_link() == tab_url("dag", RUN_ID, "task")


def test_link_of_a_dataset_leads_to_what_describes_it_below_the_address_of_airflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def link(operator: Any, **how: Any) -> str:
        return DatasetLink().get_link(operator, ti_key=instance(**how))

    assert link(export()) == f"{TASK}/xcom"
    assert link(export(outlets=["any"])) == f"{TASK}/asset_events"
    assert link(export(), map_index=0) == f"{TASK}/mapped/0/xcom"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team/")
    assert link(export()) == f"https://airflow.example/team{TASK}/xcom"


@pytest.mark.parametrize("state", [TaskInstanceState.FAILED, TaskInstanceState.UP_FOR_RETRY, "deferred"])
@pytest.mark.usefixtures("tab")
def test_there_is_no_link_unless_the_task_has_succeeded(state: Any) -> None:
    assert report_link(state=state) == ""
    assert DatasetLink().get_link(export(), ti_key=instance(state)) == ""


def told(operator: Any) -> TaskLineage:
    """Return what OpenLineage is told of a task that has ended: it asks the same of one that failed."""
    lineage: TaskLineage = operator.get_openlineage_facets_on_complete(None)
    return lineage


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("rendered", [{"page_size": "many"}, {"destination": "/no/suffix"}])
def test_arguments_that_cannot_be_read_tell_nothing_and_raise_nothing(rendered: dict[str, Any]) -> None:
    operator = export("/data/subs.csv")
    for name, value in rendered.items():
        setattr(operator, name, value)

    assert told(operator).outputs == ()
