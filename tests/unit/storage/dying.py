"""Processes that die between two calls to the system."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

#: The calls that change an open file, and a path.
OPEN_FILES = ("pwrite", "ftruncate", "fsync")
PATHS = ("replace", "unlink")


class DeathError(BaseException):
    """Raised as the death of the process: no call after it changes anything."""


@dataclass
class Life:
    """
    Counts the calls that change local files, and ends the process at one of them.

    :param left: the number of calls before the process dies; None if it does not die.
    :param torn: whether a last write was cut in half.
    """

    patch: pytest.MonkeyPatch
    left: int | None = None
    torn: bool = False

    def of_files(self) -> None:
        """Count from now on."""
        for place, names in ((os, OPEN_FILES), (Path, PATHS)):
            for name in names:
                self.patch.setattr(place, name, self._counted(getattr(place, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
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
