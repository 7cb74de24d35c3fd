"""Files on the local disk that are renamed to their final names, and the companion of a dataset among them."""

from __future__ import annotations

import dataclasses
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.durability import replace
from airflow_provider_mediaops.storage.files import (
    beside,
    check_own,
    create,
    naming_path,
    path_of,
    published_mode,
    target_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.storage.companion import CompanionFile

_RANDOM_BYTES = 8
# The end of the name of a staged companion.
_SUFFIX = ".companion"


def identity_of(file: Path) -> str:
    """Return a text that differs once a file is replaced; empty if there is none."""
    try:
        return identity(file.lstat())
    except FileNotFoundError:
        return ""


def identity(status: os.stat_result) -> str:
    """Return the text of :func:`identity_of` for the status of a file. It stays when the file is renamed."""
    return f"{status.st_size}:{status.st_mtime_ns}"


def remove_own(file: Path) -> None:
    """
    Remove a hidden file, if it is there.

    :param file: its path.
    :raises PermissionError: if it is no regular file of this user.
    """
    with suppress(FileNotFoundError):
        check_own(file)
        file.unlink()


@dataclass(frozen=True, slots=True)
class StagedCompanion:
    """
    The companion of a dataset, staged under a hidden name beside its path.

    :param staged: the staged file, whose name is random.
    :param target: the path that it gets.
    :param identity: the identity of the staged file; empty until it is written.
    """

    staged: Path
    target: Path
    identity: str = ""

    @classmethod
    def of(cls, companion: CompanionFile) -> StagedCompanion:
        """
        Return the names for a companion, and create its folder.

        :param companion: the companion.
        :raises OSError: if its path is a folder, or its folder cannot be created; the message names the path.
        """
        with naming_path(companion.path, "written"):
            target = target_of(path_of(companion.path))
        return cls(target.with_name(beside(target.name, f"{secrets.token_hex(_RANDOM_BYTES)}{_SUFFIX}")), target)

    @classmethod
    def from_dict(cls, fields: Mapping[str, str]) -> StagedCompanion:
        """
        Return the names that :meth:`to_dict` described.

        :raises KeyError: if a name is missing.
        :raises TypeError: for values of other types.
        :raises ValueError: if the staged file is not beside its path, under the name that such a file has; or if a path
            has characters that no path can have.
        """
        # A Path accepts NUL and lone surrogates, the system does not.
        if b"\0" in os.fsencode(fields["staged"] + fields["target"]) or not isinstance(fields["identity"], str):
            raise ValueError("no staged companion")
        staged, target = Path(fields["staged"]), Path(fields["target"])
        token = staged.name[-len(f"{'0' * 2 * _RANDOM_BYTES}{_SUFFIX}") : -len(_SUFFIX)]
        if staged != target.with_name(beside(target.name, f"{token}{_SUFFIX}")) or not target.is_absolute():
            raise ValueError("no staged companion")
        return cls(staged, target, fields["identity"])

    def to_dict(self) -> dict[str, Any]:
        """Return the names as plain values."""
        return {"staged": str(self.staged), "target": str(self.target), "identity": self.identity}

    def written(self, companion: CompanionFile) -> StagedCompanion:
        """
        Write the staged file, and sync it.

        :param companion: the companion.
        :returns: these names with the identity of the file.
        :raises OSError: if it cannot be written; the message names the path of the companion.
        """
        with naming_path(companion.path, "written"):
            descriptor = create(self.staged)
            try:
                companion.write(Path(f"/dev/fd/{descriptor}"))
                os.fchmod(descriptor, published_mode(self.target))
                os.fsync(descriptor)
                return dataclasses.replace(self, identity=identity(os.fstat(descriptor)))
            finally:
                os.close(descriptor)

    @property
    def is_staged(self) -> bool:
        """Whether the staged file is there, whole and unchanged."""
        return bool(self.identity) and identity_of(self.staged) == self.identity

    def put_in_place(self) -> None:
        """Rename the staged file to its path, unless that is done."""
        if self.is_staged:
            check_own(self.staged)
            replace(self.staged, self.target)

    def remove(self) -> None:
        """Remove the staged file, if it is there."""
        remove_own(self.staged)
