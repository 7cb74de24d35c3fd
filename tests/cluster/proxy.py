"""A gateway between clients and a cluster, which repeats its answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.cluster.nodes import Cluster

Answer = tuple[int, dict[str, str], bytes]


class Proxy(ThreadingHTTPServer):
    """
    Passes requests on to a cluster, as its operator.

    A request that came before is answered with the cluster's answer of that time.
    """

    daemon_threads = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = cluster
        self._answers: dict[str, Answer] = {}
        self._one_at_a_time = Lock()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, method: str, target: str) -> Answer:
        """Ask the cluster, unless it has been asked the same before."""
        with self._one_at_a_time:
            if target not in self._answers:
                with self.upstream.session() as session:
                    reply = session.request(method, f"{self.upstream.url}{target}", timeout=240)
                kind = reply.headers.get("Content-Type", "text/plain")
                self._answers[target] = (reply.status_code, {"Content-Type": kind}, reply.content)
            return self._answers[target]


class _Handler(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._give(self.server.answer("GET", self.path))

    def do_HEAD(self) -> None:
        self._give((200, {}, b""))

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""

    def _give(self, answer: Answer) -> None:
        status, headers, body = answer
        self.send_response(status)
        # By this header Elasticsearch's client knows its servers, and refuses all others.
        for name, value in {**headers, "X-Elastic-Product": "Elasticsearch"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def running_proxy(cluster: Cluster) -> Iterator[Proxy]:
    """Put a gateway before a cluster for the time of a ``with`` block."""
    with Proxy(cluster) as proxy:
        thread = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join(10)
