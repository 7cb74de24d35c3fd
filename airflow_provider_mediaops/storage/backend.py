"""The operations in which a disk and an object store differ, for one file and the hidden folder beside it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_mediaops.storage.files import is_local
from airflow_provider_mediaops.storage.scratch import naming_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.claims import Claim

#: A folder of another owner is removed if nobody has written to it for this long.
STALE_SECONDS = 7 * 24 * 3600.0

_BLOCK_BYTES = 1024 * 1024


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


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an open local file."""

    file: int
    start: int
    end: int

    def blocks(self) -> Iterator[bytes]:
        """Yield the content, block by block."""
        return read_blocks(self.file, self.start, self.end)


@dataclass(frozen=True, slots=True)
class NewFile:
    """
    A local file that is to be published.

    :param path: its path; None if it has none.
    """

    descriptor: int
    path: Path | None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return os.fstat(self.descriptor).st_size

    def blocks(self) -> Iterator[bytes]:
        """Yield the content, block by block."""
        return read_blocks(self.descriptor, 0, self.size)

    def digest(self) -> str:
        """Return the SHA-256 of the content."""
        return digest_of(self.blocks())


@contextmanager
def temporary_file() -> Iterator[NewFile]:
    """Open a new file in the folder for temporary files. It has no name, so it is removed when the block ends."""
    with naming_folder():
        file = tempfile.TemporaryFile(prefix="mediaops-")  # noqa: SIM115 closed below
    with file:
        yield NewFile(file.fileno())


class Backend(Protocol):
    """
    A file, and the hidden folder in which it is staged.

    Names are relative to the hidden folder. All methods raise an ``OSError`` that names the file if the disk or the
    store refuses.
    """

    #: For how long commits may be held back before they are appended, and how many bytes of them.
    hold_seconds: float
    hold_bytes: int
    #: A sentence for the reader of an error.
    hint: str

    def names(self, folder: str) -> list[str]:
        """List a folder as it is now; an absent one is empty."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return a small file; None if there is none."""
        ...

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, whole or not at all, whatever was there."""
        ...

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

    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove files of a folder; those that are gone are nobody's business."""
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


def read_blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """Read a part of a file block by block, without moving its position."""
    while start < end and (block := os.pread(descriptor, min(_BLOCK_BYTES, end - start), start)):
        yield block
        start += len(block)


def digest_of(blocks: Iterable[bytes]) -> str:
    """Return the SHA-256 of a content."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()
