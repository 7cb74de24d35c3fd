"""A real cluster on this machine: every node a process of its own, on free loopback ports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from tests.cluster.installation import Installation, Program
from tests.cluster.security import OPERATOR, Authority, User
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster.kinds import Kind

START_SECONDS = 900
STOP_SECONDS = 60
REPLY_SECONDS = 240
_SETTINGS = {
    "network.host": "127.0.0.1",
    # The system chooses the ports and the node writes them to files: nobody can take them in between.
    "http.port": "0",
    "transport.port": "0",
    "node.portsfile": "true",
    # A machine's nearly full disk is no concern of these tests.
    "cluster.routing.allocation.disk.threshold_enabled": "false",
    # A node that a test froze stays in the cluster until the test lets it go on, or kills it.
    "cluster.fault_detection.follower_check.timeout": "60s",
    "cluster.fault_detection.leader_check.timeout": "60s",
}
_ZONES = ("north", "south")
#: A blank in a name shows whether it is escaped.
NODE_NAMES = ("node-1", "node 2")


@dataclass(frozen=True)
class Node:
    """A running node."""

    name: str
    url: str
    transport_address: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Kill the node and all that belongs to it, even if it is frozen."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def freeze(self) -> None:
        """Stop the node from doing anything; its connections stay open."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen node go on."""
        os.killpg(self.process.pid, signal.SIGCONT)


@dataclass(frozen=True)
class Cluster:
    """
    A cluster that answers.

    :param nodes: the nodes started here; none if the cluster is someone else's.
    :param kind: its kind; None if the cluster is someone else's.
    :param authority: signs its certificates; None if it speaks no TLS.
    """

    url: str
    node_names: Sequence[str]
    nodes: Sequence[Node] = ()
    kind: Kind | None = None
    authority: Authority | None = None

    def session(self, user: User | None = OPERATOR) -> requests.Session:
        """
        Return a plain client that the caller closes.

        :param user: the user; None for no login.
        """
        session = requests.Session()
        if self.authority:
            # A netrc file or the environment would replace them.
            session.trust_env = False
            session.verify = str(self.authority.file)
            session.cert = (str(self.authority.client), str(self.authority.client_key))
            session.auth = user.login if user else None
        return session

    def get(self, path: str, **parameters: str) -> requests.Response:
        """Ask the cluster as the operator."""
        with self.session() as session:
            return session.get(f"{self.url}{path}", params=parameters, timeout=REPLY_SECONDS)

    def get_from(self, node: Node, path: str, **parameters: str) -> requests.Response:
        """Ask one node as the operator."""
        with self.session() as session:
            return session.get(f"{node.url}{path}", params=parameters, timeout=REPLY_SECONDS)

    def connection(self, host: str | None = None, *, user: User = OPERATOR, **fields: Any) -> str:
        """
        Return an Airflow connection, in JSON.

        :param host: the address; None for the first node's.
        :param user: logs in, if the cluster has users.
        :param fields: fields of the extra beside ``auth`` and those of the certificates, or in their place.
        """
        extra: dict[str, Any] = {"auth": "none"}
        login = {}
        if self.authority:
            login = {"login": user.name, "password": user.password}
            extra = {"auth": "basic", **self.authority.fields()}
        connection = {"conn_type": "mediaops_cluster", "host": host or self.url, **login, "extra": {**extra, **fields}}
        return json.dumps(connection)


def existing_cluster(url: str) -> Cluster:
    """Describe a cluster that was started elsewhere."""
    url = url.rstrip("/")
    reply = requests.get(f"{url}/_nodes/os", timeout=REPLY_SECONDS)
    reply.raise_for_status()
    return Cluster(url=url, node_names=sorted(node["name"] for node in reply.json()["nodes"].values()))


@contextmanager
def running_cluster(kind: Kind, *, size: int = 2) -> Iterator[Cluster]:
    """
    Start a cluster, and stop it at the end.

    The first node is the manager, hence the others may be stopped.
    """
    with tempfile.TemporaryDirectory(prefix=f"{kind}-") as scratch, ExitStack() as running:
        installation = Installation(kind, Path(scratch))
        authority = None
        if kind.secured:
            authority = Authority(Path(scratch), wants_client_certificate=kind.wants_client_certificate)
        nodes: list[Node] = []
        for name in NODE_NAMES[:size]:
            settings = {**_SETTINGS, **_own_settings(kind, name, nodes)}
            folder = Path(scratch) / str(len(nodes))
            folder.mkdir()
            program = installation.program(folder, settings, authority)
            nodes.append(running.enter_context(_node(name, program, folder, tls=kind.secured)))
        names = [node.name for node in nodes]
        cluster = Cluster(nodes[0].url, names, nodes, kind, authority)
        wait_for(
            f"a healthy cluster of {size} nodes",
            lambda: [_health(cluster, node) for node in nodes],
            lambda seen: all(
                health.get("number_of_nodes") == size and health["status"] in {"green", "yellow"} for health in seen
            ),
            within=START_SECONDS,
        )
        yield cluster


def _health(cluster: Cluster, node: Node) -> dict[str, Any]:
    reply = cluster.get_from(node, "/_cluster/health")
    # Before a node knows the users, nobody may ask it.
    health: dict[str, Any] = reply.json() if reply.ok else {"refused": reply.text}
    return health


def _own_settings(kind: Kind, name: str, before: Sequence[Node]) -> dict[str, str]:
    manager = "master" if kind.is_elasticsearch else "cluster_manager"
    own = {"node.name": name, "node.attr.zone": _ZONES[bool(before)]}
    if not kind.is_elasticsearch:
        # The runner would set it to single-node.
        own["discovery.type"] = "zen"
    if before:
        return {**own, "node.roles": f"{manager},data", "discovery.seed_hosts": before[0].transport_address}
    return {**own, "node.roles": f"{manager},data,ingest", f"cluster.initial_{manager}_nodes": name}


@contextmanager
def _node(name: str, program: Program, folder: Path, *, tls: bool) -> Iterator[Node]:
    with _running_process(program, folder / "output.log") as process:
        yield Node(
            name=name,
            url=f"{'https' if tls else 'http'}://{_listening_address(program.logs / 'http.ports', process)}",
            transport_address=_listening_address(program.logs / "transport.ports", process),
            process=process,
        )


@contextmanager
def _running_process(program: Program, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            program.command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **program.options,
        )
    try:
        yield process
    except _EndedError as error:
        raise RuntimeError(f"A node ended with status {process.returncode}: {log.read_text()[-6000:]}") from error
    finally:
        _stop(process)


class _EndedError(Exception):
    """A node's process ended while it was waited for."""


def _listening_address(ports: Path, process: subprocess.Popen[bytes]) -> str:
    """Wait until a node has written the addresses on which it listens, and return the first."""

    def read() -> str:
        if process.poll() is not None:
            raise _EndedError
        return ports.read_text(encoding="utf-8") if ports.exists() else ""

    return wait_for(f"address of a node in {ports.name}", read, bool, within=START_SECONDS).split()[0]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a node: in good order if it manages in time, else by force."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
