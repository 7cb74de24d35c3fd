"""A proxy before a store, which refuses some requests as the store itself would, and counts those that it passes on."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

_HOPS = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


class Answer(NamedTuple):
    """An answer in the place of the store's."""

    status: int
    content: bytes
    headers: dict[str, str]


class Guard(ThreadingHTTPServer):
    """
    The proxy.

    :param answer: returns the answer to a request (its method, path and body) that is not passed on; otherwise None.
    :param is_named: whether the store answers under its own address only. Signatures of S3 include the client's.
    """

    daemon_threads = True

    def __init__(
        self, port: int, answer: Callable[[str, str, bytes], Answer | None], *, is_named: bool = False
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store_port, self.answer, self.is_named = port, answer, is_named
        self.methods: list[str] = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def end(self) -> None:
        """Stop it."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Guard

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            # The client is dead.
            self.close_connection = True

    def _pass_on(self) -> None:
        body = self._body()
        self.server.methods.append(self.command)
        answer = self.server.answer(self.command, self.path, body) or self._of_store(body)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _of_store(self, body: bytes) -> Answer:
        own, store = (f"127.0.0.1:{port}" for port in (self.server.server_port, self.server.store_port))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.store_port, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOPS}
            if self.server.is_named:
                headers["Host"] = store
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        # The body of a HEAD has a length, and is not there.
        kept = {"content-length"} if self.command == "HEAD" else set()
        passed = {
            name: value.replace(store, own)
            for name, value in response.getheaders()
            if name.lower() not in _HOPS or name.lower() in kept
        }
        return Answer(response.status, content, passed)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _pass_on  # noqa: N815 http.server prescribes the names

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
