"""
The dialects of the search cluster: that of the document, of OpenSearch 2 and of Elasticsearch 9.

OpenSearch began as a copy of Elasticsearch, so :class:`Dialect` holds what both do, and each class below what one of
them does in its own way. The tests ask real servers and the sandbox the same questions (``tests/cluster``).
"""

from __future__ import annotations

from copy import deepcopy
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fastapi import Response

from airflow_provider_mediaops.sandbox.cluster.dialect import METRICS, TYPES, Dialect
from airflow_provider_mediaops.sandbox.cluster.hot_threads_text import ElasticsearchForm, Sampling
from airflow_provider_mediaops.sandbox.cluster.nodes import MANAGER, Node
from airflow_provider_mediaops.sandbox.cluster.query import illegal_argument
from airflow_provider_mediaops.sandbox.refusals import RefusedError, cluster_refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.sandbox.cluster.query import Query

DialectName = Literal["document", "opensearch-2", "elasticsearch-9"]


class OpenSearch2(Dialect):
    """OpenSearch 2.19.1 with its security plugin."""

    manager_words: ClassVar[Mapping[str, str]] = {"master": MANAGER, "cluster_manager": MANAGER}
    counts_task_cpu: ClassVar[bool] = True
    manager_role = "cluster_manager"
    metrics: ClassVar[tuple[str, ...]] = (
        *METRICS,
        *("shard_indexing_pressure", "search_backpressure", "cluster_manager_throttling", "weighted_routing"),
        *("file_cache", "task_cancellation", "search_pipeline", "resource_usage_stats", "caches", "remote_store"),
        *("segment_replication_backpressure", "admission_control"),
    )
    routes_come_first = True
    json_type = "application/json; charset=UTF-8"
    timeout_settings: ClassVar[Mapping[str, str]] = {
        "hot_threads": "NodesHotThreadsRequest.timeout",
        "statistics": "NodesStatsRequest.timeout",
    }
    distribution: ClassVar[Mapping[str, Any]] = {
        "distribution": "opensearch",
        "number": "2.19.1",
        "build_type": "sandbox",
        "lucene_version": "9.12.1",
        "minimum_wire_compatibility_version": "7.10.0",
        "minimum_index_compatibility_version": "7.0.0",
    }

    def unauthenticated(self, uri: str, scheme: str, user: str | None) -> RefusedError:
        """Refuse in one word of plain text."""
        return RefusedError(401, "Unauthorized", {"WWW-Authenticate": 'Basic realm="OpenSearch Security"'})

    def forbidden(self, action: str, user: str) -> RefusedError:
        """Refuse an action that a user may not do."""
        who = f"User [name={user}, backend_roles=[], requestedTenant=null]"
        return cluster_refusal(403, "security_exception", f"no permissions for [{action}] and {who}")

    def unknown_route(self, method: str, path: str, uri: str) -> RefusedError:
        """Refuse an address, which is shown decoded and without its query."""
        return super().unknown_route(method, path, path)

    def refusal_reply(self, refusal: RefusedError, *, pretty: bool = False, accept: str = "") -> Response:
        """Return a refusal as the cluster sends it; a 401 is the security plugin's."""
        if refusal.status == HTTPStatus.UNAUTHORIZED:
            plain = self.unauthenticated("", "", None)
            return Response(plain.body, plain.status, plain.headers, media_type="text/plain; charset=UTF-8")
        return super().refusal_reply(refusal, pretty=pretty, accept=accept)


class Elasticsearch9(Dialect):
    """Elasticsearch 9.1 with its security features, over HTTP."""

    form = ElasticsearchForm()
    metrics = (*METRICS, "allocations")
    headers: ClassVar[Mapping[str, str]] = {"X-elastic-product": "Elasticsearch"}
    distribution: ClassVar[Mapping[str, Any]] = {
        "number": "9.1.0",
        "build_flavor": "default",
        "build_type": "sandbox",
        "lucene_version": "10.2.2",
        "minimum_wire_compatibility_version": "8.19.0",
        "minimum_index_compatibility_version": "8.0.0",
    }
    _CHALLENGES: ClassVar[tuple[str, ...]] = ('Basic realm="security", charset="UTF-8"', "ApiKey")
    _WRONG: ClassVar[Mapping[str, str]] = {
        "apikey": "API key: apikey authentication encountered a failure",
        "bearer": "oauth2 token: invalid token",
    }

    def _type(self, query: Query) -> str:
        return _one_of(query.text("type", "cpu"), (*TYPES, "mem"), "type not supported")

    def _sort(self, query: Query) -> str:
        return _one_of(query.text("sort", "total"), ("total", "cpu"), "sort order not supported")

    def can_measure(self, sampling: Sampling) -> bool:
        """Return whether the nodes can do what is asked: a snapshot is the least."""
        return min(sampling.threads, sampling.interval, sampling.snapshots - 1) >= 0

    def read_statistics(self, query: Query, metrics: list[str]) -> None:
        """Read the parameters of a request for node statistics."""
        super().read_statistics(query, metrics)
        if {"indices", "_all"} & set(metrics):
            query.flag("include_unloaded_segments", default=False)
        level = query.text("level", "node")
        if level not in ("node", "indices", "shards"):
            reason = f"level parameter must be one of [node] or [indices] or [shards] but was [{level}]"
            raise illegal_argument(reason)

    def unauthenticated(self, uri: str, scheme: str, user: str | None) -> RefusedError:
        """Refuse a request whose credential is missing or wrong."""
        if scheme in self._WRONG:
            reason = (
                "unable to authenticate with provided credentials and anonymous access is not allowed for this request"
            )
            refusal = cluster_refusal(401, "security_exception", reason)
            for error in _errors_of(refusal):
                error["additional_unsuccessful_credentials"] = self._WRONG[scheme]
            return refusal
        if scheme == "basic" and user is None:
            return cluster_refusal(401, "security_exception", "invalid basic authentication header value")
        return cluster_refusal(401, "security_exception", f"{_not_authenticated(user)} for REST request [{uri}]")

    def forbidden(self, action: str, user: str) -> RefusedError:
        """Refuse an action that a user may not do, and name the privileges that grant it."""
        reason = (
            f"action [{action}] is unauthorized for user [{user}] with effective roles [], "
            "this action is granted by the cluster privileges [monitor,manage,all]"
        )
        return cluster_refusal(403, "security_exception", reason)

    def refusal_reply(self, refusal: RefusedError, *, pretty: bool = False, accept: str = "") -> Response:
        """Return a refusal as the cluster sends it; a 401 names the credentials that are taken."""
        if refusal.status != HTTPStatus.UNAUTHORIZED:
            return super().refusal_reply(refusal, pretty=pretty, accept=accept)
        named = RefusedError(refusal.status, deepcopy(refusal.body))
        for error in _errors_of(named):
            error["header"] = {"WWW-Authenticate": list(self._CHALLENGES)}
        response = super().refusal_reply(named, pretty=pretty, accept=accept)
        for challenge in self._CHALLENGES:
            response.headers.append("WWW-Authenticate", challenge)
        return response

    def json_type_for(self, accept: str) -> str:
        """Return the content type of JSON: Elasticsearch's own, with its version, if that is asked for."""
        asked = "".join(accept.split()).lower()
        own = "application/vnd.elasticsearch+json;compatible-with="
        return asked if asked in (f"{own}8", f"{own}9") else self.json_type


class Document(OpenSearch2):
    """
    The document of the operation: its seven parameters, and failure when a time limit passes.

    Of what the document leaves open, wrong values are refused, so that a mistake is seen at once; the rest is as
    OpenSearch 2 has it, but for the errors, which are all of one shape.
    """

    # The document has the first two; the others are as in OpenSearch, for what captures show beside the stacks.
    metrics = ("os", "process", "jvm", "thread_pool", "indices")
    routes_come_first = False
    timeout_settings: ClassVar[Mapping[str, str]] = {}

    def read_common(self, query: Query) -> None:
        """Read nothing: the document has no such parameters."""

    def read_sampling(self, query: Query) -> tuple[Sampling, int]:
        """Read the seven parameters, and refuse values that mean nothing."""
        sampling, timeout = super().read_sampling(query)
        manager_timeout = query.time("master_timeout", "30s")
        positive = {"interval": sampling.interval, "snapshots": sampling.snapshots}
        not_negative = {"threads": sampling.threads, "timeout": timeout, "master_timeout": manager_timeout}
        wrong = [name for name, value in positive.items() if value <= 0]
        wrong += [name for name, value in not_negative.items() if value < 0]
        if wrong:
            raise illegal_argument(f"[{wrong[0]}] is too small")
        return sampling, timeout

    def _type(self, query: Query) -> str:
        return _one_of(query.text("type", "cpu"), TYPES, "type not supported")

    def nodes_after_timeout(self, nodes: list[Node], timeout: str) -> list[Node]:
        """Refuse a report that takes longer than its time limit."""
        reason = f"[{nodes[0].name}][{nodes[0].address}] no response within [{timeout}]"
        raise cluster_refusal(503, "receive_timeout_transport_exception", reason)

    def read_statistics(self, query: Query, metrics: list[str]) -> None:
        """Read the one parameter that is taken, and those of the statistics that the document does not have."""
        query.time("timeout", "30s")
        if "indices" in metrics:
            query.text("level", "node")
            query.text("filter_path", "")

    def unauthenticated(self, uri: str, scheme: str, user: str | None) -> RefusedError:
        """Refuse a request whose credential is missing or wrong."""
        return cluster_refusal(401, "security_exception", f"{_not_authenticated(user)} for [{uri}]")

    def unknown_route(self, method: str, path: str, uri: str) -> RefusedError:
        """Refuse an address that the cluster does not have."""
        return illegal_argument(f"no handler found for uri [{path}] and method [{method}]")

    def wrong_method(self, method: str, uri: str, allowed: list[str]) -> RefusedError:
        """Refuse a method that an address does not take."""
        plain = super().wrong_method(method, uri, allowed)
        refusal = cluster_refusal(plain.status, "illegal_argument_exception", plain.body["error"])
        refusal.headers.update(plain.headers)
        return refusal

    def refusal_reply(self, refusal: RefusedError, *, pretty: bool = False, accept: str = "") -> Response:
        """Return a refusal, a 401 like any other."""
        return Dialect.refusal_reply(self, refusal, pretty=pretty, accept=accept)


def _not_authenticated(user: str | None) -> str:
    return "missing authentication credentials" if user is None else f"unable to authenticate user [{user}]"


def _errors_of(refusal: RefusedError) -> list[dict[str, Any]]:
    error: dict[str, Any] = refusal.body["error"]
    return [error, *error["root_cause"]]


def _one_of(text: str, words: tuple[str, ...], otherwise: str) -> str:
    if text not in words:
        raise illegal_argument(f"{otherwise} [{text}]")
    return text


DIALECTS: Mapping[DialectName, Dialect] = {
    "document": Document(),
    "opensearch-2": OpenSearch2(),
    "elasticsearch-9": Elasticsearch9(),
}
