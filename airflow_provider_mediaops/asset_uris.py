"""
Check and make the URIs of assets: what the operators read from the three services, and post to them.

The part after the scheme is the id of the connection, so that no address of a service stands in an asset. Files and
objects have the URIs of their own stores; Airflow and its providers check those.

Airflow imports this module for every asset with a scheme, so it imports next to nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from airflow.sdk import Asset
    from openlineage.client.generated.base import Dataset

#: The schemes of the video platform, the search cluster and the book database.
VIDEO, CLUSTER, BOOKS = "mediaops-video", "mediaops-cluster", "mediaops-books"

# What each service has, and how a message shows it.
_PATHS = {
    VIDEO: (
        re.compile(r"/(bulletins|subscriptions(/mine|/channels/[^/]+)?)"),
        "/bulletins, /subscriptions, /subscriptions/mine or /subscriptions/channels/<channel_id>",
    ),
    CLUSTER: (re.compile(r"/hot_threads"), "/hot_threads"),
    BOOKS: (re.compile(r"/books"), "/books"),
}
# Two names of one store.
_NAMESPACES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}


def service_uri(scheme: str, conn_id: str, path: str) -> str:
    """
    Return the URI of something that a service has.

    :param scheme: :data:`VIDEO`, :data:`CLUSTER` or :data:`BOOKS`.
    :param conn_id: the id of the connection.
    :param path: what it is, such as ``subscriptions/mine``.
    """
    return f"{scheme}://{quote(conn_id, safe='')}/{path}"


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """
    Check the URI of an asset of this provider's schemes, for Airflow (``asset-uris``).

    :param uri: the URI, taken apart.
    :returns: the URI without user information.
    :raises ValueError: if it names no connection, or nothing that the service has. The message shows neither user
        information nor a query.
    """
    pattern, known = _PATHS[uri.scheme]
    conn_id = uri.netloc.rpartition("@")[2]
    if not conn_id:
        raise ValueError(f"The asset URI {uri.scheme}:// has no connection: write {uri.scheme}://<conn_id>{known}.")
    if uri.query:
        raise ValueError(f"An asset URI {uri.scheme}:// takes no query: remove what follows the question mark.")
    if not pattern.fullmatch(uri.path):
        raise ValueError(f"The path of the asset URI {uri.scheme}://{conn_id} is {known}; not {uri.path!r}.")
    return uri._replace(netloc=conn_id, fragment="")


def create_video_asset(
    *, conn_id: str = "mediaops_video_default", path: str = "subscriptions/mine", extra: dict[str, Any] | None = None
) -> Asset:
    """
    Make the asset of the bulletins or the subscriptions of a video platform.

    :param conn_id: the id of its connection.
    :param path: ``bulletins``, ``subscriptions``, ``subscriptions/mine`` or ``subscriptions/channels/<channel_id>``.
    :param extra: the asset's own extra.
    :raises ValueError: for another path.
    """
    return _asset(service_uri(VIDEO, conn_id, path), extra)


def create_cluster_asset(*, conn_id: str = "mediaops_cluster_default", extra: dict[str, Any] | None = None) -> Asset:
    """
    Make the asset of the hot threads of a search cluster.

    :param conn_id: the id of its connection.
    :param extra: the asset's own extra.
    """
    return _asset(service_uri(CLUSTER, conn_id, "hot_threads"), extra)


def create_books_asset(*, conn_id: str = "mediaops_books_default", extra: dict[str, Any] | None = None) -> Asset:
    """
    Make the asset of the books of a book database.

    :param conn_id: the id of its connection.
    :param extra: the asset's own extra.
    """
    return _asset(service_uri(BOOKS, conn_id, "books"), extra)


def convert_asset_to_openlineage(asset: Asset, lineage_context: object) -> Dataset:  # noqa: ARG001 Airflow passes it
    """
    Translate an asset of this provider's schemes for OpenLineage, as Airflow asks for it (``asset-uris``).

    :param asset: the asset.
    :param lineage_context: what Airflow passes besides; not used.
    :returns: the dataset that the operators name, too.
    """
    from openlineage.client.generated.base import Dataset

    namespace, name = openlineage_name(asset.uri)
    return Dataset(namespace=namespace, name=name)


def openlineage_name(uri: str) -> tuple[str, str]:
    """
    Name a dataset as OpenLineage does.

    :param uri: the URI of an asset: of a file, an object, or something that a service has.
    :returns: the namespace (``file``, or the scheme and the bucket or connection) and the name in it.
    """
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return "file", unquote(parts.path)
    authority = unquote(parts.netloc.rpartition("@")[2])
    return f"{_NAMESPACES.get(parts.scheme, parts.scheme)}://{authority}", unquote(parts.path).lstrip("/")


def _asset(uri: str, extra: dict[str, Any] | None) -> Asset:
    from airflow.sdk import Asset

    return Asset(uri=uri, extra=extra)
