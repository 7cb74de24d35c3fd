"""How a cluster answers, as far as OpenSearch and Elasticsearch have it in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from fastapi import Response

from airflow_provider_mediaops.sandbox.cluster.hot_threads_text import OpenSearchForm, Sampling
from airflow_provider_mediaops.sandbox.cluster.json_reply import json_bytes
from airflow_provider_mediaops.sandbox.cluster.nodes import MANAGER, NODES, Node
from airflow_provider_mediaops.sandbox.refusals import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.sandbox.cluster.query import Query

CLUSTER_NAME = "mediaops-sandbox"
TYPES = ("block", "cpu", "wait")
METRICS = (
    *("os", "process", "jvm", "thread_pool", "fs", "transport", "http", "breaker", "script", "discovery", "ingest"),
    *("adaptive_selection", "script_cache", "indexing_pressure", "repositories", "indices"),
)
_NO_RIGHT = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_OF_INDICES = ("completion_fields", "fielddata_fields", "fields", "groups")


class Dialect(ABC):
    """How a cluster answers; this is what OpenSearch 2 and Elasticsearch 9 have in common."""

    #: The form of its hot-threads reports.
    form: ClassVar[OpenSearchForm] = OpenSearchForm()
    #: The words by which a request may name the manager's role.
    manager_words: ClassVar[Mapping[str, str]] = {"master": MANAGER}
    #: The sets of node statistics that a request may name.
    metrics: ClassVar[tuple[str, ...]] = METRICS
    #: Whether unknown routes and methods are refused before the credential is looked at.
    routes_come_first: ClassVar[bool] = False
    #: The name of the role that is called manager here.
    manager_role: ClassVar[str] = "master"
    #: Headers of every reply but those to a request without the right to it.
    headers: ClassVar[Mapping[str, str]] = {}
    json_type: ClassVar[str] = "application/json"
    #: The names of the time limits of hot threads and of statistics in a refusal, if they are other ones.
    timeout_settings: ClassVar[Mapping[str, str]] = {}
    distribution: ClassVar[Mapping[str, Any]] = {}
    #: Whether the CPU of searches is counted.
    counts_task_cpu: ClassVar[bool] = False

    def identity(self) -> dict[str, Any]:
        """Return the reply at the base address of the cluster."""
        return {
            "name": NODES[0].name,
            "cluster_name": CLUSTER_NAME,
            "cluster_uuid": NODES[0].id,
            "version": {
                **self.distribution,
                "build_hash": "5a6d0b0c0000000000000000000000000000cafe",
                "build_date": "2025-01-31T08:30:00.000000000Z",
                "build_snapshot": False,
            },
            "tagline": "A stand-in for a search cluster, with invented figures.",
        }

    def roles_of(self, node: Node) -> list[str]:
        """Return the roles of a node by the product's names."""
        return sorted(self.manager_role if role == MANAGER else role for role in node.roles)

    def read_common(self, query: Query) -> None:
        """Read the parameters that every request may have."""
        for name in ("pretty", "human", "error_trace"):
            query.flag(name, default=False)
        for name in ("format", "filter_path"):
            query.text(name, "")

    def read_sampling(self, query: Query) -> tuple[Sampling, int]:
        """
        Read the parameters of a request for hot threads.

        :param query: its parameters.
        :returns: the sampling, and the time limit in nanoseconds.
        :raises RefusedError: if a parameter is wrong.
        """
        sampling = Sampling(
            threads=query.whole_number("threads", 3),
            ignore_idle=query.flag("ignore_idle_threads", default=True),
            type=self._type(query),
            sort=self._sort(query),
            interval=query.time("interval", "500ms"),
            snapshots=query.whole_number("snapshots", 10),
        )
        return sampling, query.time("timeout", "30s", setting=self.timeout_settings.get("hot_threads"))

    def _type(self, query: Query) -> str:
        return query.text("type", "cpu")

    def _sort(self, query: Query) -> str:
        return "total"

    def can_measure(self, sampling: Sampling) -> bool:
        """Return whether the nodes can do what is asked; those that cannot are left out of the reply."""
        return sampling.type in TYPES and min(sampling.threads, sampling.interval, sampling.snapshots) >= 0

    def nodes_after_timeout(self, nodes: list[Node], timeout: str) -> list[Node]:
        """
        Return the nodes of a report that takes longer than its time limit: late nodes are left out.

        :param nodes: the nodes that were asked.
        :param timeout: the time limit, as it came.
        """
        return []

    def read_statistics(self, query: Query, metrics: list[str]) -> None:
        """
        Read the parameters of a request for node statistics.

        :param query: its parameters.
        :param metrics: the sets that it names.
        """
        query.time("timeout", "30s", setting=self.timeout_settings.get("statistics"))
        query.text("level", "node")
        if {"indices", "_all"} & set(metrics):
            for name in _OF_INDICES:
                query.text(name, "")
            query.flag("include_segment_file_sizes", default=False)

    @abstractmethod
    def unauthenticated(self, uri: str, scheme: str, user: str | None) -> RefusedError:
        """
        Refuse a request whose credential is missing or wrong.

        :param uri: what was asked.
        :param scheme: the kind of the credential: ``basic``, ``apikey``, ``bearer``, or another that is not looked at.
        :param user: whose password was wrong; None if no name and password came.
        """

    @abstractmethod
    def forbidden(self, action: str, user: str) -> RefusedError:
        """
        Refuse an action that a user may not do.

        :param action: such as ``cluster:monitor/nodes/stats``.
        :param user: the user.
        """

    def unknown_route(self, method: str, path: str, uri: str) -> RefusedError:
        """
        Refuse an address that the cluster does not have.

        :param method: the HTTP method.
        :param path: the decoded path.
        :param uri: the path and the query, as they came.
        """
        return RefusedError(400, {"error": f"no handler found for uri [{uri}] and method [{method}]"})

    def wrong_method(self, method: str, uri: str, allowed: list[str]) -> RefusedError:
        """
        Refuse a method that an address does not take.

        :param method: the HTTP method.
        :param uri: the path and the query, as they came.
        :param allowed: the methods that it takes.
        """
        reason = f"Incorrect HTTP method for uri [{uri}] and method [{method}], allowed: [{', '.join(allowed)}]"
        return RefusedError(405, {"error": reason, "status": 405}, {"Allow": ",".join(allowed)})

    def refusal_reply(self, refusal: RefusedError, *, pretty: bool = False, accept: str = "") -> Response:
        """
        Return a refusal as the cluster sends it.

        :param refusal: the refusal.
        :param pretty: whether it is spread over lines.
        :param accept: the request's header of that name.
        """
        body = json_bytes(refusal.body, pretty=pretty)
        headers = refusal.headers if refusal.status in _NO_RIGHT else {**refusal.headers, **self.headers}
        return Response(body, refusal.status, headers, media_type=self.json_type_for(accept))

    def json_type_for(self, accept: str) -> str:
        """
        Return the content type of JSON.

        :param accept: the request's header of that name.
        """
        return self.json_type
