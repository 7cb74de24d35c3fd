"""One attempt's way to a real server, which waits for its turn before each request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class PacedClient:
    """One attempt's way to the server, which waits for its turn before each request."""

    protocol = ("s3", "s3a")

    def __init__(self, world: Any, name: str, turn: Callable[[], bool]) -> None:
        self.world, self.name, self._turn = world, name, turn

    def __getattr__(self, called: str) -> Any:
        call = getattr(self.world.files, called)
        if called not in ("info", "cat_file", "cat_ranges", "ls", "pipe_file", "rm", "rm_file"):
            return call

        def paced(path: Any, *arguments: Any, **options: Any) -> Any:
            self._turn()
            found = call(path, *arguments, **options)
            if called == "pipe_file":
                self.world.note(path, self.name)
            return found

        return paced
