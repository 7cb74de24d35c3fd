"""A real server and the sandbox in its dialect are asked the same, and answer alike.

Figures, names and invented words aside: the status, the headers that clients look at, the words of a refusal, the
fields of JSON and their types, and the form of a report's lines.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.cluster.dialects import DIALECTS
from airflow_provider_mediaops.sandbox.cluster.nodes import NODES
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import Settings
from tests.cluster.nodes import NODE_NAMES, Cluster
from tests.cluster.security import GUEST, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    import requests

pytestmark = pytest.mark.kinds("dialect")
HOT = "/_nodes/hot_threads"
QUICK = "interval=20ms&snapshots=1"
EVERY_THREAD = "threads=9999&ignore_idle_threads=false"


@dataclass(frozen=True)
class Question:
    """What both are asked.

    :param path: the address and the parameters; ``{node}`` stands for a node's name, ``{address}`` for its address.
    :param method: the HTTP method.
    :param login: name and password, if any.
    :param headers: further headers.
    """

    path: str
    method: str = "GET"
    login: tuple[str, str] | None = OPERATOR.login
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        who = "" if self.login == OPERATOR.login else f" as {self.login[0]}" if self.login else " without a login"
        return " ".join([self.method, f"{self.path}{who}", *self.headers.values()])


VALUES = [
    *(
        "type=bogus",
        "type=CPU",
        f"type=mem&{QUICK}",
        f"type=wait&{QUICK}",
        "threads=-1",
        f"threads=0&{QUICK}",
        "threads=1.5",
    ),
    *("threads=many", "threads=99999999999", f"threads=%2B2&{QUICK}", "threads="),
    *(
        "interval=0&snapshots=1",
        "interval=0ms&snapshots=1",
        "interval=-1",
        "interval=-1ms",
        "interval=-5ms",
        "interval=5",
    ),
    *(
        "interval=1.5s",
        "interval=5%20ms",
        "interval=5w",
        "interval=xms",
        "interval=5M",
        "interval=5MICROS",
        "interval=",
    ),
    *("snapshots=0&interval=20ms", "snapshots=-1&interval=20ms", "snapshots=many"),
    *("timeout=1ms", "timeout=0", "timeout=-1", "timeout=soon", "timeout=5"),
    *(f"ignore_idle_threads=&{QUICK}", "ignore_idle_threads=True"),
    *(f"sort=cpu&{QUICK}", f"sort=bogus&{QUICK}"),
    *("master_timeout=30s", "cluster_manager_timeout=30s", "bogus=1", "bogus=1&rogue=2", "Interval=1s", "thread=1"),
    *("type=bogus&rogue=2", "bogus=1&pretty", "bogus=1&error_trace=true", "bogus=1&filter_path=status", "human=maybe"),
    f"pretty&human&error_trace=false&filter_path=x&format=json&{QUICK}",
]
REPORTS = [
    *(f"{EVERY_THREAD}&{QUICK}", f"{EVERY_THREAD}&interval=20ms&snapshots=3", f"{EVERY_THREAD}&{QUICK}&type=block"),
    *(
        f"{EVERY_THREAD}&{QUICK}&type=wait",
        f"{EVERY_THREAD}&{QUICK}&type=mem",
        f"{EVERY_THREAD}&interval=0&snapshots=1",
    ),
]
NODE_LISTS = [
    *("{node}", "{node},nobody", "nobody", "_all", "*", ",", "_local", "_master", "_cluster_manager", "{address}"),
    *("127.0.0.1", "127.0.0.1*", "{node}*", "NODE-1", "data:true", "data:false", "_all,data:false", "data:false,_all"),
    *("{node},data:false", "data:yes", "data:", "master:true", "_all,master:false", "cluster_manager:true"),
    *(
        "_all,cluster_manager:false",
        "zone:north",
        "zo*:nor*",
        "*:north",
        "zone:west",
        "rack:7",
        "coordinating_only:true",
    ),
]
STATISTICS = [
    *("", "/os", "/os,process", "/_all", "/os,_all", "/bogus", "/os,bogus", "/bogus,rogue", "/proces", "/indices"),
    *(
        "/os?bogus=1",
        "/os?timeout=5",
        "/os?timeout=xms",
        "/os?level=indices",
        "/os?level=bogus",
        "/os?fields=x",
        "?fields=x",
    ),
    *(
        "?groups=x",
        "?types=x",
        "?include_segment_file_sizes=x",
        "?include_unloaded_segments=true",
        "/os?pretty",
        "/os?human",
    ),
    *("/os?filter_path=_nodes", "/os?filter_path=nodes.*.os.cpu.percent", "/os?filter_path=**.percent,-**.cpu"),
    *("/os?filter_path=-nodes", "/os?filter_path=nope", "/os?pretty=maybe", "/os?master_timeout=30s"),
]
REFUSED = [
    *(Question(path, login=None) for path in (HOT, f"{HOT}?bogus=1", "/no/such/route")),
    *(Question(HOT, method, login=None) for method in ("POST", "HEAD")),
    *(Question(path, login=GUEST.login) for path in (HOT, f"{HOT}?bogus=1", "/_nodes/stats/os")),
    *(Question(HOT, login=(name, "wrong")) for name in (OPERATOR.name, "nobody")),
    *(Question(HOT, login=None, headers={"Authorization": value}) for value in ("Bearer x", "Digest x", "nonsense")),
]
ROUTES = ["/no/such/route", "/no/such/ro%20ute?pretty&bogus", "/_nodes/a/b/c", "/_nodes/no%20body/hot_threads?bogus"]
METHODS = [(method, HOT) for method in ("HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")]
METHODS += [
    ("POST", f"{HOT}?pretty"),
    ("POST", "/_nodes/stats/os"),
    ("HEAD", "/_nodes/stats"),
    ("OPTIONS", "/no/such/route"),
]
METHODS += [("POST", "/no/such/route"), ("HEAD", "/no/such/route")]
VENDOR = "application/vnd.elasticsearch+json; compatible-with="

QUESTIONS = [
    *(Question(f"{HOT}?{query}") for query in (*VALUES, *REPORTS)),
    *(Question(f"/_nodes/{nodes}/hot_threads?{QUICK}") for nodes in NODE_LISTS),
    *(Question(f"/_nodes/stats{rest}") for rest in STATISTICS),
    *(Question(f"/_nodes/{{node}}/stats{rest}") for rest in ("", "/os")),
    *REFUSED,
    *(Question(route) for route in ROUTES),
    *(Question(path, method) for method, path in METHODS),
    *(Question(path, headers={"Accept": f"{VENDOR}9"}) for path in ("/_nodes/stats/os", f"{HOT}?bogus=1")),
    Question(f"{HOT}?{QUICK}", headers={"Accept": "application/json"}),
    Question("/", "HEAD"),
    *(Question("/", login=login) for login in (OPERATOR.login, None, GUEST.login)),
]
BASE = ("/",)
"""The addresses that Elasticsearch's distribution for tests lacks: the module that answers there is not published."""


@dataclass(frozen=True)
class Pair:
    """A real server and the sandbox in its dialect."""

    real: Cluster
    sandbox: Cluster


@pytest.fixture(scope="module")
def pair(cluster: Cluster) -> Iterator[Pair]:
    assert cluster.kind
    assert cluster.kind.dialect
    with SandboxServer(settings=Settings(cluster_dialect=cluster.kind.dialect)) as sandbox:
        yield Pair(cluster, Cluster(f"{sandbox.url}/cluster", [node.name for node in NODES]))


def ask(server: Cluster, question: Question) -> requests.Response:
    with server.session(None) as session:
        statistics = session.get(f"{server.url}/_nodes/_local/stats/process", auth=OPERATOR.login, timeout=240).json()
        [node] = statistics["nodes"].values()
        path = question.path.format(node=node["name"], address=node["transport_address"])
        url = f"{server.url}{path}"
        return session.request(question.method, url, auth=question.login, headers=question.headers, timeout=240)


def shape(reply: requests.Response) -> dict[str, Any]:
    """Describe a reply, its figures and names aside."""
    headers = {name: reply.headers.get(name) for name in ("Content-Type", "WWW-Authenticate", "X-elastic-product")}
    allowed = reply.headers.get("Allow", "")
    return {"status": reply.status_code, **headers, "Allow": allowed, "body": shape_of_body(reply)}


def shape_of_body(reply: requests.Response) -> Any:
    names = ["127.0.0.1:[0-9]+", *NODE_NAMES, *(node.name for node in NODES)]
    text = re.sub("|".join(names), "NODE", reply.text)
    if "json" not in reply.headers["Content-Type"] or not text:
        return report_head(text) if text.startswith("::: ") else text
    body = json.loads(text)
    lines = "spread over lines" if "\n" in text.rstrip("\n") else "in one line"
    return [lines, without_traces(body) if "error" in body else types_in(body)]


def without_traces(value: Any) -> Any:
    """Keep the words of a refusal, but not where in the program it arose, nor why a token is wrong."""
    if isinstance(value, list):
        return [without_traces(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    inexact = ("stack_trace", "additional_unsuccessful_credentials")
    return {name: "text" if name in inexact else without_traces(entry) for name, entry in value.items()}


def types_in(value: Any) -> Any:
    """Replace values by their types, ids by a word, and numbers of nodes by whether there are any."""
    if not isinstance(value, dict):
        return type(value).__name__
    shapes = {name: types_in(entry) for name, entry in value.items()}
    if isinstance(value.get("nodes"), dict):
        shapes["nodes"] = next(iter(shapes["nodes"].values()), "none")
    if "_nodes" in value:
        shapes["_nodes"] = {name: count > 0 for name, count in value["_nodes"].items()}
    return shapes


def report_head(text: str) -> list[Any]:
    """Describe a section's head: how many slots it has, and what it repeats of the request."""
    header, sub_header = text.splitlines()[:2]
    assert text.endswith("\n\n")
    return [header.count("}{"), re.sub(r"at \S+Z", "at TIME", sub_header)]


def thread_lines(text: str) -> set[str]:
    """Return the forms of the lines that name a thread."""
    lines = [line.partition(" by thread '")[0] for line in text.splitlines() if " by thread '" in line]
    # Of an interval of zero, there is no percentage. Figures are right-aligned up to 99.9 %.
    lines = [re.sub(r"^ +(?=\d)", "   ", re.sub("NaN|Infinity", "0.0", line)) for line in lines]
    return {re.sub(r"\d+(\.\d)?(%|ms|micros|nanos|s|[kmg]?b)?\b(%?)", r"#\3", line) for line in lines}


def codes(text: str) -> set[str]:
    """Return where the code of the frames lies, the versions aside: the frames up to the name of the class."""
    frames = re.findall(r"^       (\S+?/+(?:org|io|java|jdk|sun)\.\w+)", text, flags=re.MULTILINE)
    return {re.sub(r"@[^/]+", "@VERSION", frame) for frame in frames if "apache" not in frame}


def is_part_of(ours: Any, theirs: Any) -> bool:
    """Return whether all fields of a reply are in the other, with the same types."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all(name in theirs and is_part_of(value, theirs[name]) for name, value in ours.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(is_part_of, ours, theirs))
    return bool(ours == theirs)


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_both_answer_alike(pair: Pair, question: Question) -> None:
    real, sandbox = ask(pair.real, question), ask(pair.sandbox, question)
    if question.path in BASE and "X-elastic-product" in real.headers and real.status_code == 405:
        assert sandbox.status_code in (200, 403)
        return
    theirs, ours = shape(real), shape(sandbox)
    # A real server has figures that the sandbox has not: of what the sandbox has, nothing differs.
    if real.status_code == 200 and isinstance(theirs["body"], list) and is_part_of(ours["body"], theirs["body"]):
        ours["body"] = theirs["body"]
    assert ours == theirs


@pytest.mark.parametrize("query", REPORTS)
def test_the_threads_of_a_report_have_the_same_form(pair: Pair, query: str) -> None:
    theirs, ours = (ask(server, Question(f"{HOT}?{query}")).text for server in (pair.real, pair.sandbox))

    assert thread_lines(ours) == thread_lines(theirs)
    assert codes(ours) <= codes(theirs)


def test_every_set_of_statistics_that_the_dialect_knows_is_known(pair: Pair) -> None:
    assert pair.real.kind
    assert pair.real.kind.dialect
    metrics = ",".join(DIALECTS[pair.real.kind.dialect].metrics)

    for server in (pair.real, pair.sandbox):
        assert ask(server, Question(f"/_nodes/stats/{metrics}")).status_code == 200
