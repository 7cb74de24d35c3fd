"""
What a disk and an object store have in common: the names in a hidden folder, and versions.

The classes of :mod:`~.local` and :mod:`~.object_store` have the same operations, in which the two differ. Each raises
an ``OSError`` that names the file if the disk or the store refuses.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.storage.files import naming_path

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.local import LocalBackend
    from airflow_provider_mediaops.storage.object_store import StoreBackend

    Backend: TypeAlias = LocalBackend | StoreBackend

#: A folder of another owner is removed if nobody has written to it for this long.
STALE_SECONDS = 7 * 24 * 3600.0
#: What follows the claim in the name of the frame that ends a log.
LAST = "last"

_NAME = re.compile(r"([0-9]{4,18})-([0-9a-f]{8})(?:-([0-9]{6,18}|last))?", re.ASCII)


class Version(NamedTuple):
    """One version of a file."""

    tag: str  # what the disk or the store calls it
    size: int


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """One attempt: the highest one is in force."""

    number: int  # one higher than the highest that the attempt has listed
    token: str  # makes two attempts with one number differ

    def __str__(self) -> str:
        return f"{self.number:04}-{self.token}"


class NamedFolder:
    """What the folders on a disk and on a store have in common: errors that name a path."""

    def __init__(self, path: ObjectStoragePath) -> None:
        self._path = path
        #: A sentence for the reader of an error.
        self.hint = ""

    def _reading(self) -> AbstractContextManager[None]:
        return naming_path(self._path, "read", self.hint)

    def _writing(self) -> AbstractContextManager[None]:
        return naming_path(self._path, "written", self.hint)


def new_token() -> str:
    """Return eight random digits."""
    return secrets.token_hex(4)


def read_name(name: str) -> tuple[Claim, str] | None:
    """Return the claim in a name, and what follows it: nothing, the number of a segment, or ``last``."""
    found = _NAME.fullmatch(name)
    return (Claim(int(found[1]), found[2]), found[3] or "") if found else None


def claims_in(names: Iterable[str]) -> set[Claim]:
    """Return the claims that a listing shows."""
    return {found[0] for name in names if (found := read_name(name))}


def next_claim(names: Iterable[str]) -> Claim:
    """Return a claim that is higher than all that a listing shows."""
    return Claim(1 + max((claim.number for claim in claims_in(names)), default=0), new_token())
