"""
The parts of a dataset on an object store: what they are called, and what is in them.

A part holds one commit, or several that were merged: a line with the state of the last of them and with the extent of
all records up to there, then the records. A part that does not go on exactly where the one before it ends is not taken
for one.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.records import Extent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NAME = re.compile(r"([0-9]{8,})-([0-9]{8,})\.([0-9a-z]+)-after-([0-9]+)\.([0-9]+)")
# Parts asked for in one go: so many, or so many bytes.
_TOGETHER = 100
_BYTES_TOGETHER = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """
    The name of a part.

    :param first: the number of its first commit, from 1.
    :param last: that of its last commit.
    :param token: the attempt that wrote it.
    :param after: the number of the commit that this attempt went on after.
    :param written: when, in whole seconds since 1970.
    """

    first: int
    last: int
    token: str
    after: int
    written: int

    @property
    def name(self) -> str:
        """The object's name, below the folder of parts."""
        return f"{self.first:08d}-{self.last:08d}.{self.token}-after-{self.after}.{self.written}"

    @classmethod
    def of(cls, name: str) -> Part | None:
        """Read a name; None for that of another thing."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        first, last, after, written = map(int, found.group(1, 2, 4, 5))
        return cls(first, last, found[3], after, written) if after < first <= last else None


def content_of(extent: Extent, state: Any, data: bytes) -> bytes:
    """
    Give the content of a part.

    :param extent: all records up to its end.
    :param state: what was saved with its last commit.
    :param data: its own records.
    """
    return json_line({"extent": asdict(extent), "state": state}) + b"\n" + data


def read_content(content: bytes, before: Extent) -> tuple[Extent, Any, bytes] | None:
    """
    Read the content of a part.

    :param content: all of it.
    :param before: the records of the parts before it.
    :returns: all records up to its end, the state, and its own records; None where it is not whole, or goes on from
        other records than these.
    """
    head, _, data = content.partition(b"\n")
    try:
        fields: Mapping[str, Any] = parse_json(head)
        extent, state = Extent(**fields["extent"]), fields["state"]
        fits = before.grown(data, extent.rows - before.rows) == extent
    except (ValueError, KeyError, TypeError):
        return None
    return (extent, state, data) if fits else None


def in_turns(sizes: Mapping[Part, int], parts: Iterable[Part]) -> Iterator[list[Part]]:
    """
    Divide parts into those that are read together, so that memory stays flat.

    :param sizes: their sizes in bytes.
    :param parts: the parts to read, in order.
    :returns: the same parts in the same order.
    """
    turn: list[Part] = []
    size = 0
    for part in parts:
        if turn and (len(turn) == _TOGETHER or size + sizes[part] > _BYTES_TOGETHER):
            yield turn
            turn, size = [], 0
        turn.append(part)
        size += sizes[part]
    if turn:
        yield turn
