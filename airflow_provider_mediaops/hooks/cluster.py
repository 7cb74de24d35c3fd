"""The hook of the search cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

from airflow_provider_mediaops.connection_fields import CLUSTER
from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.hooks.base import ConnectionCheck, Service, ServiceHook
from airflow_provider_mediaops.hooks.cluster_auth import (
    AwsAuth,
    api_key,
    api_key_secrets,
    bearer_token,
    client_certificate,
    refuse_serverless,
    with_cloud_address,
)
from airflow_provider_mediaops.hooks.connection import base_urls, retry_policy, transport_settings
from airflow_provider_mediaops.http.auth import Auth
from airflow_provider_mediaops.http.settings import MAX_LARGE_REPLY_BYTES

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
    from airflow_provider_mediaops.cluster.models import CpuMeasure, NodeCpu
    from airflow_provider_mediaops.hooks.connection import ConnectionFields
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import CallFlow

_MEGABYTE = 1024 * 1024
_NO_USERS = "a cluster without users needs auth=none"


class HotThreadsArguments(TypedDict, total=False):
    """The parameters of a report; see :class:`~airflow_provider_mediaops.cluster.query.HotThreadsQuery`."""

    ignore_idle_threads: bool
    interval: str
    snapshots: int
    threads: int
    type: str
    master_timeout: str
    timeout: str


class SearchClusterHook(ServiceHook):
    """
    Read the hot threads and the CPU of a search cluster's nodes.

    :param cluster_conn_id: the connection's id, of type ``mediaops_cluster``.
    """

    service_package = "airflow_provider_mediaops.cluster"
    conn_type = CLUSTER
    conn_name_attr = "cluster_conn_id"
    default_conn_name = "mediaops_cluster_default"

    def __init__(self, cluster_conn_id: str = default_conn_name) -> None:
        super().__init__(cluster_conn_id)
        self.cluster_conn_id = self.conn_id
        self._measure: CpuMeasure = "auto"

    def hot_threads(
        self,
        nodes: str | Sequence[str] | None = None,
        *,
        ignore_idle_threads: bool = True,
        interval: str = "500ms",
        snapshots: int = 10,
        threads: int = 3,
        type: str = "cpu",
        master_timeout: str = "30s",
        timeout: str = "30s",
    ) -> str:
        """
        Report the hot threads of nodes.

        :param nodes: ids or names of nodes, in a list or in one text with commas; None for all.
        :param ignore_idle_threads: whether known idle threads are left out.
        :param interval: the time between the samplings: a whole number and a unit (nanos, micros, ms, s, m, h, d).
        :param snapshots: how many samples are taken of each thread's stack.
        :param threads: how many threads are reported for each node; a large number reports all.
        :param type: ``cpu``, ``wait`` or ``block``.
        :param master_timeout: how long the cluster may look for its master.
        :param timeout: how long it may wait for its nodes.
        :returns: the report as the cluster sent it, decoded as UTF-8; an invalid byte becomes a surrogate, so that
            ``text.encode("utf-8", "surrogateescape")`` gives the bytes back.
        :raises ValueError: if an argument would be refused; nothing is sent.
        :raises NotFoundError: if no node that was asked for is in the report.
        :raises MediaOpsError: if the service refuses, or fails.
        """
        from airflow_provider_mediaops.cluster.api import hot_threads
        from airflow_provider_mediaops.cluster.query import HotThreadsQuery

        query = HotThreadsQuery(
            nodes,
            ignore_idle_threads=ignore_idle_threads,
            interval=interval,
            snapshots=snapshots,
            threads=threads,
            type=type,
            master_timeout=master_timeout,
            timeout=timeout,
        )
        return self.ask(hot_threads(query))

    def hot_threads_report(
        self, nodes: str | Sequence[str] | None = None, **query: Unpack[HotThreadsArguments]
    ) -> HotThreadsReport:
        """
        Report the hot threads of nodes, read into typed values.

        :param nodes: ids or names of nodes, in a list or in one text with commas; None for all.
        :param query: the parameters of :meth:`hot_threads`.
        :returns: the report; its ``render()`` gives the text back.
        :raises MediaOpsError: if the service refuses, or fails.
        """
        from airflow_provider_mediaops.cluster.hot_threads.parser import parse

        return parse(self.hot_threads(nodes, **query))

    def cpu(self, nodes: str | Sequence[str] | None = None) -> list[NodeCpu]:
        """
        Read the CPU of nodes from their statistics; a node without a figure has None, never zero.

        :param nodes: ids or names of nodes, in a list or in one text with commas; None for all.
        :returns: the nodes that answered; the log names the others.
        :raises NotFoundError: if the cluster knows none of the nodes.
        :raises MediaOpsError: if the service refuses, or fails.
        """
        from airflow_provider_mediaops.cluster.api import node_stats
        from airflow_provider_mediaops.cluster.query import node_list

        stats = self.ask(node_stats(nodes))
        if gap := stats.gap:
            self.log.warning("%s.", gap)
        if unknown := stats.unknown(node_list(nodes)):
            self.log.warning("The search cluster knows no node %s.", ", ".join(unknown))
        return list(stats.nodes)

    def _configure(self, fields: ConnectionFields) -> Service:
        from airflow_provider_mediaops.cluster.api import measuring
        from airflow_provider_mediaops.cluster.errors import CLUSTER_RULES
        from airflow_provider_mediaops.http.client import Client

        urls = base_urls(with_cloud_address(fields))
        refuse_serverless(fields, urls)
        self._measure = fields.value("cpu_measure")
        client = Client(urls, CLUSTER_RULES, auth=_auth_of(fields, self._mask), retry=retry_policy(fields))
        limit = fields.value("max_report_mb", MAX_LARGE_REPLY_BYTES // _MEGABYTE)
        transport = replace(
            transport_settings(fields, verify=fields.value("verify") and (fields.text("ca_cert") or True)),
            client_certificate=client_certificate(fields),
            max_large_reply_bytes=limit * _MEGABYTE,
        )
        return Service(client, transport, measuring(client.ask, self._measure))

    def _test(self, client: Client) -> CallFlow[ConnectionCheck]:
        from airflow_provider_mediaops.cluster.api import measuring, probe

        # The root page would need neither of the privileges.
        stats = yield from probe(measuring(client.ask, self._measure))
        name = f" {stats.cluster_name!r}" if stats.cluster_name else ""
        sentence = (
            f"The search cluster{name} answers, accepts the credentials and lets them read the statistics and the hot "
            "threads of its nodes."
        )
        if stats.measure != "auto" and all(node.percent is None for node in stats.nodes):
            sentence += (
                f" But the node that answered does not give its CPU by cpu_measure={stats.measure}: a wait for high "
                "CPU would not see it."
            )
        return ConnectionCheck(sentence)

    def version(self) -> str | None:
        """Return the product and version; None if the user may not ask, which takes a permission of its own."""
        from airflow_provider_mediaops.cluster.api import cluster_version

        with suppress(MediaOpsError), self:
            version = self.run(self.service.client.probing().ask(cluster_version()))
            return version and self._shown(version)
        return None


def _auth_of(fields: ConnectionFields, mask: Callable[[str], None]) -> Auth:
    if fields.password and not fields.login and not fields.text("auth"):
        raise fields.error(
            "auth", "it is empty and so is login: write api_key or bearer, whichever the password holds."
        )
    kind = fields.value("auth", "basic" if fields.login else "none")
    if kind == "none":
        return Auth()
    if kind == "aws":
        return AwsAuth(fields=fields, on_secret=mask)
    if kind == "api_key":
        key = api_key(fields)
        return Auth(f"ApiKey {key}", api_key_secrets(fields.password, key))
    if kind == "bearer":
        return Auth.bearer(bearer_token(fields))
    password = fields.required("password", f"the password, with auth=basic; {_NO_USERS}")
    login = fields.required("login", f"the user name, with auth=basic; {_NO_USERS}")
    return Auth.basic(login, password)
