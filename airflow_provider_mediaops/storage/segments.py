"""
The segments of a dataset that is staged on an object store: their names, their content, and how they are read again.

A segment holds neighbouring commits of one attempt: a line with the state of its last commit, then the records. A
segment is never overwritten. With each commit it is written again under a new name, one commit longer, until it has
256 kB; then the next begins. So of one segment the copy with the highest serial number counts, and if that copy is
damaged, because the store does not write in one step, the one before it is still there.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.records import Extent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

_NAME = re.compile(r"([0-9]{8,})-([0-9a-z]+)-([0-9]{6,})-([0-9]{8,})-after-([0-9]+)-([0-9a-f]{8})", re.ASCII)
_ALIVE = re.compile(r"([0-9]{8,})-([0-9a-z]+)-alive", re.ASCII)
_PUBLICATION = re.compile(r"([0-9]{8,})-([0-9a-z]+)-(?:publication|companion)", re.ASCII)


class Position(NamedTuple):
    """
    A place between two commits.

    :param size: the bytes of all records before it.
    :param crc: the CRC-32 of these bytes.
    """

    size: int
    crc: int

    @classmethod
    def at_end_of(cls, extent: Extent) -> Position:
        """Return the end of an extent."""
        return cls(extent.size, extent.crc)


@dataclass(frozen=True, slots=True)
class Segment:
    """
    The name of one copy of a segment.

    :param epoch: the epoch of the lease under which it was written.
    :param token: the token of that lease.
    :param number: the number of the segment in its attempt, from 1.
    :param serial: the number of the copy in its attempt, from 1.
    :param after: where its attempt resumed.
    """

    epoch: int
    token: str
    number: int
    serial: int
    after: Position

    @property
    def name(self) -> str:
        """The object's name, below the folder of segments."""
        numbers = f"{self.epoch:08d}-{self.token}-{self.number:06d}-{self.serial:08d}"
        return f"{numbers}-after-{self.after.size}-{self.after.crc:08x}"

    @classmethod
    def of(cls, name: str) -> Segment | None:
        """Parse a name; return None for that of another object."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        epoch, number, serial, size = map(int, found.group(1, 3, 4, 5))
        return cls(epoch, found[2], number, serial, Position(size, int(found[6], 16)))


def alive_name(epoch: int, token: str) -> str:
    """Return the name of the object that an attempt writes as a sign of life."""
    return f"{epoch:08d}-{token}-alive"


def publication_name(epoch: int, token: str) -> str:
    """Return the name of the object that says what an attempt is about to publish."""
    return f"{epoch:08d}-{token}-publication"


def companion_name(epoch: int, token: str) -> str:
    """Return the name of the object that holds the companion which an attempt is about to publish."""
    return f"{epoch:08d}-{token}-companion"


def is_of_publication(name: str) -> bool:
    """Return whether a name is one of :func:`publication_name` or :func:`companion_name`."""
    return bool(_PUBLICATION.fullmatch(name))


def companion_of_publication(name: str) -> str | None:
    """
    Return the name of the companion that an attempt has staged for a publication.

    :param name: a name of :func:`publication_name`.
    :returns: the name of :func:`companion_name`; None for that of another object.
    """
    found = _PUBLICATION.fullmatch(name)
    return f"{found[1]}-{found[2]}-companion" if found and name.endswith("-publication") else None


def epoch_and_token(name: str) -> tuple[int, str] | None:
    """
    Return who staged an object.

    :param name: the object's name, below the folder of segments.
    :returns: epoch and token; None for what no attempt has staged.
    """
    found = _NAME.fullmatch(name) or _ALIVE.fullmatch(name) or _PUBLICATION.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


def content_of(start: Position, extent: Extent, state: Any, data: bytes) -> bytes:
    """
    Return the content of a segment.

    :param start: where its records begin.
    :param extent: all records up to its end.
    :param state: the state of its last commit.
    :param data: its own records.
    """
    return json_line({"start": list(start), "extent": asdict(extent), "state": state}) + b"\n" + data


def read_content(content: bytes, start: Position) -> tuple[Extent, Any, bytes] | None:
    """
    Parse the content of a segment.

    :param content: all of it.
    :param start: where its records have to begin.
    :returns: all records up to its end, the state, and its own records; None if it is damaged or begins elsewhere.
    """
    head, _, data = content.partition(b"\n")
    try:
        fields: Mapping[str, Any] = parse_json(head)
        extent, state = Extent.of(**fields["extent"]), fields["state"]
        fits = fields["start"] == list(start) and _moved(start, data) == Position.at_end_of(extent)
    except (ValueError, KeyError, TypeError):
        return None
    return (extent, state, data) if fits else None


def _moved(start: Position, data: bytes) -> Position:
    return Position(start.size + len(data), zlib.crc32(data, start.crc))


class _UnusableError(Exception):
    """Segments turned out not to count."""

    def __init__(self, segments: Collection[Segment]) -> None:
        super().__init__(segments)
        self.segments = segments


@dataclass(frozen=True)
class StagedRecords:
    """
    Reads the records that the attempts before this one have committed.

    :param tokens: the attempts that count, oldest first.
    :param fetch: returns the contents of segments, in order; None for one that is gone.
    :param write: takes in records at a position in bytes.
    """

    tokens: Sequence[str]
    fetch: Callable[[Sequence[Segment]], Iterator[bytes | None]]
    write: Callable[[bytes, int], None]

    def read(self, segments: Collection[Segment]) -> tuple[Extent, Any]:
        """
        Read all commits up to the first one that is missing, each once.

        An attempt counts up to the position at which the next one resumed; what it has committed after that, because
        it did not know yet that it had lost the lease, does not.

        :param segments: the segments that are there.
        :returns: how much was read, and the state of the last commit.
        """
        usable = set(segments)
        while True:
            try:
                return self._read(usable)
            except _UnusableError as error:
                usable.difference_update(error.segments)

    def _read(self, usable: Collection[Segment]) -> tuple[Extent, Any]:
        attempts = self._attempts(usable)
        extent, state = Extent(), None
        for attempt, following in zip(attempts, [*attempts[1:], []], strict=False):
            if attempt[0].after != Position.at_end_of(extent):
                raise _UnusableError(attempt)
            extent, state = self._read_attempt(attempt, extent, following)
        return extent, state

    def _attempts(self, usable: Collection[Segment]) -> list[list[Segment]]:
        """Return the segments of each attempt that counts."""
        attempts: list[list[Segment]] = []
        for token in self.tokens:
            own = [segment for segment in usable if segment.token == token]
            if not own:
                continue
            # One that resumed before the records of another was not given them: they had been lost.
            while attempts and attempts[-1][0].after.size >= own[0].after.size:
                attempts.pop()
            attempts.append(own)
        return attempts

    def _read_attempt(
        self, attempt: Collection[Segment], start: Extent, following: Sequence[Segment]
    ) -> tuple[Extent, Any]:
        bound = following[0].after if following else None
        extent, state, last = start, None, None
        newest = _newest(attempt)
        for segment, content in zip(newest, self.fetch(newest), strict=True):
            here, last = Position.at_end_of(extent), segment
            found = None if content is None else read_content(content, here)
            if found is None:
                raise _UnusableError([segment])
            grown, state, data = found
            if bound and grown.size >= bound.size:
                data = data[: bound.size - here.size]
                grown = Extent(bound.size, extent.rows + data.count(b"\n"), zlib.crc32(data, here.crc))
            self.write(data, here.size)
            extent = grown
            if bound and extent.size == bound.size:
                break
        if bound is None or Position.at_end_of(extent) == bound:
            return extent, state
        others = [segment for segment in attempt if last and segment.number == last.number and segment != last]
        if not others:
            # Nothing here leads to where the next attempt resumed.
            raise _UnusableError(following)
        # A commit whose reply was lost may be there twice, with different records: the next attempt resumed after one.
        return self._read_attempt([segment for segment in attempt if segment != last], start, following)


def _newest(attempt: Collection[Segment]) -> list[Segment]:
    """Return the newest copy of each segment, up to the first segment that is missing."""
    copies = {segment.number: segment for segment in sorted(attempt, key=lambda segment: segment.serial)}
    found: list[Segment] = []
    while segment := copies.get(len(found) + 1):
        found.append(segment)
    return found
