"""The search cluster: node hot threads, node statistics, and who it is."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from airflow_provider_mediaops.sandbox.clock import iso_milliseconds
from airflow_provider_mediaops.sandbox.cluster import hot_threads_text
from airflow_provider_mediaops.sandbox.cluster.nodes import HOST, NODES, Node, select
from airflow_provider_mediaops.sandbox.reading import described, from_query
from airflow_provider_mediaops.sandbox.refusals import RefusedError, cluster_refusal
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState

if TYPE_CHECKING:
    from collections.abc import Mapping

CLUSTER_NAME = "mediaops-sandbox"
# Invented words, which protect nothing.
LOGIN = "sandbox-operator"
PASSWORD = "sandbox-password"  # noqa: S105
API_KEY = base64.b64encode(b"sandbox-key-id:sandbox-key-secret").decode()
BEARER_TOKEN = "sandbox-cluster-token"  # noqa: S105
#: A user who is known and may do nothing.
GUEST_LOGIN = "sandbox-guest"
GUEST_PASSWORD = "sandbox-guest-password"  # noqa: S105

_BASIC_USERS = {f"{LOGIN}:{PASSWORD}": LOGIN, f"{GUEST_LOGIN}:{GUEST_PASSWORD}": GUEST_LOGIN}
_HEADER_USERS = {f"apikey {API_KEY}": "sandbox-key-id", f"bearer {BEARER_TOKEN}": "sandbox-token-user"}
_STATISTICS = {"os", "process"}


def _time(value: str) -> str:
    if hot_threads_text.nanoseconds(value) is None:
        message = "failed to parse [{value}] as a time value: a whole number and a unit (nanos, micros, ms, s, m, h, d)"
        raise PydanticCustomError("time", message, {"value": value})
    return value


def _digits(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch("[0-9]+", value):
        raise PydanticCustomError("digits", "failed to parse int parameter with value [{value}]", {"value": value})
    return value


Time = Annotated[str, AfterValidator(_time)]
WholeNumber = Annotated[int, BeforeValidator(_digits)]


class HotThreadsParameters(BaseModel):
    """The seven parameters of hot threads (cluster specification, section 4)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ignore_idle_threads: Literal["true", "false"] = Field(default="true", description="Leave idle threads out.")
    interval: Time = Field(default="500ms", description="Time between the samplings.")
    snapshots: WholeNumber = Field(default=10, ge=1, description="Samples of each thread's stack.")
    threads: WholeNumber = Field(default=3, ge=0, description="Threads to report; 9999 reports all.")
    master_timeout: Time = Field(
        default="30s", description="How long to wait for the manager node; it is always there."
    )
    timeout: Time = Field(default="30s", description="How long to wait for the nodes; a longer sampling fails.")
    type: Literal["block", "cpu", "wait"] = Field(default="cpu", description="What is sampled.")

    @property
    def sampling(self) -> hot_threads_text.Sampling:
        """What is to be sampled."""
        return hot_threads_text.Sampling(
            interval=hot_threads_text.nanoseconds(self.interval) or 0,
            snapshots=self.snapshots,
            threads=self.threads,
            ignore_idle=self.ignore_idle_threads == "true",
            type=self.type,
        )


class StatsParameters(BaseModel):
    """The one parameter of node statistics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    timeout: Time = Field(default="30s", description="How long to wait for the nodes, which answer at once.")


def _user_of(header: str) -> str | None:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return _HEADER_USERS.get(f"{scheme.lower()} {value}")
    try:
        return _BASIC_USERS.get(base64.b64decode(value, validate=True).decode())
    except (binascii.Error, ValueError):
        return None


async def _authorise(request: Request) -> None:
    header = request.headers.get("Authorization")
    path = request.url.path.removeprefix("/cluster") or "/"
    if header is None:
        raise cluster_refusal(401, "security_exception", f"missing authentication credentials for [{path}]")
    user = _user_of(header)
    if user is None:
        raise cluster_refusal(401, "security_exception", f"unable to authenticate the user of [{path}]")
    if user == GUEST_LOGIN:
        action = "nodes/hot_threads" if path.endswith("hot_threads") else "nodes/stats" if "stats" in path else "main"
        raise cluster_refusal(
            403, "security_exception", f"no permissions for [cluster:monitor/{action}] and User [name={user}]"
        )


router = APIRouter(prefix="/cluster", tags=["search cluster"], dependencies=[Depends(_authorise)])

HotThreadsQuery = Annotated[HotThreadsParameters, from_query(HotThreadsParameters)]
_HOT_THREADS = described(query=HotThreadsParameters)
_STATS = described(query=StatsParameters)


@router.get("", include_in_schema=False)
@router.get("/")
async def version() -> dict[str, Any]:
    """Say who the cluster is."""
    return {
        "name": NODES[0].name,
        "cluster_name": CLUSTER_NAME,
        "cluster_uuid": NODES[0].id,
        "version": {
            "distribution": "opensearch",
            "number": "2.19.1",
            "build_type": "sandbox",
            "build_snapshot": False,
            "lucene_version": "9.12.1",
            "minimum_wire_compatibility_version": "7.10.0",
            "minimum_index_compatibility_version": "7.0.0",
        },
        "tagline": "A stand-in for a search cluster, with invented figures.",
    }


@router.get("/_nodes/hot_threads", response_class=PlainTextResponse, openapi_extra=_HOT_THREADS)
async def hot_threads(parameters: HotThreadsQuery, sandbox: Sandbox) -> str:
    """Report the hot threads of all nodes (cluster specification, section 4)."""
    return await _report(list(NODES), parameters, sandbox)


@router.get("/_nodes/{node_id}/hot_threads", response_class=PlainTextResponse, openapi_extra=_HOT_THREADS)
async def hot_threads_of(node_id: str, parameters: HotThreadsQuery, sandbox: Sandbox) -> str:
    """Report the hot threads of some nodes; where none is meant, the reply is empty."""
    return await _report(select(node_id), parameters, sandbox)


async def _report(nodes: list[Node], parameters: HotThreadsParameters, sandbox: SandboxState) -> str:
    if not nodes:
        return ""
    sampling, clock = parameters.sampling, sandbox.clock
    patience = (hot_threads_text.nanoseconds(parameters.timeout) or 0) / 1e9
    await clock.sleep(min(sampling.seconds, patience, sandbox.settings.max_sampling))
    if sampling.seconds > patience:
        reason = f"[{nodes[0].name}][{nodes[0].address}] no response within [{parameters.timeout}]"
        raise cluster_refusal(503, "receive_timeout_transport_exception", reason)
    # Nodes answer in no promised order, each a little later than the one before.
    first = int(clock.now()) % len(nodes)
    return "".join(
        hot_threads_text.section(
            node,
            cpu=sandbox.cluster.load(node).machine,
            at=iso_milliseconds(clock.now() + 0.001 * place),
            sampling=sampling,
        )
        for place, node in enumerate(nodes[first:] + nodes[:first])
    )


@router.get("/_nodes/stats/{metrics}", dependencies=[from_query(StatsParameters)], openapi_extra=_STATS)
async def statistics(metrics: str, sandbox: Sandbox) -> dict[str, Any]:
    """Give the statistics of all nodes: `os`, `process`, or both."""
    return _statistics(list(NODES), metrics, sandbox)


@router.get("/_nodes/{node_id}/stats/{metrics}", dependencies=[from_query(StatsParameters)], openapi_extra=_STATS)
async def statistics_of(node_id: str, metrics: str, sandbox: Sandbox) -> dict[str, Any]:
    """Give the statistics of some nodes."""
    return _statistics(select(node_id), metrics, sandbox)


def _statistics(nodes: list[Node], metrics: str, sandbox: SandboxState) -> dict[str, Any]:
    wanted = metrics.split(",")
    for metric in wanted:
        if metric not in _STATISTICS:
            raise cluster_refusal(400, "illegal_argument_exception", f"unrecognized metric: [{metric}]")
    return {
        "_nodes": {"total": len(nodes), "successful": len(nodes), "failed": 0},
        "cluster_name": CLUSTER_NAME,
        "nodes": {node.id: _statistics_of(node, wanted, sandbox) for node in nodes},
    }


def _statistics_of(node: Node, metrics: list[str], sandbox: SandboxState) -> dict[str, Any]:
    load = sandbox.cluster.load(node)
    milliseconds = int(sandbox.clock.now() * 1_000)
    figures = {
        "os": {
            "timestamp": milliseconds,
            "cpu": {"percent": round(load.machine), "load_average": {"1m": round(max(0.0, load.machine) / 25, 2)}},
        },
        "process": {"timestamp": milliseconds, "cpu": {"percent": round(load.process)}},
    }
    return {
        "timestamp": milliseconds,
        "name": node.name,
        "transport_address": node.address,
        "host": HOST,
        "ip": node.address,
        "roles": sorted(node.roles),
        "attributes": node.attributes,
        **{metric: figures[metric] for metric in metrics},
    }


def refusal_of_invalid(error: Mapping[str, Any], path: str) -> RefusedError:
    """Say what is wrong with a request that does not fit its model.

    :param error: the first of pydantic's errors; its ``loc`` ends with the parameter's name.
    :param path: the request's path.
    :returns: the refusal.
    """
    name = error["loc"][-1]
    if error["type"] == "extra_forbidden":
        where = path.removeprefix("/cluster")
        return cluster_refusal(
            400, "illegal_argument_exception", f"request [{where}] contains unrecognized parameter: [{name}]"
        )
    return cluster_refusal(400, "illegal_argument_exception", f"[{name}]: {error['msg']}")
