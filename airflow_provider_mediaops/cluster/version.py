"""The call for a cluster's product and version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.exchange import Call, Request, Response
from airflow_provider_mediaops.http.reply import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

_DISTRIBUTIONS = {"opensearch": "OpenSearch"}


def cluster_version() -> Call[str | None]:
    """Ask for product and version, such as ``OpenSearch 2.19.1``, with the permission ``cluster:monitor/main``."""
    request = Request("GET", "/", headers={"Accept": "application/json"}, is_retried=False, kind="version")
    return Call(request, lambda response: _read_version(response, read_json(response)))


def _read_version(response: Response, body: Mapping[str, Any]) -> str | None:
    version = body.get("version")
    if not isinstance(version, dict) or not isinstance(number := version.get("number"), str):
        return None
    distribution = version.get("distribution")
    if isinstance(distribution, str):
        return f"{_DISTRIBUTIONS.get(distribution, distribution)} {number}"
    # Elasticsearch names itself in a header since 7.14.
    product = response.headers.get("x-elastic-product")
    return f"{product} {number}" if product else number
