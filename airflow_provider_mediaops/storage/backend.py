"""The operations in which a disk and an object store differ, for one file and the hidden folder beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_mediaops.storage.files import is_local, lasting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.claims import Claim
    from airflow_provider_mediaops.storage.scratch import NewFile, Part

#: A folder of another owner is removed if nobody has written to it for this long.
STALE_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Version:
    """
    One version of a file.

    :param tag: what the disk or the store calls it.
    """

    tag: str
    size: int

    @classmethod
    def of(cls, fields: Any) -> Version | None:
        """Return the version that a manifest or a frame names; None if that is no version."""
        match fields:
            case [str(tag), int(size)]:
                return cls(tag, size)
        return None

    def fields(self) -> list[Any]:
        """Return it as plain values."""
        return [self.tag, self.size]


class Folder(Protocol):
    """
    A folder of small files on a disk or an object store, which nobody but this user writes to.

    Names are relative to it. All methods raise an ``OSError`` that names its owner if the disk or the store refuses.
    """

    #: A sentence for the reader of an error.
    hint: str

    def prepare(self) -> None:
        """
        Make sure that files can be created; of a disk, create the folder.

        :raises PermanentError: if the client of the store cannot refuse to create an object that is there.
        """
        ...

    def names(self, folder: str = "") -> list[str]:
        """List a folder within this one, or this one, as it is now; an absent one is empty."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return a small file; None if there is none."""
        ...

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, whole or not at all, whatever was there."""
        ...

    def create(self, name: str, content: bytes, *, is_first: bool) -> None:
        """
        Create a small file, whole or not at all.

        :param is_first: whether nothing depends on it yet, so that the store can be tried.
        :raises ConflictError: if there is one.
        :raises PermanentError: if the disk or the store cannot refuse to replace one.
        """
        ...

    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove files of a folder within this one; those that are gone are nobody's business."""
        ...


class Backend(Folder, Protocol):
    """A file, and the hidden folder beside it in which it is staged."""

    #: For how long commits may be held back before they are appended, and how many bytes of them.
    hold_seconds: float
    hold_bytes: int

    def claim(self, folder: str, claim: Claim) -> None:
        """Create the file of a claim."""
        ...

    def append(self, folder: str, claim: Claim, number: int, content: Iterable[bytes], *, durable: bool) -> Part:
        """Add a frame to the log of the claim that was created here; return where it can be read."""
        ...

    def load(self, folder: str, names: Sequence[str]) -> Mapping[Claim, Sequence[Part]]:
        """Return the contents of the logs of claims, in the order of their frames; one may be missing."""
        ...

    def version(self) -> Version | None:
        """Return the version of the file that is there now; None if there is none."""
        ...

    def digest(self) -> str:
        """Return the SHA-256 of the file; empty if there is none."""
        ...

    def new_file(self) -> AbstractContextManager[NewFile]:
        """Open a local file that can be published; it is removed when the block ends."""
        ...

    def publish(self, new: NewFile, replaces: Version | None) -> Version:
        """
        Replace the file in one step, if it has the given version; return the new one.

        :param replaces: None to create it.
        :raises ConflictError: if another version is there. If a reply was lost, that may be the new one.
        """
        ...

    def sweep(self) -> None:
        """Remove all folders that nobody has written to for :data:`STALE_SECONDS`."""
        ...

    def close(self) -> None:
        """Close all files."""
        ...


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
