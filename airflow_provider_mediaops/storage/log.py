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
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.claims import LAST, Claim, claims_in, last_name, next_claim, read_name
from airflow_provider_mediaops.storage.errors import removed_error, superseded_error, unknown_version_error
from airflow_provider_mediaops.storage.formats import check_lines, json_line
from airflow_provider_mediaops.storage.scratch import ByteRange, read_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from airflow_provider_mediaops.storage.backend import Backend

Kind = Literal["rows", "done"]

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
    # ``rows`` (records and a state) or ``done`` (all is ready to be published).
    kind: Kind
    # The number of records up to its end.
    rows: int
    data: ByteRange
    lines: ByteRange
    # The checksum of the header's text and all that follows.
    crc: int = 0
    text: bytes = b""
    # Whether it does not go on from the frame before it in its claim, but from another one, or from none.
    is_break: bool = False
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
    """The frames of one claim up to the first that is bad or missing: a few numbers each, because there may be many."""

    claim: Claim
    file: int = -1
    #: Where each frame begins, where its lines begin, and where it ends.
    starts: array[int] = field(default_factory=lambda: array("Q"))
    lines: array[int] = field(default_factory=lambda: array("Q"))
    ends: array[int] = field(default_factory=lambda: array("Q"))
    #: The numbers of the frames that say what is to be published.
    done: list[int] = field(default_factory=list)
    #: The frames that do not go on from the one before them, with the place from which they do; None for none.
    breaks: dict[int, Place | None] = field(default_factory=dict)
    #: Whether it is over: nothing of it counts but the summary.
    last: dict[str, Any] | None = None

    def read(self, parts: Iterable[ByteRange], name: str) -> None:
        """Read the frames; a bad one ends the log, as the next has another number than the one that is wanted."""
        for part in parts:
            start = part.start
            while (frame := _frame_at(part.file, start, part.end, name)) is not None and self._follows(frame):
                if frame.is_break:
                    self.breaks[frame.number] = frame.before
                if frame.kind == "done":
                    self.done.append(frame.number)
                self.file = part.file
                self.starts.append(start)
                self.lines.append(frame.lines.start)
                self.ends.append(frame.lines.end)
                start = frame.lines.end

    def _follows(self, frame: Frame) -> bool:
        is_next = frame.number == len(self.starts) and (frame.is_break or frame.number > 0)
        return is_next and frame.is_sound()

    def frame(self, number: int) -> Frame:
        """Return a frame that was read."""
        frame = _frame_at(self.file, self.starts[number], self.ends[number], "")
        if frame is None:
            raise OSError(errno.EIO, f"frame {number} of {self.claim} has changed since it was read")
        return frame


class Slice(NamedTuple):
    """Neighbouring frames of one claim: the first and the last number."""

    log: ClaimLog
    first: int
    last: int


def _frame_at(file: int, start: int, end: int, name: str) -> Frame | None:
    """Read a header; None for none, and for one that cannot be understood."""
    found = _HEADER.match(os.pread(file, min(_MAX_HEADER_BYTES, end - start), start)) if start < end else None
    if found is None:
        return None
    try:
        fields = parse_json(found[2])
        if (version := fields["version"]) != _VERSION:
            raise unknown_version_error(name, version)
        sizes = [fields[key] for key in ("number", "rows", "data", "size")]
        if not all(type(size) is int and size >= 0 for size in sizes) or fields["kind"] not in ("rows", "done"):
            return None
        before = _place_of(fields["before"]) if fields.get("before") else None
    except (KeyError, TypeError, ValueError):
        return None
    number, rows, data_size, size = sizes
    at = start + found.end()
    data, lines = ByteRange(file, at, at + data_size), ByteRange(file, at + data_size, at + data_size + size)
    is_break = "before" in fields
    return Frame(number, fields["kind"], rows, data, lines, int(found[1], 16), found[2], is_break, before)


def _place_of(fields: Sequence[Any]) -> Place:
    number, token, frame = fields
    if not isinstance(token, str) or not all(type(each) is int and each >= 0 for each in (number, frame)):
        raise TypeError("no place of a frame")
    return Place(Claim(number, token), frame)


def read_logs(backend: Backend, folder: str, names: Sequence[str], below: Claim | None = None) -> dict[Claim, ClaimLog]:
    """Read the logs of all claims."""
    logs: dict[Claim, ClaimLog] = {}
    for claim, parts in backend.load(folder, names).items():
        if below is None or claim < below:
            logs[claim] = ClaimLog(claim)
            logs[claim].read(parts, f"{folder}/{claim}")
    for name in names:
        if (found := read_name(name)) and found[1] == LAST and (below is None or found[0] < below):
            fields = _last_in(backend.read(f"{folder}/{name}") or b"")
            if fields is not None:
                logs.setdefault(found[0], ClaimLog(found[0])).last = fields
    return {claim: log for claim, log in logs.items() if log.starts or log.last}


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


def find_chain(logs: Mapping[Claim, ClaimLog]) -> list[Slice]:
    """
    Return the frames that count.

    They lead to the last frame of the highest claim that has one whose predecessors are all there. Below the highest
    log that is over, nothing counts unless a frame above names it.
    """
    for claim in sorted(logs, reverse=True):
        log = logs[claim]
        if log.last is not None:
            return []
        if chain := _walk(logs, log, len(log.starts) - 1):
            return chain
    return []


def _walk(logs: Mapping[Claim, ClaimLog], log: ClaimLog, number: int) -> list[Slice]:
    """Return a frame with all before it; nothing if one is missing."""
    chain: list[Slice] = []
    while True:
        first = max(each for each in log.breaks if each <= number)
        chain.append(Slice(log, first, number))
        before = log.breaks[first]
        if before is None:
            return chain[::-1]
        found = logs.get(before.claim)
        if found is None or before.number >= len(found.starts) or before.claim >= log.claim:
            return []
        log, number = found, before.number


def over_below(logs: Mapping[Claim, ClaimLog]) -> Claim | None:
    """Return the highest claim whose log is over."""
    return max((claim for claim, log in logs.items() if log.last is not None), default=None)


def summary_of(logs: Mapping[Claim, ClaimLog], turn: Sequence[Any]) -> dict[str, Any] | None:
    """Return the summary of a dataset that was published in a turn of its task: None if the task was cleared since."""
    over = over_below(logs)
    if over is None or find_chain(logs):
        return None
    last = logs[over].last
    return dict(last["summary"]) if last and last["turn"] == list(turn) else None


def is_outdated(logs: Mapping[Claim, ClaimLog], turn: Sequence[Any]) -> bool:
    """Return whether a dataset was published in a later turn of its task: the attempt that asks was cleared since."""
    over = over_below(logs)
    last = logs[over].last if over else None
    # A run that was deleted and is there again has fewer clears, and a later start.
    return last is not None and _order_of(last["turn"]) > _order_of(turn)


def _order_of(turn: Sequence[Any]) -> tuple[str, int]:
    clears, run_start = turn
    return run_start, clears


class Log:
    """The log as one attempt reads and writes it; DestinationInUseError if another claims it at the same time."""

    def __init__(self, backend: Backend, folder: str, destination: object) -> None:
        self._backend, self._folder, self._destination = backend, folder, destination
        self.claim = next_claim(backend.names(folder))
        backend.claim(folder, self.claim)
        names = self.check()
        logs = read_logs(backend, folder, names, self.claim)
        #: The logs of earlier claims.
        self.logs = logs
        self._tip: Place | None = None
        self.appended_rows = 0
        self._state: bytes = b"null"
        # Where the frames with records end, in bytes of all records; where each is, and in which file.
        self._ends, self._starts, self._files = array("Q"), array("Q"), array("q")
        for chain in find_chain(logs):
            self._take(chain)
        #: The frames of datasets that may have been published without a last frame, the newest first.
        self.done = _done_frames(logs)
        #: Whether records or a state were read.
        self.resumed = self._state != b"null" or bool(self.appended_rows)
        self._number = 0
        self._is_broken = False
        self._held: list[bytes] = []
        self._held_bytes = self._held_rows = 0
        self._since = time.monotonic()
        self._hint()

    def _take(self, chain: Slice) -> None:
        log, done, latest = chain.log, set(chain.log.done), -1
        for number in range(chain.first, chain.last + 1):
            if number not in done:
                self._add(ByteRange(log.file, log.lines[number], log.ends[number]))
                latest = number
        if latest >= 0:
            self._state = b"".join(log.frame(latest).data.blocks())
        self.appended_rows = log.frame(chain.last).rows
        self._tip = Place(log.claim, chain.last)

    def _add(self, lines: ByteRange) -> None:
        if lines.end > lines.start:
            self._starts.append(lines.start)
            self._files.append(lines.file)
            self._ends.append(self._size + lines.end - lines.start)

    @property
    def _size(self) -> int:
        """The bytes of all records that are appended."""
        return self._ends[-1] if self._ends else 0

    @property
    def rows(self) -> int:
        """The number of committed records."""
        return self.appended_rows + self._held_rows

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
        if max(claims, default=self.claim) > self.claim:
            raise superseded_error(self._destination)
        if self.claim not in claims:
            raise removed_error(self._destination)
        return names

    def commit(self, lines: bytes, rows: int, state: Any) -> None:
        """Add records (lines of JSON), and the state after them."""
        check_lines(lines)
        before = self._state
        # Encoded now: the caller may change it before it is appended.
        self._state = json_line(state)
        self._held.append(lines)
        self._held_bytes += len(lines)
        self._held_rows += rows
        is_due = time.monotonic() - self._since >= self._backend.hold_seconds
        if is_due or self._held_bytes >= self._backend.hold_bytes:
            try:
                self.flush()
            except BaseException:
                # A commit that fails is none: its caller may commit the same records once more.
                self._state = before
                self._held.pop()
                self._held_bytes -= len(lines)
                self._held_rows -= rows
                raise

    def flush(self) -> None:
        """Append what is held back."""
        if self._held:
            lines, rows = b"".join(self._held), self._held_rows
            self._append("rows", self._state, lambda: [lines], len(lines), rows)
            self._held, self._held_bytes, self._held_rows = [], 0, 0
        self._since = time.monotonic()

    def finish(self, fields: Mapping[str, Any], lines: ByteRange | None) -> DoneFrame:
        """Append the frame that says what is to be published."""
        size = lines.end - lines.start if lines else 0
        frame = self._append("done", json_line(fields), lines.blocks if lines else tuple, size)
        done = DoneFrame(dict(fields), frame.lines)
        self.done.insert(0, done)
        return done

    def discard(self) -> None:
        """Begin anew: nothing that was read or written counts, for later attempts as well."""
        self._tip, self.appended_rows, self._state = None, 0, b"null"
        self._ends, self._starts, self._files = array("Q"), array("Q"), array("q")
        self._held, self._held_bytes, self._held_rows = [], 0, 0
        self._append("rows", b"null", tuple, 0)

    def _append(
        self, kind: Kind, data: bytes, blocks: Callable[[], Iterable[bytes]], size: int, rows: int = 0
    ) -> Frame:
        if self._is_broken:
            path = unsigned(str(self._destination))
            raise OSError(f"{path} cannot be written: an earlier write of this attempt has failed")
        self.check()
        goes_on = self._tip is not None and self._tip.claim == self.claim
        header: dict[str, Any] = {
            "version": _VERSION,
            "number": self._number,
            "kind": kind,
            "rows": self.appended_rows + rows,
            "data": len(data),
            "size": size,
        }
        if not goes_on:
            tip = self._tip
            header["before"] = [tip.claim.number, tip.claim.token, tip.number] if tip else None
        text = json_line(header)
        crc = zlib.crc32(data, zlib.crc32(text))
        for block in blocks():
            crc = zlib.crc32(block, crc)
        head = b"%08x %b\n%b" % (crc, text, data)
        # A frame that may be there is not written a second time with other records.
        self._is_broken = True
        part = self._backend.append(
            self._folder, self.claim, self._number, _with_head(head, blocks()), durable=kind != "rows"
        )
        self._is_broken = False
        at = part.start + len(head)
        places = ByteRange(part.file, at - len(data), at), ByteRange(part.file, at, part.end)
        frame = Frame(self._number, kind, header["rows"], *places)
        if kind == "rows":
            self._add(frame.lines)
        self._tip, self.appended_rows = Place(self.claim, self._number), frame.rows
        self._number += 1
        self._hint()
        return frame

    def _hint(self) -> None:
        self._backend.hint = f"What is staged stays: the task's next attempt goes on after {self.appended_rows:,} rows."

    def end(self, summary: Mapping[str, Any], turn: Sequence[Any]) -> None:
        """
        Write the last frame, then remove everything else.

        After a DestinationInUseError, the newer attempt returns what this one has published.
        """
        self.check()
        name = last_name(self.claim)
        text = json_line({"version": _VERSION, "kind": LAST, "summary": summary, "turn": list(turn)})
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

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield the committed lines without their ends, from a place in bytes on."""
        for part in self._parts(start):
            yield from _lines_in(part)

    def read(self, start: int, size: int) -> bytes:
        """Return a part of one committed line."""
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
        if over is None or claim > over:
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
