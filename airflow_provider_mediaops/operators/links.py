"""The links of the operators' task instances in Airflow's web interface."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

from airflow_provider_mediaops.version_compat import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

# By its name: no operator imports the plugin itself.
_PLUGIN = "airflow_provider_mediaops.plugin.airflow_plugin:MediaOpsPlugin"


class HotThreadsReportLink(BaseOperatorLink):
    """
    Leads from a capture to its report in the tab *Hot threads*.

    There is no link unless the task has succeeded and has kept the text, and none where the tab is not installed.
    """

    name = "Hot threads report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """
        Return the address of the tab; Airflow calls this in the worker when the task has ended.

        :param operator: the capture, rendered.
        :param ti_key: the task instance.
        :returns: the address; empty for no link.
        """
        from airflow_provider_mediaops.cluster.capture.plan import read_formats
        from airflow_provider_mediaops.report_urls import TAB_ROUTE

        address = _tab_of(ti_key, f"plugin/{TAB_ROUTE}")
        # The pages may be turned off, and not every version of Airflow can have the tab.
        routes = [view.get("url_route") for view in resolve_name(_PLUGIN).external_views]
        if not address or TAB_ROUTE not in routes or "txt" not in read_formats(getattr(operator, "formats", ())):
            return ""
        return address


class DatasetLink(BaseOperatorLink):
    """
    Leads from an export or an enrichment to its dataset.

    A file has no page of its own: the link leads to the events of the task's assets, which describe the dataset, or, if
    the task has no outlets, to its XComs, which hold the summary.
    """

    name = "Dataset"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """
        Return the address of the tab; Airflow calls this in the worker when the task has ended.

        :param operator: the export or enrichment, rendered.
        :param ti_key: the task instance.
        :returns: the address; empty if the task has not succeeded.
        """
        return _tab_of(ti_key, "asset_events" if operator.outlets else "xcom")


def _tab_of(ti_key: Any, tab: str) -> str:
    """Return the address of a tab of a task instance; empty if the task has not succeeded."""
    from airflow_provider_mediaops.report_urls import NOT_MAPPED, tab_url

    # Airflow passes the running task instance, with its state; others pass a bare key of one that has ended.
    if getattr(ti_key, "state", None) not in (None, "success"):
        return ""
    names = ti_key.dag_id, ti_key.run_id, ti_key.task_id, NOT_MAPPED if ti_key.map_index is None else ti_key.map_index
    return tab_url(*names, tab=tab, base_url=conf.get("api", "base_url", fallback="") or "")
