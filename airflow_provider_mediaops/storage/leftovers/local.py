"""What is left on the local disk: staged files beside a journal that nobody has locked."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage.files import check_own, path_of
from airflow_provider_mediaops.storage.journal import Journal, read_journal
from airflow_provider_mediaops.storage.leftovers.model import Companion, Leftover, key_of, state_by_age
from airflow_provider_mediaops.storage.local import discard_locally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_JOURNAL = "checkpoint"
# Others than these are removed with the journal, by the protocol of staging.
_ALONE = (".jsonl", ".part", ".probe")
# Without a journal beside them, files of these names may be another program's.
_NEED_JOURNAL = ("records", "converted", "parts")
# The journal of these is beside another file: the dataset with which they are published.
_OF_DATASET = ".companion"


class _File(NamedTuple):
    path: Path
    kind: str
    size: int
    written: float


@dataclass(slots=True)
class _Group:
    """The companions of one destination."""

    folder: Path
    name: str | None = None
    files: list[_File] = field(default_factory=list)

    @property
    def journal(self) -> Path | None:
        return next((file.path for file in self.files if file.kind == _JOURNAL), None)

    @property
    def target(self) -> Path | None:
        return self.folder / self.name if self.name else None

    @property
    def written(self) -> float:
        return max(file.written for file in self.files)


def leftovers_in_folder(
    folder: Path, now: float, older_than: float, on_error: Callable[[OSError], None]
) -> Iterator[Leftover]:
    """
    Find what is left in a folder and in those below it; links are not followed.

    :param folder: the folder.
    :param now: the time, in seconds since 1970.
    :param older_than: the seconds without a write after which something may be deleted.
    :param on_error: called with the error of a folder that cannot be read.
    """
    for path, _, names in os.walk(folder, onerror=on_error):
        for group in _groups(Path(path), names).values():
            if found := _look_at(group, now, older_than):
                yield found


def leftover_of(target: Path, now: float, older_than: float) -> Leftover | None:
    """
    Find what is left of one destination.

    :param target: the destination, which need not exist.
    :param now: the time, in seconds since 1970.
    :param older_than: the seconds without a write after which it may be deleted.
    :raises OSError: if its folder cannot be read.
    """
    real = Path(os.path.realpath(target))
    group = _groups(real.parent, _names(real.parent)).get(key_of(real.name))
    if group is None:
        return None
    group.name = real.name
    return _look_at(group, now, older_than)


def delete_locally(leftover: Leftover, now: float, older_than: float) -> bool:
    """
    Delete what is left of a destination, unless a task is writing it. A published file and its receipt stay.

    :param leftover: what was found.
    :param now: the time, in seconds since 1970.
    :param older_than: the seconds without a write after which it may be deleted.
    :returns: whether it was deleted; it is not if it was written since.
    :raises DestinationInUseError: if a task is writing the destination.
    :raises MediaOpsError: if another version of this package has staged it.
    :raises OSError: if a file cannot be deleted.
    """
    target = Path(leftover.destination)

    def is_abandoned() -> bool:
        # Tasks stage beside the file that a link leads to: the lock is that of other companions then.
        if target.is_symlink():
            return False
        found = _groups(target.parent, _names(target.parent)).get(key_of(target.name))
        return found is not None and now - found.written >= older_than

    files = [Path(file) for file in leftover.files]
    has_journal = any(companion.kind == _JOURNAL for file in files if (companion := Companion.of(file.name)))
    if not (discard_locally(path_of(target), is_abandoned) if has_journal else is_abandoned()):
        return False
    for file in files:
        if file.name.endswith(_ALONE):
            with suppress(FileNotFoundError):
                check_own(file)
                # A task that has begun since may have written its own.
                if now - file.lstat().st_mtime >= older_than:
                    file.unlink()
    return True


def _groups(folder: Path, names: list[str]) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for file in sorted(names):
        companion = Companion.of(file)
        # A file may be gone since its folder was read.
        status = _status_of_file(folder / file) if companion else None
        if companion and status:
            group = groups.setdefault(companion.key, _Group(folder))
            group.name = group.name or companion.name
            group.files.append(_File(folder / file, companion.kind, status.st_size, status.st_mtime))
    return groups


def _names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def _look_at(group: _Group, now: float, older_than: float) -> Leftover | None:
    content, note = _journal_of(group)
    staged = [file for file in group.files if file.kind != _JOURNAL]
    if not note and not staged and content.owner is None:
        # The receipt of a dataset that was published.
        return None
    if group.target and group.target.is_symlink() and not note:
        note = "the destination is a symbolic link by now, beside which nothing is staged"
    if group.target is None and not note:
        note = "the name of the destination was cut: name the destination itself"
    state = state_by_age(group.written, now, older_than)
    if state == "left":
        state = "running" if group.journal and _is_locked(group.journal) else "unclear" if note else "left"
    return Leftover(
        destination=str(group.target or group.files[0].path),
        state=state,
        note=note if state == "unclear" else "",
        task=content.owner.task if content.owner else None,
        rows=content.commits[-1].extent.rows if content.commits else None,
        size=sum(file.size for file in staged),
        written=group.written,
        files=tuple(str(file.path) for file in group.files),
    )


def _journal_of(group: _Group) -> tuple[Journal, str]:
    """Return the journal, and why it is not clear whose it is."""
    if group.journal is None:
        if any(file.kind.endswith(_OF_DATASET) for file in group.files):
            return Journal(), "it goes with a dataset, and is deleted with what is left of that"
        alone = not any(file.kind in _NEED_JOURNAL for file in group.files)
        return Journal(), "" if alone else "there is no journal beside it, so it may be another program's"
    try:
        content = read_journal(group.journal.read_bytes(), group.journal)
    except (PermanentError, OSError) as error:
        return Journal(), str(error)
    return content, "" if content.start else f"{group.journal} is damaged, or another program's"


def _is_locked(journal: Path) -> bool:
    """Return whether a process writes by this journal. An attempt that begins at this instant fails, and is retried."""
    try:
        descriptor = os.open(journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        # Nobody can be writing what was just removed. What cannot be read is unclear in any case.
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _status_of_file(file: Path) -> os.stat_result | None:
    with suppress(OSError):
        status = file.lstat()
        return status if stat.S_ISREG(status.st_mode) else None
    return None
