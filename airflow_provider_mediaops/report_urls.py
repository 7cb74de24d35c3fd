"""
Return the addresses of the pages in Airflow: those of this provider, and Airflow's own of a task instance.

The base address is Airflow's own or its path, such as ``[api] base_url``; empty for a path from the root. Every process
of Airflow imports this module with the plugin, so it imports next to nothing.
"""

from __future__ import annotations

from urllib.parse import quote

#: Below this path of Airflow's API server are all pages of this provider.
URL_PREFIX = "/mediaops"
#: The paths of the list and of the report below :data:`URL_PREFIX`.
LIST_PATH = "/hot-threads"
REPORT_PATH = "/hot-threads/report"
#: The names of the tab and of the list in the addresses of Airflow's own pages.
TAB_ROUTE = "mediaops-hot-threads"
LIST_ROUTE = "mediaops-hot-threads-list"

#: The map index of a task that is not mapped.
NOT_MAPPED = -1


def report_url(dag_id: str, run_id: str, task_id: str, map_index: int = NOT_MAPPED, *, base_url: str = "") -> str:
    """Return the address of the report of a task instance: the page alone, as it stands within Airflow's tab."""
    # The run comes last: its id may contain a slash. As part of the path, its plus signs stay what they are even where
    # Airflow (3.1) inserts it as it is.
    path = "/".join(quote(part, safe="") for part in (dag_id, task_id, str(map_index), run_id))
    return f"{base_url.rstrip('/')}{URL_PREFIX}{REPORT_PATH}/{path}"


def tab_url(
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int = NOT_MAPPED,
    *,
    tab: str = f"plugin/{TAB_ROUTE}",
    base_url: str = "",
) -> str:
    """Return the address of a task instance's tab in Airflow's pages: *Hot threads*, or one such as ``xcom``."""
    parts = ["dags", dag_id, "runs", run_id, "tasks", task_id]
    if map_index != NOT_MAPPED:
        parts += ["mapped", str(map_index)]
    path = "/".join(quote(part, safe="") for part in parts)
    return f"{base_url.rstrip('/')}/{path}/{tab}"
