"""The links of the operators' task instances in Airflow's web interface."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import BaseOperatorLink, conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

# The map index of a task that is not mapped.
_NOT_MAPPED = -1
_PLUGIN = "airflow_provider_mediaops.plugin"
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


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
        from airflow_provider_mediaops.cluster.capture.destination import read_formats
        from airflow_provider_mediaops.report_urls import tab_url

        if not _has_succeeded(ti_key) or not _has_tab() or "txt" not in read_formats(getattr(operator, "formats", ())):
            return ""
        return tab_url(ti_key.dag_id, ti_key.run_id, ti_key.task_id, _map_index(ti_key), base_url=_base_url())


class DatasetLink(BaseOperatorLink):
    """
    Leads from an export or an enrichment to its dataset.

    For Amazon's and Google's stores that is the page of the object in the cloud's console. All other files have no page
    of their own: the link leads to the events of the task's assets, which describe the dataset, or, if the task has no
    outlets, to its XComs, which hold the summary.
    """

    name = "Dataset"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """
        Return the address of the dataset; Airflow calls this in the worker when the task has ended.

        :param operator: the export or enrichment, rendered.
        :param ti_key: the task instance.
        :returns: the address, which holds nothing of a connection; empty if the task has not succeeded.
        """
        from airflow_provider_mediaops.lineage.locations import console_url, uri_of

        destination = getattr(operator, "destination", None)
        if not _has_succeeded(ti_key) or not isinstance(destination, str):
            return ""
        page = console_url(uri_of(destination))
        if page and not _has_own_endpoint(destination):
            return page
        return _task_url(ti_key, "asset_events" if operator.outlets else "xcom")


def _has_succeeded(ti_key: Any) -> bool:
    # A key of a task instance, without a state, is given for what has ended.
    return getattr(ti_key, "state", None) in (None, "success")


def _has_tab() -> bool:
    """Return whether the plugin is installed and this version of Airflow can have its tab."""
    from airflow_provider_mediaops.report_urls import TAB_ROUTE

    plugins = (entry.load() for entry in entry_points(group="airflow.plugins") if entry.value.startswith(_PLUGIN))
    return any(view.get("url_route") == TAB_ROUTE for plugin in plugins for view in plugin.external_views)


def _has_own_endpoint(destination: str) -> bool:
    """Return whether the store of a path is another one than the cloud's own, or that cannot be found out."""
    from airflow.providers.common.compat.sdk import AirflowException, BaseHook
    from airflow.sdk.exceptions import AirflowRuntimeError

    from airflow_provider_mediaops.lineage.locations import conn_id_in

    if any(os.environ.get(name) for name in _ENDPOINT_VARIABLES):
        return True
    conn_id = conn_id_in(destination)
    if conn_id is None:
        return False
    try:
        extra = BaseHook.get_connection(conn_id).extra_dejson
    except (AirflowException, AirflowRuntimeError):
        return True
    return "endpoint_url" in extra or "service_config" in extra


def _task_url(ti_key: Any, tab: str) -> str:
    parts = ["dags", ti_key.dag_id, "runs", ti_key.run_id, "tasks", ti_key.task_id]
    if (map_index := _map_index(ti_key)) != _NOT_MAPPED:
        parts += ["mapped", str(map_index)]
    return f"{_base_url().rstrip('/')}/{'/'.join(quote(part, safe='') for part in [*parts, tab])}"


def _map_index(ti_key: Any) -> int:
    return _NOT_MAPPED if ti_key.map_index is None else ti_key.map_index


def _base_url() -> str:
    return conf.get("api", "base_url", fallback="") or ""
