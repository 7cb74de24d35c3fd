"""The stand-in for the search cluster: hot threads, statistics and tasks of its nodes, and its identity."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.sandbox import cluster_figures as figures
from airflow_provider_mediaops.sandbox.clock import iso_milliseconds
from airflow_provider_mediaops.sandbox.cluster_nodes import HOST, NODES, ROLES, Node, matches, select
from airflow_provider_mediaops.sandbox.hot_threads import Sampling, Time, nanoseconds, section
from airflow_provider_mediaops.sandbox.refusals import cluster_refusal
from airflow_provider_mediaops.sandbox.state import Sandbox

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
# A report takes no longer than this, however long its sampling should take.
_MOST_SECONDS = 5.0
_NAME = "mediaops-sandbox"


def _needs(action: str) -> Any:
    """Return a dependency that refuses requests without a good credential, or whose user may not do the action."""

    async def check(request: Request, response: Response) -> None:
        # Elasticsearch's own client takes a reply only from a server that says so.
        response.headers["X-Elastic-Product"] = "Elasticsearch"
        user = _user_of(request.headers.get("Authorization", ""))
        if user is None:
            raise cluster_refusal(401, f"unable to authenticate user for REST request [{request.url.path}]")
        if user == GUEST_LOGIN:
            raise cluster_refusal(403, f"no permissions for [cluster:monitor/{action}] and User [name={user}]")

    return Depends(check)


def _user_of(authorization: str) -> str | None:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return _HEADER_USERS.get(f"{scheme.lower()} {value}")
    try:
        return _BASIC_USERS.get(base64.b64decode(value, validate=True).decode())
    except (binascii.Error, ValueError):
        return None


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StatisticsParameters(_Parameters):
    """The parameters of node statistics."""

    timeout: Time = Field(default="30s", description="How long to wait for the nodes, which answer at once.")
    level: Literal["node", "indices", "shards"] = Field(
        default="node", description="`shards` adds the counters of each shard to those of the indices."
    )
    filter_path: str = Field(
        default="", description="Paths of fields between commas, to show only them; `*` stands for any characters."
    )


class TaskParameters(_Parameters):
    """The parameters of a list of tasks."""

    detailed: Literal["true", "false"] = Field(default="false", description="Describe each task.")
    nodes: str = Field(default="_all", description="The nodes.")
    actions: str = Field(default="*", description="The actions, with `*` for any characters.")


def _chosen(request: Request) -> list[Node]:
    """Return the nodes that an address names, or all."""
    return select(request.path_params.get("node_list", "_all"))


async def _named(node_list: Annotated[str, Path(description="The nodes, separated by commas.")]) -> None:
    """Describe the list of nodes in the manual."""


Nodes: TypeAlias = Annotated[list[Node], Depends(_chosen)]

router = APIRouter(prefix="/cluster", tags=["search cluster"])
_of_nodes = APIRouter()


@router.head("/", include_in_schema=False, dependencies=[_needs("main")])
@router.get("/", dependencies=[_needs("main")])
async def identity() -> dict[str, Any]:
    """Return the name and the version of the cluster."""
    return {
        "name": NODES[0].name,
        "cluster_name": _NAME,
        "cluster_uuid": NODES[0].id,
        "version": {"distribution": "opensearch", "number": "2.19.1", "build_type": "sandbox"},
        "tagline": "A stand-in for a search cluster, with invented figures.",
    }


@_of_nodes.get("/hot_threads", response_class=PlainTextResponse, dependencies=[_needs("nodes/hot_threads")])
async def hot_threads(nodes: Nodes, sampling: Annotated[Sampling, Query()], sandbox: Sandbox) -> str:
    """Report the hot threads of nodes; if none is meant, the reply is empty."""
    patience = nanoseconds(sampling.timeout) / 1e9
    if not nodes:
        return ""
    began = sandbox.clock.now()
    await sandbox.clock.sleep(min(sampling.seconds, patience, _MOST_SECONDS))
    if sampling.seconds > patience:
        reason = f"[{nodes[0].name}][{nodes[0].address}] no response within [{sampling.timeout}]"
        raise cluster_refusal(503, reason, "receive_timeout_transport_exception")
    # Nodes answer in no promised order, and each begins a little later than the one before.
    first = int(began) % len(nodes)
    return "".join(
        section(node, cpu=sandbox.cluster.load(node), at=iso_milliseconds(began + 0.001 * place), sampling=sampling)
        for place, node in enumerate(nodes[first:] + nodes[:first])
    )


@_of_nodes.get("/stats/{metrics}", dependencies=[_needs("nodes/stats")])
@_of_nodes.get("/stats/{metrics}/{index_metrics}", dependencies=[_needs("nodes/stats")])
async def statistics(
    request: Request, metrics: str, nodes: Nodes, parameters: Annotated[StatisticsParameters, Query()], sandbox: Sandbox
) -> dict[str, Any]:
    """Return statistics of nodes: `os`, `process`, `jvm`, `thread_pool`, `indices`, or some of them."""
    asked = metrics.split(",")
    _refuse_unknown(asked, figures.METRICS)
    _refuse_unknown(request.path_params.get("index_metrics", "search").split(","), figures.INDEX_METRICS)
    now, by_shard = sandbox.clock.now(), parameters.level == "shards"

    def described(node: Node) -> dict[str, Any]:
        shown = figures.figures_of(sandbox.cluster.load(node), now, by_shard=by_shard)
        return {**_identity_of(node), "timestamp": int(now * 1_000), **{name: shown[name] for name in asked}}

    reply = {
        "_nodes": {"total": len(nodes), "successful": len(nodes), "failed": 0},
        "cluster_name": _NAME,
        "nodes": {node.id: described(node) for node in nodes},
    }
    if not parameters.filter_path:
        return reply
    return _filtered(reply, [path.split(".") for path in parameters.filter_path.split(",")])


def _filtered(body: dict[str, Any], paths: list[list[str]]) -> dict[str, Any]:
    """Keep the fields to which one of the paths leads."""
    kept: dict[str, Any] = {}
    for name, value in body.items():
        rests = [path[1:] for path in paths if matches(path[0], name)]
        if [] in rests:
            kept[name] = value
        elif rests and isinstance(value, dict) and (part := _filtered(value, rests)):
            kept[name] = part
    return kept


def _refuse_unknown(metrics: Iterable[str], known: Iterable[str]) -> None:
    if unknown := sorted({*metrics} - {*known}):
        raise cluster_refusal(400, f"request contains unrecognized metric: [{'], ['.join(unknown)}]")


def _identity_of(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "transport_address": node.address,
        "host": HOST,
        "ip": HOST,
        "roles": [*ROLES],
        "attributes": node.attributes,
    }


router.include_router(_of_nodes, prefix="/_nodes")
router.include_router(_of_nodes, prefix="/_nodes/{node_list}", dependencies=[Depends(_named)])


@router.get("/_tasks", dependencies=[_needs("tasks/lists")])
async def running_tasks(parameters: Annotated[TaskParameters, Query()], sandbox: Sandbox) -> dict[str, Any]:
    """List the tasks that nodes run."""
    listed: dict[str, Any] = {}
    for node in select(parameters.nodes):
        running = figures.tasks_of(node, sandbox.cluster, sandbox.clock.now())
        wanted = parameters.actions.split(",")
        found = [task for task in running if any(matches(action, task["action"]) for action in wanted)]
        for task in found if parameters.detailed == "false" else ():
            del task["description"]
        if found:
            by_id = {f"{node.id}:{task['id']}": task for task in found}
            listed[node.id] = {**_identity_of(node), "tasks": by_id}
    return {"nodes": listed}


@router.get("/_tasks/{task_id}", dependencies=[_needs("task/get")])
async def running_task(task_id: str, sandbox: Sandbox) -> dict[str, Any]:
    """Return one task: the one that has started the searches of the nodes."""
    task = figures.coordinating_task(task_id, sandbox.clock.now())
    if task is None:
        reason = f"task [{task_id}] isn't running and hasn't stored its results"
        raise cluster_refusal(404, reason, "resource_not_found_exception")
    return {"completed": False, "task": task}
