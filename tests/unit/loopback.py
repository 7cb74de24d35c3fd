"""Real servers on free loopback ports that do with a connection what a test says, down to the last byte."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests import certificates

if TYPE_CHECKING:
    from typing_extensions import Self

# It bounds a hang; no test waits for it.
_LONGEST = 240.0


@dataclass
class Peer:
    """The server's end of one connection."""

    socket: socket.socket
    stopping: threading.Event

    def request(self) -> bytes:
        """Read one request whole; empty where the client has closed the connection."""
        received = b""
        while b"\r\n\r\n" not in received:
            part = self.socket.recv(65536)
            if not part:
                return b""
            received += part
        head, _, body = received.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        while len(body) < int(fields.get(b"content-length", b"0")):
            body += self.socket.recv(65536)
        return head + b"\r\n\r\n" + body

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def wait_for_the_end(self) -> None:
        """Read until the client closes the connection; OSError where it does not."""
        while self.socket.recv(65536):
            pass

    def pause(self, seconds: float = _LONGEST) -> None:
        """Do nothing for a while, or until the test is over."""
        self.stopping.wait(seconds)

    def reset(self) -> None:
        """Break the connection off (RST) instead of closing it (FIN)."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Loopback:
    """
    A server that counts its connections and keeps the requests it has read.

    :param serve: what to do with a connection, in a thread of its own; it is closed afterwards.
    :param certificate: a file with key and certificate, for TLS.
    :param clients: a file with the authority of certificates that clients have to show.
    """

    def __init__(
        self, serve: Callable[[Peer], None], certificate: Path | None = None, clients: Path | None = None
    ) -> None:
        self._serve = serve
        self._context: ssl.SSLContext | None = None
        if certificate:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)
            if clients:
                self._context.load_verify_locations(clients)
                self._context.verify_mode = ssl.CERT_REQUIRED
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self._threads: list[threading.Thread] = []
        self._connections: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0

    @property
    def base(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for connection in self._connections:
            # It may be closed already, or handed over to its TLS wrapper.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(_LONGEST)
        self._listener.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            self.accepted += 1
            self._start(self._handle, connection)

    def _handle(self, connection: socket.socket) -> None:
        connection.settimeout(_LONGEST)
        # What goes wrong here is what the test is about; the client's side of it is asserted.
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            stack.callback(connection.close)
            self._connections.append(connection)
            if self._stopping.is_set():
                # It comes too late to be shut down with the others.
                return
            if isinstance(connection, ssl.SSLSocket):
                try:
                    connection.do_handshake()
                except ssl.SSLError:
                    if connection.context.verify_mode is not ssl.CERT_REQUIRED:
                        return
                    # Closed before all is read, it would be reset, and the client might not see why.
                    with socket.socket(fileno=connection.detach()) as raw:
                        raw.settimeout(_LONGEST)
                        Peer(raw, self._stopping).wait_for_the_end()
                    return
            self._serve(Peer(connection, self._stopping))


def http_reply(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """Give the bytes of a whole reply; an underscore in a header's name is a dash."""
    fields = {"content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([f"HTTP/1.1 {status} Status", *lines, "", ""]).encode("latin-1") + body


def answering(*replies: bytes, seen: list[bytes] | None = None) -> Callable[[Peer], None]:
    """Answer request after request, over however many connections; the last reply again and again."""
    turns: Iterator[bytes] = itertools.chain(replies, itertools.repeat(replies[-1]))

    def serve(peer: Peer) -> None:
        while request := peer.request():
            if seen is not None:
                seen.append(request)
            peer.send(next(turns))

    return serve


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """Give a port where connections are neither accepted nor refused, because its queue is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def closed_port() -> int:
    """Give a port where nothing listens: the system gives it to nobody, as it would a free one to the next server."""
    return 1


def make_certificate(folder: Path) -> Path:
    """Write a key and a self-signed certificate for 127.0.0.1 into one file."""
    made = certificates.make_certificate("loopback")
    file = folder / "loopback.pem"
    file.write_bytes(made.key_pem + made.pem)
    return file
