"""A server in a process of its own, so that it is the client that is measured; it can be asked what it has seen."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# A time that no use of it takes.
_SECONDS = 900


class Server(Protocol):
    """What runs in the process."""

    def listen(self, tell: Callable[[int], None]) -> None:
        """Answer requests on a loopback port until the process ends."""
        ...

    def seen(self) -> Any:
        """Give what happened, in plain values."""
        ...


@dataclass(frozen=True)
class ServerProcess:
    """A server that runs."""

    base: str
    control: Connection

    def ask(self) -> Any:
        """Give what the server has seen."""
        self.control.send("seen")
        return self.control.recv()


P = TypeVar("P", bound=ServerProcess)


@contextmanager
def running(kind: type[P], make: Callable[[], Server]) -> Iterator[P]:
    """Run a server."""
    # A process of its own from the start: a fork would keep what this one has open.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(make, theirs), daemon=True)
    process.start()
    # If the process dies, nobody holds this end any more, and whoever waits for its answer gets an EOFError.
    theirs.close()
    try:
        yield kind(f"http://127.0.0.1:{ours.recv()}", ours)
    finally:
        process.kill()
        process.join()


def _serve(make: Callable[[], Server], control: Connection) -> None:
    server = make()
    threading.Thread(target=server.listen, args=(control.send,), daemon=True).start()
    # It ends with the process that started it, or after a while.
    while control.poll(_SECONDS):
        try:
            control.recv()
        except EOFError:
            return
        control.send(server.seen())
