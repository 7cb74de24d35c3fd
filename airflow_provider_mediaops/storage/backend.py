"""
The choice between a disk and an object store, for one file and the hidden folder beside it.

The classes of :mod:`~.local` and :mod:`~.object_store` have the same operations, in which the two differ. Each raises
an ``OSError`` that names the file if the disk or the store refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.files import is_local, lasting

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.local import LocalBackend, LocalFolder
    from airflow_provider_mediaops.storage.object_store import StoreBackend, StoreFolder

    Folder: TypeAlias = LocalFolder | StoreFolder
    Backend: TypeAlias = LocalBackend | StoreBackend

#: A folder of another owner is removed if nobody has written to it for this long.
STALE_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a file."""

    tag: str  # what the disk or the store calls it
    size: int

    @classmethod
    def of(cls, fields: Any) -> Version | None:
        """Return the version that a manifest or a frame names; None if that is not a version."""
        match fields:
            case [str(tag), int(size)]:
                return cls(tag, size)
        return None

    def fields(self) -> list[Any]:
        """Return it as plain values."""
        return [self.tag, self.size]


def backend_of(path: ObjectStoragePath, clock: Callable[[], float]) -> Backend:
    """Return the operations for a file."""
    if is_local(path):
        from airflow_provider_mediaops.storage.local import LocalBackend

        return LocalBackend(path, clock)
    from airflow_provider_mediaops.storage.object_store import StoreBackend

    return StoreBackend(path, clock)


def folder_of(path: ObjectStoragePath) -> Folder:
    """Return the operations for a folder."""
    if is_local(path):
        from airflow_provider_mediaops.storage.local import LocalFolder

        return LocalFolder(path, Path(lasting(path)))
    from airflow_provider_mediaops.storage.object_store import StoreFolder

    return StoreFolder(path, path.path)
