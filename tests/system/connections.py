"""The connections of the suite's DAGs, in the forms in which Airflow takes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from airflow_provider_mediaops.sandbox import books, cluster, video

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer

SECRETS = (
    books.INACTIVE_KEY,
    books.PRO.key,
    cluster.PASSWORD,
    video.CLIENT_SECRET,
    video.READ_ONLY_TOKEN,
    video.REFRESH_TOKEN,
    "sandbox-access-token",
)
"""What must be seen nowhere; the last one begins every access token that the sandbox issues."""


def in_environment(sandbox: SandboxServer) -> dict[str, str]:
    """Give the connections that Airflow reads from its environment, in JSON and, one of them, as an address."""
    ready = sandbox.connections(video_auth="refresh_token")
    on_video, on_cluster = (json.loads(ready[f"AIRFLOW_CONN_MEDIAOPS_{name}_DEFAULT"]) for name in ("VIDEO", "CLUSTER"))
    connections = {
        "MEDIAOPS_VIDEO_DEFAULT": on_video,
        "VIDEO_READ_ONLY": {**on_video, "password": video.READ_ONLY_TOKEN, "extra": {"auth": "bearer"}},
        "CLUSTER_IMPATIENT": {**on_cluster, "extra": {"max_wait": 2}},
        "CLUSTER_WATCHED": {**on_cluster, "extra": {"max_attempts": 1}},
        "CLUSTER_ALWAYS_HOT": on_cluster,
        "CAPTURE_SPIKE": on_cluster,
        "CAPTURE_LIMIT": on_cluster,
        "BOOKS_INACTIVE_KEY": {**in_database(sandbox), "password": books.INACTIVE_KEY},
    }
    return {
        "AIRFLOW_CONN_MEDIAOPS_CLUSTER_DEFAULT": _address(on_cluster),
        **{f"AIRFLOW_CONN_{name}": json.dumps(connection) for name, connection in connections.items()},
    }


def in_database(sandbox: SandboxServer) -> dict[str, Any]:
    """Give the connection to the book database, which is put into Airflow's own database."""
    connection: dict[str, Any] = json.loads(sandbox.connections()["AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT"])
    return connection


def _address(connection: dict[str, Any]) -> str:
    login, password, host = (quote(connection[field], safe="") for field in ("login", "password", "host"))
    return f"{connection['conn_type'].replace('_', '-')}://{login}:{password}@{host}/?{urlencode(connection['extra'])}"
