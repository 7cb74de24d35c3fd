"""The hidden companions of destinations by their names, and what is left of them. Pure."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

#: Attempts write at least this often while they work on an object store, and a lease is stale after this time. A local
#: attempt holds a lock; what has none, such as a part of a file, is written within this time.
LEAST_AGE_SECONDS = 900.0

State: TypeAlias = Literal["left", "recent", "running", "unclear"]

# A part of a file, and one that is to be published with a dataset, is named by 16 digits; the probe of a folder by 8.
_COMPANION = re.compile(
    r"\.(.+)\.(checkpoint|records|converted|parts|isbns\.jsonl"
    r"|[0-9a-f]{16}\.part|(?:[0-9a-f]{16}\.companion)|[0-9a-f]{8}\.(?:part|probe))",
    re.DOTALL,
)
# The companions of a long name have its first characters and a digest in its place.
_CUT_NAME = re.compile(r".{50}\.([0-9a-f]{16})", re.DOTALL)


class Companion(NamedTuple):
    """
    A hidden companion.

    :param key: the same for all companions of one destination.
    :param name: the name of the destination; None if it was cut.
    :param kind: its purpose, for example ``records``.
    """

    key: str
    name: str | None
    kind: str

    @classmethod
    def of(cls, file: str) -> Companion | None:
        """
        Read the name of a companion.

        :param file: the name of a file.
        :returns: the companion; None for another file.
        """
        found = _COMPANION.fullmatch(file)
        if found is None:
            return None
        name, kind = found.groups()
        cut = _CUT_NAME.fullmatch(name)
        return cls(cut[1], None, kind) if cut else cls(key_of(name), name, kind)


def key_of(name: str) -> str:
    """Return the key of the companions of a destination, by its name."""
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Leftover:
    """
    What is staged for a destination.

    :param destination: its path; if its name was cut, that of one of the files.
    :param state: ``left``: nobody has written it for so long that it may be deleted; ``recent``: that is not long ago;
        ``running``: a task is writing it; ``unclear``: it is not known whose it is.
    :param note: why, if it is unclear.
    :param task: the task instance that staged it: DAG, run, task and map index; None if that is not known.
    :param rows: how many records are staged; None if that is not known.
    :param size: how long the staged files are together, in bytes.
    :param written: the time of the last write, in seconds since 1970; None if the store does not say.
    :param files: the paths of the files.
    """

    destination: str
    state: State
    note: str = ""
    task: str | None = None
    rows: int | None = None
    size: int = 0
    written: float | None = None
    files: tuple[str, ...] = field(default=(), repr=False)


def state_by_age(written: float | None, now: float, older_than: float) -> State:
    """
    Return the state of what nobody holds.

    :param written: the time of the last write, in seconds since 1970; None if it is not known.
    :param now: the time, in seconds since 1970.
    :param older_than: the seconds without a write after which it may be deleted.
    """
    if written is None:
        return "unclear"
    return "left" if now - written >= older_than else "recent"
