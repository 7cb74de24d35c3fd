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
import time
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.backend import LAST, Claim, claims_in, last_name, next_claim, read_name
from airflow_provider_mediaops.storage.errors import removed_error, superseded_error, unknown_version_error
from airflow_provider_mediaops.storage.formats import check_lines, json_line, json_lines
from airflow_provider_mediaops.storage.scratch import ByteRange, read_blocks

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.backend import Backend

# Records and a state; the end of all records before it; all is ready to be published.
Kind = Literal["rows", "anew", "done"]

_log = logging.getLogger(__name__)

_VERSION = 1
_HEADER = re.compile(rb"([0-9a-f]{8}) (\{[^\n]*\})\n")
# A header has a few numbers.
_MAX_HEADER_BYTES = 4096


class Place(NamedTuple):
    """The place of a frame. What stands there is written once."""

    claim: Claim
    number: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: its header, and where its data and its lines are."""

    number: int
    kind: Kind
    # The number of records up to its end.
    rows: int
    data: ByteRange
    lines: ByteRange
    # The checksum of the header's text and all that follows.
    crc: int = 0
    text: bytes = b""
    # Where the first frame of a claim goes on; None for the others, and if nothing was before.
    before: Place | None = None

    def value(self) -> Any:
        """Return its data."""
        return parse_json(b"".join(self.data.blocks()))

    def is_sound(self) -> bool:
        """Return whether all of it is as it was written."""
        crc = zlib.crc32(self.text)
        for block in read_blocks(self.data.file, self.data.start, self.lines.end):
            crc = zlib.crc32(block, crc)
        return crc == self.crc


class DoneFrame(NamedTuple):
    """What a frame says is to be published: the fields of its data, and the lines of the changes."""

    fields: dict[str, Any]
    lines: ByteRange


@dataclass(slots=True)
class ClaimLog:
    """The frames of one claim up to the first that is bad or missing: a number each, because there may be many."""

    claim: Claim
    before: Place | None = None
    file: int = -1
    # Where each frame begins.
    starts: array[int] = field(default_factory=lambda: array("Q"))
    # The numbers of the frames that say what is to be published.
    done: list[int] = field(default_factory=list)
    # What its last frame says. With one it is over: nothing of it counts but that.
    last: dict[str, Any] | None = None

    def read(self, parts: Iterable[ByteRange], name: str) -> None:
        """Read the frames; a bad one ends the log, as the next has another number than the one that is wanted."""
        for part in parts:
            start = part.start
            while start < part.end and (frame := _frame_at(part.file, start, name)) and self._follows(frame):
                if frame.number == 0:
                    self.before = frame.before
                if frame.kind == "done":
                    self.done.append(frame.number)
                self.file = part.file
                self.starts.append(start)
                start = frame.lines.end

    def _follows(self, frame: Frame) -> bool:
        return frame.number == len(self.starts) and frame.is_sound()

    def frame(self, number: int) -> Frame:
        """Return a frame that was read."""
        frame = _frame_at(self.file, self.starts[number], "")
        if frame is None:
            raise OSError(errno.EIO, f"frame {number} of {self.claim} has changed since it was read")
        return frame


def _frame_at(file: int, start: int, name: str) -> Frame | None:
    """Read a header; None if there is none that can be understood."""
    found = _HEADER.match(os.pread(file, _MAX_HEADER_BYTES, start))
    if found is None:
        return None
    try:
        fields = parse_json(found[2])
        if (version := fields["version"]) != _VERSION:
            raise unknown_version_error(name, version)
        number, rows, data_size, size = sizes = [fields[key] for key in ("number", "rows", "data", "size")]
        if not all(type(each) is int and each >= 0 for each in sizes) or fields["kind"] not in get_args(Kind):
            return None
        before = _place_of(fields["before"]) if fields.get("before") else None
    except (KeyError, TypeError, ValueError):
        return None
    at = start + found.end()
    data, lines = ByteRange(file, at, at + data_size), ByteRange(file, at + data_size, at + data_size + size)
    return Frame(number, fields["kind"], rows, data, lines, int(found[1], 16), found[2], before)


def _place_of(fields: Sequence[Any]) -> Place:
    number, token, frame = fields
    if not isinstance(token, str) or not all(type(each) is int and each >= 0 for each in (number, frame)):
        raise TypeError("no place of a frame")
    return Place(Claim(number, token), frame)


def read_logs(backend: Backend, folder: str, names: Sequence[str], below: Claim | None = None) -> dict[Claim, ClaimLog]:
    """Read the logs of all claims that are listed."""
    logs: dict[Claim, ClaimLog] = {}
    for claim, parts in backend.load(folder, names).items():
        logs[claim] = ClaimLog(claim)
        logs[claim].read(parts, f"{folder}/{claim}")
    for name in names:
        if (found := read_name(name)) and found[1] == LAST:
            fields = _last_in(backend.read(f"{folder}/{name}") or b"")
            if fields is not None:
                logs.setdefault(found[0], ClaimLog(found[0])).last = fields
    return {claim: log for claim, log in logs.items() if (log.starts or log.last) and (below is None or claim < below)}


def _last_in(content: bytes) -> dict[str, Any] | None:
    """Return what the last frame of a log says; None if it is damaged."""
    found = _HEADER.match(content)
    if found is None or zlib.crc32(found[2]) != int(found[1], 16):
        return None
    try:
        fields = parse_json(found[2])
        clears, run_start = fields["turn"]
        is_whole = isinstance(fields["summary"], dict) and type(clears) is int and isinstance(run_start, str)
        return fields if is_whole else None
    except (KeyError, TypeError, ValueError):
        return None


def find_chain(logs: Mapping[Claim, ClaimLog]) -> list[tuple[ClaimLog, int]]:
    """
    Return the frames that count: logs, each with the number of its last frame that does.

    They lead to the last frame of the highest claim that has one whose predecessors are all there. Below the highest
    log that is over, nothing counts unless a frame above names it.
    """
    for claim in sorted(logs, reverse=True):
        log = logs[claim]
        if log.last is not None:
            return []
        if chain := _chain_to(logs, log):
            return chain
    return []


def _chain_to(logs: Mapping[Claim, ClaimLog], log: ClaimLog) -> list[tuple[ClaimLog, int]]:
    """Return all that is before the end of a log; nothing if something is missing."""
    chain = [(log, len(log.starts) - 1)]
    while (before := log.before) is not None:
        found = logs.get(before.claim)
        if found is None or before.number >= len(found.starts) or found.claim >= log.claim:
            return []
        log = found
        chain.append((log, before.number))
    return chain[::-1]


def over_below(logs: Mapping[Claim, ClaimLog]) -> ClaimLog | None:
    """Return the highest log that is over."""
    return max((log for log in logs.values() if log.last is not None), key=lambda log: log.claim, default=None)


def summary_of(logs: Mapping[Claim, ClaimLog], turn: Sequence[Any]) -> dict[str, Any] | None:
    """Return the summary of a dataset that was published in a turn of its task: None if the task was cleared since."""
    over = over_below(logs)
    if over is None or over.last is None or find_chain(logs):
        return None
    return dict(over.last["summary"]) if over.last["turn"] == list(turn) else None


def is_outdated(logs: Mapping[Claim, ClaimLog], turn: Sequence[Any]) -> bool:
    """Return whether a dataset was published in a later turn of its task: the attempt that asks was cleared since."""
    over = over_below(logs)
    # A run that was deleted and is there again has fewer clears, and a later start.
    return over is not None and over.last is not None and over.last["turn"][::-1] > list(turn)[::-1]


class Log:
    """The log as one attempt reads and writes it; DestinationInUseError if another claims it at the same time."""

    def __init__(self, backend: Backend, folder: str, destination: object, turn: Sequence[Any]) -> None:
        self._backend, self._folder, self._destination, self._turn = backend, folder, destination, list(turn)
        self._claim = next_claim(backend.names(folder))
        backend.claim(folder, self._claim)
        logs = read_logs(backend, folder, self.check(), self._claim)
        if is_outdated(logs, turn):
            raise superseded_error(destination)
        #: The summary, if the dataset is published and nothing is left to do.
        self.finished = summary_of(logs, turn)
        #: The frames of datasets that may have been published without a last frame, the newest first.
        self.done_frames = _done_frames(logs)
        self._tip: Place | None = None
        self._number = 0
        self._is_broken = False
        self._begin()
        for log, latest in find_chain(logs):
            self._take(log, latest)
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

    def _take(self, log: ClaimLog, latest: int) -> None:
        """Let the frames of an earlier claim count, up to one of them."""
        state = None
        for number in range(latest + 1):
            frame = log.frame(number)
            if frame.kind == "anew":
                self._begin()
            if frame.kind != "done":
                self._add(frame.lines)
                state = frame.data
            self._appended_rows = frame.rows
        if state:
            self._state = b"".join(state.blocks())
        self._tip = Place(log.claim, latest)

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
        """
        List the folder, before each write.

        Raise DestinationInUseError if there is a higher claim than that of this attempt, OSError if its own was
        removed.
        """
        names = self._backend.names(self._folder)
        claims = claims_in(names)
        if max(claims, default=self._claim) > self._claim:
            raise superseded_error(self._destination)
        if self._claim not in claims:
            raise removed_error(self._destination)
        return names

    def commit(self, records: Sequence[Mapping[str, Any]], state: Any) -> None:
        """
        Add records and a state. If the process dies, the next attempt finds both, or neither.

        On an object store, commits are held back for five seconds at most, or 4 MB. The records may be none; the state
        are plain values from which the next attempt can resume. Raise OSError if they cannot be written, PermanentError
        if a record is too long to be read again, DestinationInUseError if a newer attempt has begun.
        """
        lines = json_lines(records)
        check_lines(lines)
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
            self._append("rows", self._state, lambda: [lines], len(lines), self._held_rows)
            self._held, self._held_rows = None, 0
        self._since = time.monotonic()

    def discard(self) -> None:
        """Begin anew: nothing that is committed counts any more. A published dataset stays."""
        self._begin()
        self.resumed = False
        self._append("anew", b"null", tuple, 0)

    def finish(self, fields: Mapping[str, Any], lines: ByteRange) -> DoneFrame:
        """Append the frame that says what is to be published."""
        frame = self._append("done", json_line(fields), lines.blocks, lines.end - lines.start)
        return DoneFrame(dict(fields), frame.lines)

    def _append(
        self, kind: Kind, data: bytes, blocks: Callable[[], Iterable[bytes]], size: int, rows: int = 0
    ) -> Frame:
        if self._is_broken:
            path = unsigned(str(self._destination))
            raise OSError(f"{path} cannot be written: an earlier write of this attempt has failed")
        self.check()
        rows += self._appended_rows
        header: dict[str, Any] = {
            "version": _VERSION,
            "number": self._number,
            "kind": kind,
            "rows": rows,
            "data": len(data),
            "size": size,
        }
        if self._number == 0:
            header["before"] = [self._tip.claim.number, self._tip.claim.token, self._tip.number] if self._tip else None
        text = json_line(header)
        crc = zlib.crc32(data, zlib.crc32(text))
        for block in blocks():
            crc = zlib.crc32(block, crc)
        head = b"%08x %b\n%b" % (crc, text, data)
        # A frame that may be there is not written a second time with other records.
        self._is_broken = True
        part = self._backend.append(self._number, _with_head(head, blocks()), durable=kind != "rows")
        self._is_broken = False
        at = part.start + len(head)
        lines = ByteRange(part.file, at, part.end)
        if kind == "rows":
            self._add(lines)
        self._appended_rows = rows
        self._number += 1
        self._hint()
        return Frame(self._number - 1, kind, rows, ByteRange(part.file, at - len(data), at), lines)

    def _hint(self) -> None:
        rows = self._appended_rows
        self._backend.hint = f"What is staged stays: the task's next attempt goes on after {rows:,} rows."

    def end(self, summary: Mapping[str, Any]) -> None:
        """
        Write the last frame, then remove everything else.

        After a DestinationInUseError, the newer attempt returns what this one has published.
        """
        self.check()
        name = last_name(self._claim)
        text = json_line({"version": _VERSION, "kind": LAST, "summary": summary, "turn": self._turn})
        self._backend.put(f"{self._folder}/{name}", b"%08x %b\n" % (zlib.crc32(text), text))
        names = self.check()
        rest = [each for each in names if each != name]
        # They no longer count.
        with suppress(OSError):
            try:
                self._backend.remove(self._folder, rest)
            except PermissionError:
                _log.warning(
                    "%s is written, but %d staged object(s) beside it could not be removed: give the key of the "
                    "connection the right to delete. The next task that may delete removes them after seven days.",
                    unsigned(str(self._destination)),
                    len(rest),
                )

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the committed records in order."""
        return map(parse_json, self.lines())

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield the committed records from a place on, in bytes, as JSON without a line end."""
        for part in self._parts(start):
            yield from _lines_in(part)

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


def _lines_in(part: ByteRange) -> Iterator[bytes]:
    rest = b""
    for block in part.blocks():
        *lines, rest = (rest + block).split(b"\n")
        yield from lines


def _with_head(head: bytes, blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = iter(blocks)
    yield head + next(rest, b"")
    yield from rest


def _done_frames(logs: Mapping[Claim, ClaimLog]) -> list[DoneFrame]:
    """Return the frames above all logs that are over that say what is to be published, the newest first."""
    over = over_below(logs)
    found = []
    for claim in sorted(logs, reverse=True):
        if over is None or claim > over.claim:
            frames = map(logs[claim].frame, reversed(logs[claim].done))
            found += [done for frame in frames if (done := _done_of(frame))]
    return found


def _done_of(frame: Frame) -> DoneFrame | None:
    try:
        fields = frame.value()
    except ValueError:
        return None
    kinds = {"fingerprint": str, "size": int, "sha256": str, "kept": bool, "changes": bool, "summary": dict}
    if not isinstance(fields, dict) or not all(isinstance(fields.get(key), kind) for key, kind in kinds.items()):
        return None
    return DoneFrame(fields, frame.lines)
