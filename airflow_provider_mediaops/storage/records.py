"""Staged records: JSON lines in a local file that only grows, and how much of it is committed."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.http.reply_limit import MAX_REPLY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The longest line of JSON in a dataset: what is longer is neither written nor read. A record may be as large as the
#: reply in which it came, and the columns of a list may be as large once more.
MAX_LINE_BYTES = 2 * MAX_REPLY_BYTES

_BLOCK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Extent:
    """
    The committed part of a file of records.

    :param size: its length in bytes.
    :param rows: how many records it holds.
    :param crc: the CRC-32 of its content. After a power failure it shows whether the content reached the disk.
    """

    size: int = 0
    rows: int = 0
    crc: int = 0

    @classmethod
    def of(cls, size: Any, rows: Any, crc: Any) -> Extent:
        """
        Return the extent of numbers that were read. Anybody may have changed the file.

        :raises ValueError: if they cannot be those of an extent.
        """
        numbers = size, rows, crc
        # JSON's true and 1.0 equal 1. A record takes more than a byte.
        if not all(type(number) is int and number >= 0 for number in numbers) or rows > size:
            raise ValueError("no extent")
        return cls(*numbers)

    def grown(self, data: bytes, rows: int) -> Extent:
        """
        Return the extent after more records are committed.

        :param data: the lines of the records.
        :param rows: how many records they are.
        """
        return Extent(self.size + len(data), self.rows + rows, zlib.crc32(data, self.crc))


def resume_hint(extent: Extent) -> str:
    """
    Return a sentence for errors: the next attempt resumes.

    :param extent: the committed records.
    """
    return f"What is staged stays: the task's next attempt goes on after {extent.rows:,} rows."


def check_lines(lines: bytes) -> None:
    """
    Make sure that lines can be read again from the dataset.

    :param lines: the lines of records; each ends.
    :raises PermanentError: if one of them is longer than :data:`MAX_LINE_BYTES`.
    """
    if len(lines) <= MAX_LINE_BYTES:
        return
    longest = max(map(len, lines.split(b"\n")))
    if longest > MAX_LINE_BYTES:
        raise PermanentError(
            f"A row of the dataset has {longest:,} bytes as JSON, and one of more than {MAX_LINE_BYTES:,} could not be "
            "read again. What the service or the list holds for that row has to become smaller."
        )


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """
    Write all data at an offset of a file, over the rest of an earlier write that failed.

    :param descriptor: the open file.
    :param data: the data.
    :param offset: where it begins, in bytes.
    :raises OSError: if the system refuses, for example because the disk is full.
    """
    written = os.pwrite(descriptor, data, offset)
    while written < len(data):
        written += os.pwrite(descriptor, memoryview(data)[written:], offset + written)


def read_lines(descriptor: int, end: int, start: int = 0) -> Iterator[bytes]:
    """
    Read a file line by line, without moving its position.

    :param descriptor: the open file.
    :param end: where the part to read ends, in bytes: after a line end.
    :param start: where it begins.
    :returns: the lines, without their line ends.
    """
    rest = b""
    for block in read_blocks(descriptor, start, end):
        *lines, rest = (rest + block).split(b"\n")
        yield from lines


def read_blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """
    Read a part of a file block by block, without moving its position.

    :param descriptor: the open file.
    :param start: where the part begins, in bytes.
    :param end: where it ends; the file may be shorter.
    :returns: the blocks.
    """
    while start < end and (block := os.pread(descriptor, min(_BLOCK_BYTES, end - start), start)):
        yield block
        start += len(block)


def verified(descriptor: int, extents: Sequence[Extent]) -> int:
    """
    Count the extents whose content is in a file as it was written.

    :param descriptor: the open file of records.
    :param extents: in order of their sizes.
    :returns: how many of them are intact; after a power failure, the last may name bytes that never reached the disk.
    """
    crc = start = 0
    for number, extent in enumerate(extents):
        for block in read_blocks(descriptor, start, extent.size):
            crc = zlib.crc32(block, crc)
            start += len(block)
        if (start, crc) != (extent.size, extent.crc):
            return number
    return len(extents)
