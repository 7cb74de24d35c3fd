"""The endpoints of the search cluster: hot threads, statistics and cores of nodes, and its identity, in a dialect."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.routing import APIRoute

from airflow_provider_mediaops.sandbox.clock import iso_milliseconds
from airflow_provider_mediaops.sandbox.cluster import hot_threads_text, tasks
from airflow_provider_mediaops.sandbox.cluster.dialect import CLUSTER_NAME, Dialect
from airflow_provider_mediaops.sandbox.cluster.json_reply import filtered, json_bytes
from airflow_provider_mediaops.sandbox.cluster.nodes import HOST, Node, select
from airflow_provider_mediaops.sandbox.cluster.parameters import HotThreadsParameters, StatsParameters, TasksParameters
from airflow_provider_mediaops.sandbox.cluster.query import Query, illegal_argument, unrecognized
from airflow_provider_mediaops.sandbox.cluster.statistics import INDEX_METRICS, figures_of
from airflow_provider_mediaops.sandbox.reading import described
from airflow_provider_mediaops.sandbox.refusals import RefusedError, cluster_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from airflow_provider_mediaops.sandbox.state import SandboxState

ROOT = "/cluster"
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
_TEXT = "text/plain; charset=UTF-8"
# Of each node, which runs on a machine of its own.
_CORES = 8
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


@dataclass(frozen=True, slots=True)
class Asked:
    """
    A request whose credential is good.

    :param dialect: the dialect of its reply.
    :param query: its parameters, of which those that every request may have are read.
    :param sandbox: the state of the sandbox.
    :param request: the request itself.
    :param user: the user.
    """

    dialect: Dialect
    query: Query
    sandbox: SandboxState
    request: Request
    user: str

    def authorise(self, action: str) -> None:
        """
        Make sure that the user may perform an action.

        :param action: the action, for example ``cluster:monitor/main``.
        :raises RefusedError: if the user may not.
        """
        if self.user == GUEST_LOGIN:
            raise self.dialect.forbidden(action, self.user)

    def nodes(self, node_list: str | None) -> list[Node]:
        """
        Find the nodes that the request means.

        :param node_list: the list in its path; None means all.
        """
        return select(node_list, manager_words=self.dialect.manager_words)

    def reply(self, body: dict[str, Any], *, pretty: bool = False) -> Response:
        """
        Return a reply in JSON, in the shape that the request asks for.

        :param body: what it says.
        :param pretty: whether each field gets a line of its own even if the request does not ask for it.
        """
        shown = filtered(body, self.query.text("filter_path", ""))
        media_type = self.dialect.json_type_for(self.request.headers.get("Accept", ""))
        return Response(json_bytes(shown, pretty=pretty or _is_pretty(self.request)), media_type=media_type)


def _is_pretty(request: Request) -> bool:
    return request.query_params.get("pretty") in ("", "true")


def _path_of(request: Request) -> str:
    path: str = request.scope["path"]
    return path.removeprefix(ROOT) or "/"


def _uri_of(request: Request) -> str:
    """Return the path and the query as they came."""
    path = request.scope["raw_path"].decode("latin-1").removeprefix(ROOT) or "/"
    return f"{path}?{request.url.query}" if request.url.query else path


class _Route(APIRoute):
    """A route whose refusals, and whose headers, are those of the dialect."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def answer_in_dialect(request: Request) -> Response:
            dialect: Dialect = request.app.state.sandbox.cluster_dialect
            try:
                response = await answer(request)
            except RefusedError as refusal:
                return _refusal_reply(dialect, refusal, request)
            for name, value in dialect.headers.items():
                response.headers[name] = value
            return response

        return answer_in_dialect


def _refusal_reply(dialect: Dialect, refusal: RefusedError, request: Request) -> Response:
    if isinstance(refusal.body, dict) and request.query_params.get("error_trace") in ("", "true"):
        errors = refusal.body["error"]
        for error in [errors, *errors.get("root_cause", ())] if isinstance(errors, dict) else ():
            error["stack_trace"] = f"{error['type']}: {error['reason']}\n\tat sandbox(Unknown Source)\n"
    return dialect.refusal_reply(refusal, pretty=_is_pretty(request), accept=request.headers.get("Accept", ""))


def _authenticate(request: Request, dialect: Dialect) -> str:
    """Return the user whose credential the request carries; raise RefusedError if it is missing or wrong."""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    scheme, claimed = scheme.lower(), None
    user = _HEADER_USERS.get(f"{scheme} {value}")
    if scheme == "basic" and value:
        try:
            login = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, ValueError):
            login = ""
        user, claimed = _BASIC_USERS.get(login), login.partition(":")[0] or None
    if user is None:
        raise dialect.unauthenticated(_uri_of(request), scheme if value else "", claimed)
    return user


def _asked(request: Request) -> Asked:
    sandbox: SandboxState = request.app.state.sandbox
    dialect = sandbox.cluster_dialect
    user = _authenticate(request, dialect)
    query = Query(_path_of(request), dict(request.query_params))
    dialect.read_common(query)
    return Asked(dialect, query, sandbox, request, user)


router = APIRouter(prefix=ROOT, tags=["search cluster"], route_class=_Route)

Question = Annotated[Asked, Depends(_asked)]
_HOT_THREADS = described(query=HotThreadsParameters)
_STATS = described(query=StatsParameters)


@router.get("", include_in_schema=False)
@router.head("", include_in_schema=False)
@router.head("/", include_in_schema=False)
@router.get("/", response_class=JSONResponse)
async def version(asked: Question) -> Response:
    """Return the name and the version of the cluster."""
    asked.query.refuse_unknown()
    asked.authorise("cluster:monitor/main")
    return asked.reply(asked.dialect.identity(), pretty=True)


@router.get("/_nodes/hot_threads", response_class=PlainTextResponse, openapi_extra=_HOT_THREADS)
async def hot_threads(asked: Question) -> Response:
    """Report the hot threads of all nodes."""
    return await _reply_with_report(None, asked)


@router.get("/_nodes/{node_id}/hot_threads", response_class=PlainTextResponse, openapi_extra=_HOT_THREADS)
async def hot_threads_of(node_id: str, asked: Question) -> Response:
    """Report the hot threads of some nodes; if none is meant, the reply is empty."""
    return await _reply_with_report(node_id, asked)


async def _reply_with_report(node_list: str | None, asked: Asked) -> Response:
    sampling, timeout = asked.dialect.read_sampling(asked.query)
    asked.query.refuse_unknown()
    asked.authorise("cluster:monitor/nodes/hot_threads")
    nodes = asked.nodes(node_list)
    if not asked.dialect.can_measure(sampling):
        nodes = []
    sandbox, patience = asked.sandbox, max(0.0, timeout / 1e9)
    began = sandbox.clock.now()
    if nodes:
        await sandbox.clock.sleep(min(sampling.seconds, patience, sandbox.settings.max_sampling))
    if nodes and sampling.seconds > patience:
        nodes = asked.dialect.nodes_after_timeout(nodes, asked.query.text("timeout", ""))
    return Response(_text(nodes, sampling, asked, began), media_type=_TEXT)


def _text(nodes: list[Node], sampling: hot_threads_text.Sampling, asked: Asked, began: float) -> str:
    # Nodes answer in no promised order, and each begins a little later than the one before.
    first = int(began) % len(nodes) if nodes else 0
    return "".join(
        hot_threads_text.section(
            node,
            cpu=asked.sandbox.cluster.load(node).machine,
            at=iso_milliseconds(began + 0.001 * place),
            sampling=sampling,
            form=asked.dialect.form,
        )
        for place, node in enumerate(nodes[first:] + nodes[:first])
    )


@router.get("/_nodes/stats", response_class=JSONResponse, openapi_extra=_STATS)
async def all_statistics(asked: Question) -> Response:
    """Return all statistics of all nodes: `os` and `process`."""
    return _reply_with_statistics(None, "_all", asked)


@router.get("/_nodes/stats/{metrics}", response_class=JSONResponse, openapi_extra=_STATS)
async def statistics(metrics: str, asked: Question) -> Response:
    """Return the statistics of all nodes: `os`, `process`, or both."""
    return _reply_with_statistics(None, metrics, asked)


@router.get("/_nodes/{node_id}/stats", response_class=JSONResponse, openapi_extra=_STATS)
async def all_statistics_of(node_id: str, asked: Question) -> Response:
    """Return all statistics of some nodes."""
    return _reply_with_statistics(node_id, "_all", asked)


@router.get("/_nodes/{node_id}/stats/{metrics}", response_class=JSONResponse, openapi_extra=_STATS)
async def statistics_of(node_id: str, metrics: str, asked: Question) -> Response:
    """Return the statistics of some nodes."""
    return _reply_with_statistics(node_id, metrics, asked)


def _reply_with_statistics(node_list: str | None, metrics: str, asked: Asked) -> Response:
    wanted, path = metrics.split(","), _path_of(asked.request)
    if "_all" in wanted and len(wanted) > 1:
        raise illegal_argument(f"request [{path}] contains _all and individual metrics [{metrics}]")
    unknown = sorted({*wanted} - {*asked.dialect.metrics, "_all"})
    if unknown:
        raise unrecognized(path, "metric", unknown, asked.dialect.metrics)
    asked.dialect.read_statistics(asked.query, wanted)
    asked.query.refuse_unknown()
    asked.authorise("cluster:monitor/nodes/stats")
    return _reply_of_nodes(asked, node_list, lambda node: _statistics_of(node, wanted, asked))


def _reply_of_nodes(asked: Asked, node_list: str | None, describe: Callable[[Node], dict[str, Any]]) -> Response:
    nodes = asked.nodes(node_list)
    return asked.reply(
        {
            "_nodes": {"total": len(nodes), "successful": len(nodes), "failed": 0},
            "cluster_name": CLUSTER_NAME,
            "nodes": {node.id: describe(node) for node in nodes},
        }
    )


def _statistics_of(node: Node, metrics: list[str], asked: Asked) -> dict[str, Any]:
    load, now = asked.sandbox.cluster.load(node), asked.sandbox.clock.now()
    figures = figures_of(load, now, metrics, by_shard=asked.query.text("level", "node") == "shards")
    return {"timestamp": int(now * 1_000), **_identity_of(node, asked), "ip": node.address, **figures}


def _identity_of(node: Node, asked: Asked) -> dict[str, Any]:
    return {
        "name": node.name,
        "transport_address": node.address,
        "host": HOST,
        "ip": HOST,
        "roles": asked.dialect.roles_of(node),
        "attributes": asked.dialect.form.attributes_of(node),
    }


@router.get("/_nodes/{node_id}/stats/{metrics}/{index_metrics}", response_class=JSONResponse, openapi_extra=_STATS)
async def index_statistics_of(node_id: str, metrics: str, index_metrics: str, asked: Question) -> Response:
    """Return the statistics of the indices on some nodes: `search`, `indexing` and `merge`, by shard."""
    if metrics != "indices":
        raise illegal_argument(f"request [{_path_of(asked.request)}] contains index metrics, but no metric [indices]")
    if unknown := sorted({*index_metrics.split(",")} - {*INDEX_METRICS}):
        raise unrecognized(_path_of(asked.request), "index metric", unknown, INDEX_METRICS)
    return _reply_with_statistics(node_id, metrics, asked)


@router.get("/_tasks", response_class=JSONResponse, openapi_extra=described(query=TasksParameters))
async def running_tasks(asked: Question) -> Response:
    """List what nodes run."""
    query = asked.query
    is_detailed, actions = query.flag("detailed", default=False), query.text("actions", "")
    nodes = asked.nodes(query.text("nodes", "") or None)
    query.refuse_unknown()
    asked.authorise("cluster:monitor/tasks/lists")
    listed: dict[str, Any] = {}
    for node in nodes:
        found = [task for task in _tasks_of(node, asked) if tasks.is_wanted(task, actions)]
        for task in found if not is_detailed else ():
            del task["description"]
        if found:
            by_id = {f"{node.id}:{task['id']}": task for task in found}
            listed[node.id] = {**_identity_of(node, asked), "tasks": by_id}
    return asked.reply({"nodes": listed})


def _tasks_of(node: Node, asked: Asked) -> list[dict[str, Any]]:
    counts_cpu = asked.dialect.counts_task_cpu
    return tasks.tasks_of(node, asked.sandbox.cluster, asked.sandbox.clock.now(), counts_cpu=counts_cpu)


@router.get("/_tasks/{task_id}", response_class=JSONResponse)
async def running_task(task_id: str, asked: Question) -> Response:
    """Return one task: the one that has started the searches of the nodes."""
    asked.query.refuse_unknown()
    asked.authorise("cluster:monitor/task/get")
    task = tasks.coordinating_task(task_id, asked.sandbox.clock.now())
    if task is None:
        reason = f"task [{task_id}] isn't running and hasn't stored its results"
        raise cluster_refusal(404, "resource_not_found_exception", reason)
    return asked.reply({"completed": False, "task": task})


@router.get("/_nodes/os", response_class=JSONResponse, openapi_extra=_STATS)
async def machines(asked: Question) -> Response:
    """Return the operating system of all nodes, with the number of their processors."""
    return _reply_with_machines(None, asked)


@router.get("/_nodes/{node_id}/os", response_class=JSONResponse, openapi_extra=_STATS)
async def machines_of(node_id: str, asked: Question) -> Response:
    """Return the operating system of some nodes, with the number of their processors."""
    return _reply_with_machines(node_id, asked)


def _reply_with_machines(node_list: str | None, asked: Asked) -> Response:
    asked.query.time("timeout", "30s")
    asked.query.refuse_unknown()
    asked.authorise("cluster:monitor/nodes/info")
    machine = {"name": "Linux", "available_processors": _CORES, "allocated_processors": _CORES}
    return _reply_of_nodes(asked, node_list, lambda node: {**_identity_of(node, asked), "os": machine})


@router.api_route("", methods=_METHODS, include_in_schema=False)
@router.api_route("/{path:path}", methods=_METHODS, include_in_schema=False)
async def refuse(request: Request) -> Response:
    """Refuse an unknown address or method; answer OPTIONS with the methods that an address takes."""
    dialect: Dialect = request.app.state.sandbox.cluster_dialect
    if not dialect.routes_come_first:
        _authenticate(request, dialect)
    allowed = _methods_at(request.scope["path"])
    if request.method == "OPTIONS":
        return Response(headers={"Allow": ",".join(allowed)} if allowed else None, media_type=_TEXT)
    if allowed:
        raise dialect.wrong_method(request.method, _uri_of(request), allowed)
    raise dialect.unknown_route(request.method, _path_of(request), _uri_of(request))


def _methods_at(path: str) -> list[str]:
    """Return the methods that an address takes; none if there is no such address."""
    routes = [route for route in router.routes if isinstance(route, APIRoute) and route.endpoint is not refuse]
    return sorted({method for route in routes if route.path_regex.match(path) for method in route.methods})
