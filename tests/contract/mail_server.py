"""A mail server on the loopback that keeps what it gets."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from email.message import EmailMessage
    from types import TracebackType

    from typing_extensions import Self


class _Session(socketserver.StreamRequestHandler):
    """One connection; it takes every mail (RFC 5321, without extensions)."""

    server: MailServer

    def handle(self) -> None:
        self._reply("220 mail.test")
        for line in self.rfile:
            verb = line[:4].upper()
            if verb == b"DATA":
                self._reply("354 go on")
                self.server.keep(self._data())
            self._reply("221 bye" if verb == b"QUIT" else "250 ok")
            if verb == b"QUIT":
                return

    def _data(self) -> bytes:
        lines = []
        for line in self.rfile:
            if line == b".\r\n":
                break
            lines.append(line[1:] if line.startswith(b"..") else line)
        return b"".join(lines)

    def _reply(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class MailServer(socketserver.ThreadingTCPServer):
    """
    A server that runs for as long as its ``with`` block lasts.

    Its ``mails`` are those that came, in order.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[EmailMessage] = []
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def keep(self, content: bytes) -> None:
        self.mails.append(email.message_from_bytes(content, policy=email.policy.default))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join(60)
        self.server_close()
