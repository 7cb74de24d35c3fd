"""Write contents and names of local files to the disk, so that they survive a power failure."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace(file: Path, target: Path) -> None:
    """
    Rename a file, whose content is on the disk, to its final name.

    :param file: a file in the target's folder.
    :param target: the final name; a file that has it is replaced.
    """
    file.replace(target)
    sync_names(target.parent)


def sync_names(folder: Path) -> None:
    """Write the names in a folder to the disk, so that they survive a power failure, if the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync(descriptor: int) -> None:
    """Write a file's content to the disk."""
    # macOS has no fdatasync.
    getattr(os, "fdatasync", os.fsync)(descriptor)
