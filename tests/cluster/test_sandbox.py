"""A real OpenSearch and the sandbox are asked the same, and answer alike.

They are asked all that the document of hot threads has, and all that the provider asks. Figures, names and words aside,
the status, the fields of JSON with their types, and the form of a report's lines are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.cluster_nodes import NODES
from airflow_provider_mediaops.sandbox.server import SandboxServer
from tests.cluster.nodes import Cluster
from tests.cluster.security import GUEST, OPERATOR

if TYPE_CHECKING:
    import requests

pytestmark = pytest.mark.kinds("is_like_sandbox")
HOT = "/_nodes/hot_threads"
QUICK = "interval=20ms&snapshots=1"
EVERY_THREAD = "threads=9999&ignore_idle_threads=false"
#: Requests that are granted; ``{node}`` stands for a node's name, ``{id}`` for its id.
JSON = [
    "/",
    *("/_nodes/stats/os,process", "/_nodes/{node}/stats/os,jvm,thread_pool", "/_nodes/{id}/stats/thread_pool"),
    "/_nodes/{id}/stats/indices/search,indexing,merge?level=shards&filter_path=nodes.*.indices.shards",
    "/_tasks?detailed=true&nodes={id}&actions=indices:data/read/*,indices:data/write/*",
]
NODE_LISTS = [
    *("{node}", "{node},nobody", "{id}", "nobody", "_all", "*", "_local", "_master", "_cluster_manager", "NODE-1"),
    *("127.0.0.1", "127.0.0.1*", "data:true", "data:false", "_all,data:false", "data:false,_all", "{node},data:false"),
    *("master:true", "_all,master:false", "cluster_manager:true", "zone:north", "zo*:nor*", "zone:west", "rack:7"),
]
REPORTS = [
    *(f"{EVERY_THREAD}&{QUICK}", f"{EVERY_THREAD}&interval=20ms&snapshots=3", f"{EVERY_THREAD}&{QUICK}&type=block"),
    f"{EVERY_THREAD}&{QUICK}&type=wait&timeout=30s",
]
#: Requests that are refused, each with a login.
REFUSED = [
    *((path, None) for path in (HOT, "/_nodes/stats/os", "/_tasks", "/")),
    *((path, (OPERATOR.name, "wrong")) for path in (HOT, "/_nodes/stats/os")),
    *((path, GUEST.login) for path in (HOT, "/_nodes/stats/os", "/_tasks", "/")),
    *((f"{HOT}?{query}", OPERATOR.login) for query in ("threads=many", "interval=5", "interval=soon", "bogus=1")),
    *((path, OPERATOR.login) for path in ("/_nodes/stats/os,bogus", "/_nodes/stats/os?timeout=5", "/no/such/route")),
    ("/_tasks/nobody:1", OPERATOR.login),
]


@dataclass(frozen=True)
class Pair:
    """A real server and the sandbox."""

    real: Cluster
    sandbox: Cluster

    def ask(self, path: str, login: tuple[str, str] | None = OPERATOR.login) -> tuple[requests.Response, ...]:
        """Ask both, the real server first."""
        return ask(self.real, path, login), ask(self.sandbox, path, login)


@pytest.fixture(scope="module")
def pair(cluster: Cluster) -> Iterator[Pair]:
    with SandboxServer() as sandbox:
        yield Pair(cluster, Cluster(f"{sandbox.url}/cluster", [node.name for node in NODES]))


def ask(server: Cluster, path: str, login: tuple[str, str] | None) -> requests.Response:
    with server.session(None) as session:
        statistics = session.get(f"{server.url}/_nodes/_local/stats/process", auth=OPERATOR.login, timeout=240).json()
        [(node_id, node)] = statistics["nodes"].items()
        return session.get(f"{server.url}{path.format(node=node['name'], id=node_id)}", auth=login, timeout=240)


def types_in(value: Any) -> Any:
    """Replace values by their types, ids, names and numbers by one of them, and counts by whether there are any."""
    if isinstance(value, list):
        return [types_in(entry) for entry in value[:1]]
    if not isinstance(value, dict):
        return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    shapes = {"number" if name.isdigit() else name: types_in(entry) for name, entry in value.items()}
    for name in {"nodes", "shards", "tasks"} & shapes.keys():
        shapes[name] = next(iter(shapes[name].values()), "none") if isinstance(value[name], dict) else shapes[name]
    if "_nodes" in value:
        shapes["_nodes"] = {name: count > 0 for name, count in value["_nodes"].items()}
    return shapes


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Name the fields of a reply that the other has not, or has with another type; an empty part says nothing."""
    if "none" in (ours, theirs):
        return []
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [each for name in ours for each in differences(ours[name], theirs.get(name), f"{path}/{name}")]
    if isinstance(ours, list) and isinstance(theirs, list) and ours and theirs:
        return differences(ours[0], theirs[0], path)
    return [] if ours == theirs else [f"{path}: {ours}, {theirs}"]


def thread_lines(text: str) -> set[str]:
    """Return the forms of the lines that name a thread."""
    lines = [line.partition(" by thread '")[0] for line in text.splitlines() if " by thread '" in line]
    # Figures are right-aligned up to 99.9 %.
    lines = [re.sub(r"^ +(?=\d)", "   ", line) for line in lines]
    return {re.sub(r"\d+(\.\d)?(%|ms|micros|nanos|s)?\b(%?)", r"#\3", line) for line in lines}


def codes(text: str) -> set[str]:
    """Return where the code of the frames lies, the versions aside: the frames up to the name of the class."""
    frames = re.findall(r"^       (\S+?/+(?:org|io|java|jdk|sun)\.\w+)", text, flags=re.MULTILINE)
    return {re.sub(r"@[^/]+", "@VERSION", frame) for frame in frames if "apache" not in frame}


def head_of(text: str) -> list[Any]:
    """Describe a section's head: how many slots it has, and the part of the request that it repeats."""
    header, sub_header = text.splitlines()[:2]
    assert text.endswith("\n\n")
    return [header.count("}{"), re.sub(r"at \S+Z", "at TIME", sub_header)]


@pytest.mark.parametrize("path", JSON)
def test_a_reply_in_json_has_fields_of_the_real_one(pair: Pair, path: str) -> None:
    real, sandbox = pair.ask(path)

    assert (real.status_code, sandbox.status_code) == (200, 200)
    assert differences(types_in(sandbox.json()), types_in(real.json())) == []


@pytest.mark.parametrize("nodes", NODE_LISTS)
def test_a_list_of_nodes_means_as_many_or_none(pair: Pair, nodes: str) -> None:
    real, sandbox = pair.ask(f"/_nodes/{nodes}/hot_threads?{QUICK}")

    assert (real.status_code, sandbox.status_code) == (200, 200)
    assert bool(sandbox.text) == bool(real.text)


@pytest.mark.parametrize("query", REPORTS)
def test_a_report_has_the_same_form(pair: Pair, query: str) -> None:
    real, sandbox = pair.ask(f"{HOT}?{query}")

    assert real.headers["Content-Type"].lower() == sandbox.headers["Content-Type"].lower()
    assert head_of(sandbox.text) == head_of(real.text)
    assert thread_lines(sandbox.text) == thread_lines(real.text)
    assert codes(sandbox.text) <= codes(real.text)


@pytest.mark.parametrize(("path", "login"), REFUSED)
def test_a_refusal_has_the_same_status(pair: Pair, path: str, login: tuple[str, str] | None) -> None:
    real, sandbox = pair.ask(path, login)

    assert sandbox.status_code == real.status_code >= 400
