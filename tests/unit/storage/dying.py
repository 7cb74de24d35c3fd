"""Processes that die between two calls to the system or to a store."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

#: The calls that change an open file, and a path.
OPEN_FILES = ("pwrite", "ftruncate", "fsync", "fdatasync")
PATHS = ("replace", "unlink")
_STORE = ("pipe_file", "commit_upload", "rm_file")


class DeathError(BaseException):
    """Raised as the death of the process: no call after it changes anything."""


@dataclass
class Life:
    """
    Counts the calls that change files or objects, and ends the process at one of them.

    :param left: the number of calls before the process dies; None if it does not die.
    :param torn: whether a last write was cut in half.
    """

    patch: pytest.MonkeyPatch
    left: int | None = None
    steps: int = 0
    torn: bool = field(default=False)

    def of_files(self) -> None:
        """Count the calls that change local files."""
        for place, names in ((os, OPEN_FILES), (Path, PATHS)):
            for name in names:
                self.patch.setattr(place, name, self._counted(getattr(place, name)))

    def of(self, store: Any) -> None:
        """Count the calls that change objects of a store."""
        for name in _STORE:
            self.patch.setattr(store, name, self._counted(getattr(store, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            self.steps += 1
            if self.left is not None:
                if self.left == 0:
                    self._tear(call, arguments)
                    raise DeathError
                self.left -= 1
            return call(*arguments, **options)

        return step

    def _tear(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        # The last write may be cut short.
        if getattr(call, "__name__", "") == "pwrite" and not self.torn:
            self.torn = True
            descriptor, data, offset = arguments
            call(descriptor, bytes(data)[: len(data) // 2], offset)
