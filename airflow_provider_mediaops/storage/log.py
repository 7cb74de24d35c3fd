"""
The log of a dataset: claims and frames.

A frame is a line with its header and CRC-32, then its data (the state), then its lines (the records). Within the log of
one claim, each frame goes on from the one before it; the first says from which frame of an earlier claim it goes on, or
from none. A bad frame, or a missing one, ends the log; what is before it stands.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import time
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.errors import superseded_error
from airflow_provider_mediaops.storage.formats import json_line, json_lines
from airflow_provider_mediaops.storage.scratch import ByteRange

if TYPE_CHECKING:
    from typing import TypeAlias

    from airflow_provider_mediaops.storage.local import LocalBackend
    from airflow_provider_mediaops.storage.object_store import StoreBackend

    #: What a disk and an object store have in common. Each raises an ``OSError`` that names the file if it refuses.
    Backend: TypeAlias = LocalBackend | StoreBackend

# Records and a state; the end of all records before it; all is ready to be published; it is published.
Kind = Literal["rows", "anew", "done", "last"]

_log = logging.getLogger(__name__)

_VERSION = 1  # of the log
_HEADER = re.compile(rb"([0-9a-f]{8}) (\{[^\n]*\})\n")
# A header has a few numbers.
_MAX_HEADER_BYTES = 4096
# What follows the claim in the name of the frame that ends a log.
_LAST = "last"
_NAME = re.compile(r"([0-9]{4,18})-([0-9a-f]{8})(?:-([0-9]{6,18}|last))?", re.ASCII)


class Claim(NamedTuple):
    """One attempt: the highest one is in force."""

    number: int  # one higher than the highest that the attempt has listed
    token: str  # makes two attempts with one number differ

    def __str__(self) -> str:
        return f"{self.number:04}-{self.token}"


def read_name(name: str) -> tuple[Claim, str] | None:
    """Return the claim in a name, and what follows it: nothing, the number of a segment, or ``last``."""
    found = _NAME.fullmatch(name)
    return (Claim(int(found[1]), found[2]), found[3] or "") if found else None


def claims_in(names: Iterable[str]) -> set[Claim]:
    """Return the claims that a listing shows."""
    return {found[0] for name in names if (found := read_name(name))}


def next_claim(names: Iterable[str]) -> Claim:
    """Return a claim that is higher than all that a listing shows."""
    return Claim(1 + max((claim.number for claim in claims_in(names)), default=0), secrets.token_hex(4))


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a frame, as it is written."""

    version: int
    number: int
    kind: Kind
    rows: int  # the number of records up to its end
    data: int  # the size of its data in bytes
    size: int  # that of its lines
    # The number and the token of the claim, and the number of the frame, after which the first frame of another claim
    # goes on; None for the frames that follow, and if nothing was before.
    before: tuple[int, str, int] | None


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: its header, and where its data and its lines are."""

    header: Header
    data: ByteRange
    lines: ByteRange

    def value(self) -> Any:
        """Return its data."""
        return parse_json(self.data.read())


def _encoded(header: Header, data: bytes, blocks: Iterable[bytes] = ()) -> bytes:
    """Return all of a frame that stands before its lines."""
    text = json_line(header)
    crc = zlib.crc32(data, zlib.crc32(text))
    for block in blocks:
        crc = zlib.crc32(block, crc)
    return b"%08x %b\n%b" % (crc, text, data)


def _frame_at(file: int, start: int) -> Frame | None:
    """Read a frame; None if it is not as it was written."""
    import msgspec

    found = _HEADER.match(os.pread(file, _MAX_HEADER_BYTES, start))
    if found is None:
        return None
    try:
        header = msgspec.json.decode(found[2], type=Header)
        at = start + found.end()
        data = ByteRange(file, at, at + header.data)
        lines = ByteRange(file, data.end, data.end + header.size)
        crc = zlib.crc32(found[2])
        for block in ByteRange(file, data.start, lines.end).blocks():
            crc = zlib.crc32(block, crc)
    except (ValueError, msgspec.MsgspecError):
        return None
    if crc != int(found[1], 16):
        return None
    if header.version != _VERSION:
        raise PermanentError(
            f"What is staged has version {header.version}, which this version of airflow-provider-mediaops does not "
            f"know (it knows {_VERSION}). Install the version that staged it, or a later one; or, if no task writes "
            "there, remove the hidden folder .<name>.staging beside the destination, and it is written anew."
        )
    return Frame(header, data, lines)


@dataclass(slots=True)
class ClaimLog:
    """The frames of one claim up to the first that is bad or missing."""

    claim: Claim
    parts: list[ByteRange] = field(default_factory=list)
    # There may be a million frames, so they are counted here, and read once more where they are wanted.
    count: int = 0
    before: tuple[int, str, int] | None = None
    # The frames that say what is to be published.
    done: list[Frame] = field(default_factory=list)
    # What its last frame says. With one it is over: nothing of it counts but that.
    last: dict[str, Any] | None = None

    def read(self) -> None:
        """Read the frames."""
        for frame in self.frames():
            self.before = self.before or frame.header.before
            if frame.header.kind == "done":
                self.done.append(frame)
            self.count += 1

    def frames(self) -> Iterator[Frame]:
        """Yield the frames; a bad one ends the log, as the next has another number than the one that is wanted."""
        number = 0
        for part in self.parts:
            start = part.start
            while start < part.end and (frame := _frame_at(part.file, start)) and frame.header.number == number:
                yield frame
                number += 1
                start = frame.lines.end


class History:
    """What the attempts of an owner that a listing shows have left, or those below a claim."""

    def __init__(self, backend: Backend, folder: str, names: Iterable[str], below: Claim | None = None) -> None:
        found = {name: parts for name in names if (parts := read_name(name)) and (below is None or parts[0] < below)}
        logs: dict[Claim, ClaimLog] = {}
        for name, part in backend.load(folder, sorted(found, key=lambda name: (found[name][0], len(name), name))):
            claim, rest = found[name]
            log = logs.setdefault(claim, ClaimLog(claim))
            if rest != _LAST:
                log.parts.append(part)
            elif frame := _frame_at(part.file, part.start):
                log.last = frame.value()
        for log in logs.values():
            log.read()
        newest_first = [logs[claim] for claim in sorted(logs, reverse=True) if logs[claim].count or logs[claim].last]
        #: What the newest last frame says. What is older counts only if a newer frame goes on from it.
        self.last = next((log.last for log in newest_first if log.last is not None), None)
        #: The logs that are newer, from the newest on.
        self.newer = list(takewhile(lambda log: log.last is None, newest_first))
        #: The frames of datasets that may have been published without a last frame, the newest first.
        self.done = [frame for log in self.newer for frame in reversed(log.done)]
        #: The frames that count: logs, each with how many of its frames do. They lead to the last frame of the newest
        #: log whose predecessors are all there.
        self.chain = next(filter(None, (_chain_to(logs, log) for log in self.newer)), [])

    def summary(self, turn: Sequence[Any]) -> dict[str, Any] | None:
        """Return the summary of a dataset that was published in a turn of its task; None if it was cleared since."""
        if self.last is None or self.chain or self.last["turn"] != list(turn):
            return None
        return dict(self.last["summary"])

    def is_newer(self, turn: Sequence[Any]) -> bool:
        """Return whether a dataset was published in a later turn: the attempt that asks was cleared since."""
        # A run that was deleted and is there again has fewer clears, and a later start.
        return self.last is not None and self.last["turn"][::-1] > list(turn)[::-1]


def _chain_to(logs: Mapping[Claim, ClaimLog], log: ClaimLog) -> list[tuple[ClaimLog, int]]:
    """Return all that is before the end of a log; nothing if something is missing."""
    chain = [(log, log.count)]
    while log.before is not None:
        number, token, frame = log.before
        found = logs.get(Claim(number, token))
        # A claim goes on from an earlier one; frames that somebody has planted may lead in a circle.
        if found is None or not 0 <= frame < found.count or found.claim >= log.claim:
            return []
        log = found
        chain.append((log, frame + 1))
    return chain[::-1]


class Log:
    """The log as one attempt reads and writes it; DestinationInUseError if another claims it at the same time."""

    def __init__(self, backend: Backend, folder: str, destination: object, turn: Sequence[Any]) -> None:
        self._backend, self._folder, self._destination, self._turn = backend, folder, destination, list(turn)
        self._claim = next_claim(backend.names(folder))
        backend.claim(folder, self._claim)
        history = History(backend, folder, self.check(), self._claim)
        if history.is_newer(turn):
            raise superseded_error(destination)
        #: The summary, if the dataset is published and nothing is left to do.
        self.finished = history.summary(turn)
        #: As :attr:`History.done`.
        self.done_frames = history.done
        # The claim and the number of the last frame that counts, of an earlier attempt; the number of the next frame.
        self._tip: tuple[int, str, int] | None = None
        self._number = 0
        self._is_broken = False
        self._begin()
        for log, count in history.chain:
            self._take(log, count)
        #: Whether an earlier attempt is resumed: records or a state were read.
        self.resumed = self._state != b"null" or bool(self._appended_rows)
        self._hint()

    def _begin(self) -> None:
        """Be without records."""
        self._appended_rows, self._state = 0, b"null"
        # Where the frames with records end, in bytes of all records; where each is, and in which file.
        self._ends, self._starts, self._files = array("Q"), array("Q"), array("q")
        # The lines of commits that are not yet appended; None without such commits.
        self._held: bytearray | None = None
        self._held_rows = 0
        self._since = time.monotonic()

    def _take(self, log: ClaimLog, count: int) -> None:
        """Let the first frames of an earlier claim count."""
        state = None
        for frame in islice(log.frames(), count):
            if frame.header.kind == "anew":
                self._begin()
            if frame.header.kind != "done":
                self._add(frame.lines)
                state = frame.data
            self._appended_rows = frame.header.rows
        if state:
            self._state = state.read()
        self._tip = (*log.claim, count - 1)

    def _add(self, lines: ByteRange) -> None:
        if lines.end > lines.start:
            before = self._ends[-1] if self._ends else 0
            self._starts.append(lines.start)
            self._files.append(lines.file)
            self._ends.append(before + lines.end - lines.start)

    @property
    def rows(self) -> int:
        """The number of committed records."""
        return self._appended_rows + self._held_rows

    @property
    def state(self) -> Any:
        """The state of the last commit; None before the first."""
        return parse_json(self._state)

    def check(self) -> list[str]:
        """List the folder, before each write; raise if a higher claim is there, or that of this attempt is not."""
        names = self._backend.names(self._folder)
        claims = claims_in(names)
        if max(claims, default=self._claim) > self._claim:
            raise superseded_error(self._destination)
        if self._claim not in claims:
            path = unsigned(str(self._destination))
            what = f"the hidden folder beside {path} was removed while the task wrote; the next attempt starts anew"
            raise OSError(errno.ESTALE, what)
        return names

    def commit(self, records: Sequence[Mapping[str, Any]], state: Any) -> None:
        """
        Add records, perhaps none, and a state in plain values. If the process dies, both are found, or neither.

        On an object store, commits are held back for five seconds at most, or 4 MB.
        """
        lines = json_lines(records)
        former = self._state, None if self._held is None else len(self._held), self._held_rows
        # Encoded now: the caller may change it before it is appended.
        self._state = json_line(state)
        self._held = self._held or bytearray()
        self._held += lines
        self._held_rows += len(records)
        is_due = time.monotonic() - self._since >= self._backend.hold_seconds
        if is_due or len(self._held) >= self._backend.hold_bytes:
            try:
                self.flush()
            except BaseException:
                # The caller commits these records once more, or drops them: those of earlier commits stay.
                self._state, size, self._held_rows = former
                self._held = None if size is None else self._held[:size]
                raise

    def flush(self) -> None:
        """Write the commits that are held back."""
        if self._held is not None:
            lines = bytes(self._held)
            frame = self._append("rows", self._state, lambda: [lines], len(lines), self._held_rows)
            self._add(frame.lines)
            self._held, self._held_rows = None, 0
        self._since = time.monotonic()

    def discard(self) -> None:
        """Begin anew: nothing that is committed counts any more. A published dataset stays."""
        self._begin()
        self.resumed = False
        self._append("anew", b"null", tuple, 0)

    def finish(self, fields: Mapping[str, Any], lines: ByteRange) -> Frame:
        """Append the frame that says what is to be published."""
        return self._append("done", json_line(fields), lines.blocks, lines.end - lines.start)

    def _append(
        self, kind: Kind, data: bytes, blocks: Callable[[], Iterable[bytes]], size: int, rows: int = 0
    ) -> Frame:
        if self._is_broken:
            path = unsigned(str(self._destination))
            raise OSError(f"{path} cannot be written: an earlier write of this attempt has failed")
        self.check()
        rows += self._appended_rows
        before = self._tip if self._number == 0 else None
        header = Header(_VERSION, self._number, kind, rows, len(data), size, before)
        head = _encoded(header, data, blocks())
        # A frame that may be there is not written a second time with other records.
        self._is_broken = True
        part = self._backend.append(self._number, _with_head(head, blocks()), durable=kind != "rows")
        self._is_broken = False
        self._appended_rows = rows
        self._number += 1
        self._hint()
        at = part.start + len(head)
        return Frame(header, ByteRange(part.file, at - len(data), at), ByteRange(part.file, at, part.end))

    def _hint(self) -> None:
        rows = self._appended_rows
        self._backend.hint = f"What is staged stays: the task's next attempt goes on after {rows:,} rows."

    def end(self, summary: Mapping[str, Any]) -> None:
        """
        Write the last frame, then remove everything else.

        After a DestinationInUseError, the newer attempt returns what this one has published.
        """
        self.check()
        name = f"{self._claim}-{_LAST}"
        data = json_line({"summary": summary, "turn": self._turn})
        header = Header(_VERSION, 0, "last", self.rows, len(data), 0, None)
        self._backend.put(f"{self._folder}/{name}", _encoded(header, data))
        names = self.check()
        rest = [each for each in names if each != name]
        # They no longer count.
        with suppress(OSError):
            try:
                self._backend.remove(self._folder, rest)
            except PermissionError:
                _log.warning(
                    "%s is written, but %s beside it could not be removed: give the key of the "
                    "connection the right to delete. The next task that may delete removes them after seven days.",
                    unsigned(str(self._destination)),
                    counted(len(rest), "staged object"),
                )

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the committed records in order."""
        return map(parse_json, self.lines())

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield the committed records from a place on, in bytes, as JSON without a line end."""
        for part in self._parts(start):
            rest = b""
            for block in part.blocks():
                *lines, rest = (rest + block).split(b"\n")
                yield from lines

    def line(self, start: int, size: int) -> bytes:
        """Return the committed record that begins at a place, in bytes, as JSON."""
        part = next(self._parts(start))
        return os.pread(part.file, size, part.start)

    def blocks(self) -> Iterator[bytes]:
        """Yield all committed lines with their ends, block by block."""
        for part in self._parts(0):
            yield from part.blocks()

    def _parts(self, start: int) -> Iterator[ByteRange]:
        """Yield where the committed lines are, from a place in bytes on."""
        self.flush()
        for index in range(bisect_right(self._ends, start), len(self._ends)):
            begin = self._ends[index - 1] if index else 0
            at = self._starts[index]
            yield ByteRange(self._files[index], at + max(0, start - begin), at + self._ends[index] - begin)


def _with_head(head: bytes, blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = iter(blocks)
    yield head + next(rest, b"")
    yield from rest
