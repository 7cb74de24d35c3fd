"""A real OpenSearch cluster on this machine: every node a process of its own, on free loopback ports."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from tests.cluster.artifacts import FOLDER, class_path, fitting_jdk
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEAP = "512m"
START_SECONDS = 300
STOP_SECONDS = 60


@dataclass(frozen=True)
class Node:
    """A running node and where it listens."""

    name: str
    url: str
    transport_address: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """Stop the node: in good order if it manages in time, else by force."""
        _stop(self.process)


@dataclass(frozen=True)
class Cluster:
    """A cluster that answers.

    :param url: where to send requests
    :param node_names: names of all nodes
    :param nodes: the nodes started here; none where the cluster is someone else's
    """

    url: str
    node_names: Sequence[str]
    nodes: Sequence[Node] = ()


def existing_cluster(url: str) -> Cluster:
    """Describe a cluster that was started elsewhere.

    :param url: its base address
    """
    url = url.rstrip("/")
    reply = requests.get(f"{url}/_nodes/os", timeout=30)
    reply.raise_for_status()
    return Cluster(url=url, node_names=sorted(node["name"] for node in reply.json()["nodes"].values()))


@contextmanager
def running_cluster(release: str, *, size: int = 2) -> Iterator[Cluster]:
    """Start a cluster of a release, and stop it at the end.

    :param release: one of :data:`tests.cluster.artifacts.LOWEST_JAVA`
    :param size: number of nodes; the first is the cluster manager, hence the others may be stopped
    :raises UnavailableError: this machine cannot start it
    :raises RuntimeError: a node ended while starting; the end of its log is in the message
    :raises TimeoutError: the cluster was not complete in time
    """
    jdk = fitting_jdk(release)
    java = [str(jdk.home / "bin" / "java"), f"-Xmx{HEAP}", "-cp", class_path(release, jdk)]
    with tempfile.TemporaryDirectory(prefix="opensearch-") as scratch, ExitStack() as running:
        nodes: list[Node] = []
        for number in range(1, size + 1):
            name = f"Node {number}"
            settings = (
                ["node.roles=data", f"discovery.seed_hosts={nodes[0].transport_address}"]
                if nodes
                else ["node.roles=cluster_manager,data", f"cluster.initial_cluster_manager_nodes={name}"]
            )
            nodes.append(running.enter_context(_node(java, name, Path(scratch) / str(number), settings)))
        url = nodes[0].url
        wait_for(
            f"a healthy cluster of {size} nodes",
            lambda: requests.get(f"{url}/_cluster/health", timeout=30).json(),
            lambda health: health.get("number_of_nodes") == size and health["status"] in {"green", "yellow"},
            within=START_SECONDS,
        )
        yield Cluster(url=url, node_names=[node.name for node in nodes], nodes=nodes)


@contextmanager
def _node(java: Sequence[str], name: str, folder: Path, settings: Sequence[str]) -> Iterator[Node]:
    folder.mkdir()
    command = [*java, f"-Djava.io.tmpdir={folder}", str(FOLDER / "Node.java"), str(folder / "home")]
    command += [f"node.name={name}", "network.host=127.0.0.1", "discovery.type=zen", *settings]
    # The system chooses the ports and the node writes them to files: nobody can take them in between.
    command += ["http.port=0", "transport.port=0", "node.portsfile=true"]
    # A machine's nearly full disk is no concern of these tests.
    command += ["cluster.routing.allocation.disk.threshold_enabled=false"]
    with running_process(command, folder / "output.log") as process:
        logs = folder / "home" / "node_1" / "logs"
        yield Node(
            name=name,
            url=f"http://{listening_address(logs / 'http.ports', process)}",
            transport_address=listening_address(logs / "transport.ports", process),
            process=process,
        )


@contextmanager
def running_process(command: Sequence[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a node's process, which runs until its standard input ends, and stop it at the end.

    :param command: starts it
    :param log: where its output goes
    :param options: further arguments of :class:`subprocess.Popen`
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, **options
        )
    try:
        yield process
    except EndedError as error:
        raise RuntimeError(f"A node ended with status {process.returncode}: {log.read_text()[-3000:]}") from error
    finally:
        _stop(process)


class EndedError(Exception):
    """A node's process ended while it was waited for."""


def listening_address(ports: Path, process: subprocess.Popen[bytes]) -> str:
    """Wait until a node has written where it listens.

    :param ports: the file that it writes
    :param process: its process
    :raises EndedError: the process has ended
    """

    def read() -> str:
        if process.poll() is not None:
            raise EndedError
        return ports.read_text(encoding="utf-8") if ports.exists() else ""

    return wait_for(f"address of a node in {ports.name}", read, bool, within=START_SECONDS).split()[0]


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
