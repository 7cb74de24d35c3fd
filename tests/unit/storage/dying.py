"""Processes that die between two calls to the system."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

#: The calls that change an open file, and a path.
OPEN_FILES = ("pwrite", "ftruncate", "fsync")
PATHS = ("replace", "unlink")


class DeathError(BaseException):
    """Raised as the death of the process: no call after it changes anything."""


def die_at(patch: pytest.MonkeyPatch, calls: int) -> None:
    """Let the process do some calls that change local files, and end it at the next one."""
    left = iter(range(calls))

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            if next(left, None) is None:
                raise DeathError
            return call(*arguments, **options)

        return step

    for place, names in ((os, OPEN_FILES), (Path, PATHS)):
        for name in names:
            patch.setattr(place, name, counted(getattr(place, name)))
