"""The endpoints of the search cluster: hot threads, statistics and tasks of nodes, and its identity."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.sandbox.clock import iso_milliseconds
from airflow_provider_mediaops.sandbox.cluster import tasks
from airflow_provider_mediaops.sandbox.cluster.hot_threads_text import Sampling, Time, nanoseconds, section
from airflow_provider_mediaops.sandbox.cluster.nodes import HOST, NODES, ROLES, Node, matches, select
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
            reason = f"unable to authenticate user for REST request [{request.url.path}]"
            raise cluster_refusal(401, "security_exception", reason)
        if user == GUEST_LOGIN:
            reason = f"no permissions for [{action}] and User [name={user}]"
            raise cluster_refusal(403, "security_exception", reason)

    return Depends(check)


def _user_of(authorization: str) -> str | None:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return _HEADER_USERS.get(f"{scheme.lower()} {value}")
    try:
        return _BASIC_USERS.get(base64.b64decode(value, validate=True).decode())
    except (binascii.Error, ValueError):
        return None


class MachineParameters(BaseModel):
    """The parameter of the operating systems of nodes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    timeout: Time = Field(default="30s", description="How long to wait for the nodes, which answer at once.")


class StatisticsParameters(MachineParameters):
    """The parameters of node statistics."""

    level: Literal["node", "indices", "shards"] = Field(
        default="node", description="`shards` adds the counters of each shard to those of the indices."
    )
    filter_path: str = Field(
        default="", description="Paths of fields between commas, to show only them; `*` stands for any characters."
    )


class TaskParameters(BaseModel):
    """The parameters of a list of tasks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    detailed: Literal["true", "false"] = Field(default="false", description="Describe each task.")
    nodes: str = Field(default="_all", description="The nodes.")
    actions: str = Field(default="", description="The actions, with `*` for any characters; all if it is empty.")


def _chosen(request: Request) -> list[Node]:
    """Return the nodes that an address names, or all."""
    return select(request.path_params.get("node_list", "_all"))


Nodes: TypeAlias = Annotated[list[Node], Depends(_chosen)]

router = APIRouter(prefix="/cluster", tags=["search cluster"])
_Answer = TypeVar("_Answer", bound="Callable[..., Any]")


def _get(path: str, action: str, response_class: type[Response] = JSONResponse) -> Callable[[_Answer], _Answer]:
    """Have a function answer for all nodes at a path below ``/_nodes``, and for some at that with a list of nodes."""
    names = {"name": "node_list", "in": "path", "required": True, "schema": {"type": "string"}}

    def route(answer: _Answer) -> _Answer:
        for place, described in (("/_nodes", {}), ("/_nodes/{node_list}", {"parameters": [names]})):
            router.add_api_route(
                f"{place}{path}",
                answer,
                dependencies=[_needs(f"cluster:monitor/nodes/{action}")],
                response_class=response_class,
                openapi_extra=described,
            )
        return answer

    return route


@router.head("/", include_in_schema=False, dependencies=[_needs("cluster:monitor/main")])
@router.get("/", dependencies=[_needs("cluster:monitor/main")])
async def identity() -> dict[str, Any]:
    """Return the name and the version of the cluster."""
    return {
        "name": NODES[0].name,
        "cluster_name": _NAME,
        "cluster_uuid": NODES[0].id,
        "version": {"distribution": "opensearch", "number": "2.19.1", "build_type": "sandbox"},
        "tagline": "A stand-in for a search cluster, with invented figures.",
    }


@_get("/hot_threads", "hot_threads", PlainTextResponse)
async def hot_threads(nodes: Nodes, sampling: Annotated[Sampling, Query()], sandbox: Sandbox) -> str:
    """Report the hot threads of nodes; if none is meant, the reply is empty."""
    patience = nanoseconds(sampling.timeout) / 1e9
    if not nodes:
        return ""
    began = sandbox.clock.now()
    await sandbox.clock.sleep(min(sampling.seconds, patience, _MOST_SECONDS))
    if sampling.seconds > patience:
        reason = f"[{nodes[0].name}][{nodes[0].address}] no response within [{sampling.timeout}]"
        raise cluster_refusal(503, "receive_timeout_transport_exception", reason)
    # Nodes answer in no promised order, and each begins a little later than the one before.
    first = int(began) % len(nodes)
    return "".join(
        section(
            node,
            cpu=sandbox.cluster.load(node),
            at=iso_milliseconds(began + 0.001 * place),
            sampling=sampling,
        )
        for place, node in enumerate(nodes[first:] + nodes[:first])
    )


@_get("/stats/{metrics}", "stats")
@_get("/stats/{metrics}/{index_metrics}", "stats")
async def statistics(
    request: Request, metrics: str, nodes: Nodes, parameters: Annotated[StatisticsParameters, Query()], sandbox: Sandbox
) -> dict[str, Any]:
    """Return statistics of nodes: `os`, `process`, `jvm`, `thread_pool`, `indices`, or some of them."""
    _refuse_unknown(metrics, tasks.METRICS)
    _refuse_unknown(request.path_params.get("index_metrics", tasks.INDEX_METRICS[0]), tasks.INDEX_METRICS)
    now, by_shard = sandbox.clock.now(), parameters.level == "shards"

    def figures(node: Node) -> dict[str, Any]:
        shown = tasks.figures_of(sandbox.cluster.load(node), now, metrics.split(","), by_shard=by_shard)
        return {"timestamp": int(now * 1_000), **shown}

    reply = _of_nodes(nodes, figures)
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


def _refuse_unknown(metrics: str, known: Iterable[str]) -> None:
    if unknown := sorted({*metrics.split(",")} - {*known}):
        reason = f"request contains unrecognized metric: [{'], ['.join(unknown)}]"
        raise cluster_refusal(400, "illegal_argument_exception", reason)


def _of_nodes(nodes: list[Node], describe: Callable[[Node], dict[str, Any]]) -> dict[str, Any]:
    return {
        "_nodes": {"total": len(nodes), "successful": len(nodes), "failed": 0},
        "cluster_name": _NAME,
        "nodes": {node.id: {**_identity_of(node), **describe(node)} for node in nodes},
    }


def _identity_of(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "transport_address": node.address,
        "host": HOST,
        "ip": HOST,
        "roles": [*ROLES],
        "attributes": node.attributes,
    }


@router.get("/_tasks", dependencies=[_needs("cluster:monitor/tasks/lists")])
async def running_tasks(parameters: Annotated[TaskParameters, Query()], sandbox: Sandbox) -> dict[str, Any]:
    """List the tasks that nodes run."""
    listed: dict[str, Any] = {}
    for node in select(parameters.nodes):
        running = tasks.tasks_of(node, sandbox.cluster, sandbox.clock.now())
        found = [task for task in running if tasks.is_wanted(task, parameters.actions)]
        for task in found if parameters.detailed == "false" else ():
            del task["description"]
        if found:
            by_id = {f"{node.id}:{task['id']}": task for task in found}
            listed[node.id] = {**_identity_of(node), "tasks": by_id}
    return {"nodes": listed}


@router.get("/_tasks/{task_id}", dependencies=[_needs("cluster:monitor/task/get")])
async def running_task(task_id: str, sandbox: Sandbox) -> dict[str, Any]:
    """Return one task: the one that has started the searches of the nodes."""
    task = tasks.coordinating_task(task_id, sandbox.clock.now())
    if task is None:
        reason = f"task [{task_id}] isn't running and hasn't stored its results"
        raise cluster_refusal(404, "resource_not_found_exception", reason)
    return {"completed": False, "task": task}
