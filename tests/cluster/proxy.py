"""What stands between a client and a cluster: it asks for a login, or gives every client the same answer."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Answer = tuple[int, dict[str, str], bytes]


class Proxy(ThreadingHTTPServer):
    """
    Passes requests on to a cluster.

    :param upstream: the cluster's base address.
    :param users: the passwords and rights of those who may pass; none: everybody may, to everything.
    :param same_for_all: whether a request that came before is answered with the cluster's answer of that time.
    """

    daemon_threads = True

    def __init__(self, upstream: str, users: Mapping[str, User] | None, *, same_for_all: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.users = users
        self.same_for_all = same_for_all
        self.asked: list[str] = []
        self._answers: dict[str, Answer] = {}
        self._one_at_a_time = Lock()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, method: str, target: str) -> Answer:
        """Ask the cluster, unless it has been asked the same before."""
        with self._one_at_a_time:
            self.asked.append(target)
            if target not in self._answers or not self.same_for_all:
                reply = requests.request(method, f"{self.upstream}{target}", timeout=60)
                kind = reply.headers.get("Content-Type", "text/plain")
                self._answers[target] = (reply.status_code, {"Content-Type": kind}, reply.content)
            return self._answers[target]


class User:
    """
    Somebody who may pass.

    :param password: what proves who it is.
    :param actions: the routes that are allowed, by how they end.
    """

    def __init__(self, password: str, *actions: str) -> None:
        self.password = password
        self.actions = actions


class _Handler(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._give(self._refusal() or self.server.answer("GET", self.path))

    def do_HEAD(self) -> None:
        self._give((200, {}, b""))

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: what was asked is in ``asked``."""

    def _refusal(self) -> Answer | None:
        if self.server.users is None:
            return None
        kind, _, secret = self.headers.get("Authorization", "").partition(" ")
        name, _, password = base64.b64decode(secret).decode().partition(":") if kind == "Basic" else ("", "", "")
        user = self.server.users.get(name)
        if user is None or user.password != password:
            return 401, {"Content-Type": "text/plain", "WWW-Authenticate": 'Basic realm="cluster"'}, b"Unauthorized"
        path = self.path.partition("?")[0]
        if path.endswith(user.actions):
            return None
        action = "cluster:monitor/nodes/" + ("hot_threads" if path.endswith("hot_threads") else "stats")
        cause = {
            "type": "security_exception",
            "reason": f"no permissions for [{action}] and User [name={name}, backend_roles=[], requestedTenant=null]",
        }
        body = {"error": {"root_cause": [cause], **cause}, "status": 403}
        return 403, {"Content-Type": "application/json; charset=UTF-8"}, json.dumps(body).encode()

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
def running_proxy(
    upstream: str, users: Mapping[str, User] | None = None, *, same_for_all: bool = False
) -> Iterator[Proxy]:
    """Put a proxy before a cluster for the time of a ``with`` block."""
    with Proxy(upstream, users, same_for_all=same_for_all) as proxy:
        thread = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join(10)
