"""A proxy before a store, which refuses some requests as the store itself would, and counts those that it passes on."""

from __future__ import annotations

import http.client
import re
import threading
import time
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

#: Times in answers of the stores, and how each kind is written.
_TIMES = {
    re.compile(rb"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"): "%a, %d %b %Y %H:%M:%S GMT",
    re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z"): "%Y-%m-%dT%H:%M:%S.%fZ",
    re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"): "%Y-%m-%dT%H:%M:%SZ",
}
_HOPS = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


class Answer(NamedTuple):
    """An answer in the place of the store's."""

    status: int
    content: bytes
    headers: dict[str, str]


class Guard(ThreadingHTTPServer):
    """
    The proxy.

    :param port: the store's own port.
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
        self._aged: tuple[datetime, timedelta] | None = None
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def age(self, hours: float) -> None:
        """Let all that the store has look older to those behind this proxy, and nothing that is written from now on."""
        # Some times are whole seconds.
        time.sleep(1 - time.time() % 1)
        self._aged = datetime.now(timezone.utc).replace(microsecond=0), timedelta(hours=hours)

    def aged(self, text: bytes) -> bytes:
        """Return a text of the store with the times that those behind this proxy see."""
        for pattern, form in _TIMES.items() if self._aged else ():
            text = pattern.sub(lambda found, form=form: self._shifted(found[0], form), text)  # type: ignore[misc]
        return text

    def _shifted(self, text: bytes, form: str) -> bytes:
        assert self._aged
        written = datetime.strptime(text.decode(), form).replace(tzinfo=timezone.utc)
        return (written - self._aged[1]).strftime(form).encode() if written < self._aged[0] else text

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
            name: self.server.aged(value.replace(store, own).encode()).decode()
            for name, value in response.getheaders()
            if name.lower() not in _HOPS or name.lower() in kept
        }
        kind = response.getheader("Content-Type", "")
        if "xml" in kind or ("json" in kind and "/download/" not in self.path and "alt=media" not in self.path):
            content = self.server.aged(content)
        return Answer(response.status, content, passed)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _pass_on  # noqa: N815 http.server prescribes the names

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
