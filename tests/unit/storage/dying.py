"""Processes that die between two calls to the system or to a store."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

_OPEN_FILES = ("pwrite", "ftruncate", "fsync", "fdatasync")
_PATHS = ("replace", "unlink")
_STORE = ("pipe_file", "commit_upload", "rm_file")


class DeathError(BaseException):
    """Nothing that comes after this changes anything any more."""


@dataclass
class Life:
    """
    Counts what a process does to its files, and ends it at one of these steps.

    :param patch: undoes it after the test.
    :param left: how many steps are left; None for no end.
    """

    patch: pytest.MonkeyPatch
    left: int | None = None
    steps: int = 0
    torn: bool = field(default=False)

    def of_files(self) -> None:
        """Count what is done to local files."""
        for place, names in ((os, _OPEN_FILES), (Path, _PATHS)):
            for name in names:
                self.patch.setattr(place, name, self._counted(getattr(place, name)))

    def of(self, store: Any) -> None:
        """Count what is done to objects."""
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
        # The last write may get half of its way.
        if getattr(call, "__name__", "") == "pwrite" and not self.torn:
            self.torn = True
            descriptor, data, offset = arguments
            call(descriptor, bytes(data)[: len(data) // 2], offset)
