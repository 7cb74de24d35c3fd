"""Staged records: JSON lines in a local file that only grows, and how much of it counts."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BLOCK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Extent:
    """
    How much of a file of records counts.

    :param size: its length in bytes.
    :param rows: how many records that is.
    :param crc: the CRC-32 of its content, which shows what a power cut has left of it.
    """

    size: int = 0
    rows: int = 0
    crc: int = 0

    def grown(self, data: bytes, rows: int) -> Extent:
        """
        Give the extent after more was written.

        :param data: what was written.
        :param rows: how many records that is.
        """
        return Extent(self.size + len(data), self.rows + rows, zlib.crc32(data, self.crc))


def resume_hint(extent: Extent) -> str:
    """
    Say what an attempt that fails leaves to the next.

    :param extent: what is committed.
    :returns: a sentence for the reader of the error.
    """
    return f"What is staged stays: the task's next attempt goes on after {extent.rows:,} rows."


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """
    Write data at a place of a file, all of it.

    What an earlier write that failed has left there is written over.

    :param descriptor: the open file.
    :param data: what to write.
    :param offset: where.
    :raises OSError: where the system refuses, for example because the disk is full.
    """
    written = os.pwrite(descriptor, data, offset)
    while written < len(data):
        written += os.pwrite(descriptor, memoryview(data)[written:], offset + written)


def read_lines(descriptor: int, length: int) -> Iterator[bytes]:
    """
    Read a file line by line, without moving its position.

    :param descriptor: the open file.
    :param length: how much of it counts; it ends with a line.
    :returns: the lines, without their ends.
    """
    rest = b""
    for block in read_blocks(descriptor, 0, length):
        *lines, rest = (rest + block).split(b"\n")
        yield from lines


def read_blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """
    Read a part of a file block by block, without moving its position.

    :param descriptor: the open file.
    :param start: where it begins.
    :param end: where it ends, or earlier where the file is shorter.
    :returns: the blocks.
    """
    while start < end and (block := os.pread(descriptor, min(_BLOCK, end - start), start)):
        yield block
        start += len(block)


def verified(descriptor: int, extents: Sequence[Extent]) -> int:
    """
    Count the extents whose content is in a file as it was written.

    :param descriptor: the open file of records.
    :param extents: each longer than the one before, or as long.
    :returns: how many of them hold; after a power cut the last may name bytes that never reached the disk.
    """
    crc = start = 0
    for number, extent in enumerate(extents):
        for block in read_blocks(descriptor, start, extent.size):
            crc = zlib.crc32(block, crc)
            start += len(block)
        if (start, crc) != (extent.size, extent.crc):
            return number
    return len(extents)
