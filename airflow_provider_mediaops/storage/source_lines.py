"""Read the lines of a text file on any storage, plain or compressed with gzip, in bounded memory."""

from __future__ import annotations

import re
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.file_role import FileRole

GZIP = ".gz"
# The part of the first line that is searched for signs of another format, and the part of a file that is read at once.
_HEAD_BYTES = 4096
_BLOCK_BYTES = 256 * 1024
# The compressed bytes that are read at once. After each member the rest is copied, so more would cost more.
_GZIP_BLOCK_BYTES = 8 * 1024
# zlib's code for a gzip header and checksum.
_GZIP_WINDOW = 31
# A kilobyte of gzip may hold a million empty lines. So a file may have this many, and a few more for each row.
_BLANK_LINES = 1_000_000
_BLANK_LINES_A_ROW = 10
# The decoder maps a byte that is not UTF-8 to one of these surrogates.
_BYTE = re.compile("[\udc80-\udcff]")
_QUOTED = re.compile(b'"[^"]*"')


class InvalidSourceError(InvalidArgumentError):
    """The file has another format, is no text, or lacks the column."""


# Not frozen: to make a frozen one takes twice as long, and a list has a million.
@dataclass(slots=True)
class SourceRow:
    """
    One row of a source.

    :param text: the text in the column; empty if it cannot be read.
    :param error: why the row cannot be read, with its line number; None if it can.
    :param columns: the values of the other columns that are kept, by name; None if none are.
    :param line: the number of its line, the last one if it has several; None in a format without lines.
    """

    text: str
    error: str | None = None
    columns: Mapping[str, Any] | None = None
    line: int | None = field(default=None, compare=False)


class SourceLines:
    """
    The lines of a file as text, and the number of the last one.

    A byte that is not UTF-8 becomes a lone surrogate, because it matters only in the column that is read.

    :param path: the file. A list is compressed with gzip if its suffix says so, a dataset never.
    :param role: what it is to the user.
    """

    def __init__(self, path: ObjectStoragePath, role: FileRole) -> None:
        self._path = path
        self._packed = role.is_list and path.name.lower().endswith(GZIP)
        self.role = role
        self._blank = 0
        self.number = 0
        #: Whether a line up to here has bytes that are not UTF-8.
        self.has_invalid_utf8 = False
        #: Whether all lines have been read.
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        with self.role.naming(self._path), self._whole_gzip(), self._path.fs.open(self._path.path, "rb") as file:
            blocks = _unzipped(file.read) if self._packed else iter(lambda: file.read(_BLOCK_BYTES), b"")
            for line in self._split(blocks):
                self.number += 1
                if self.number == 1:
                    self._check_text(line[:_HEAD_BYTES])
                encoding = "utf-8-sig" if self.number == 1 else "utf-8"
                try:
                    text = line.decode(encoding)
                except UnicodeDecodeError:
                    self.has_invalid_utf8 = True
                    text = line.decode(encoding, "surrogateescape")
                # The readers strip texts. Bytes have other blanks than texts, such as no-break spaces.
                if text.isspace():
                    self._count_blank()
                yield text
        self.ended = True

    def _count_blank(self) -> None:
        self._blank += 1
        if self._blank > _BLANK_LINES + _BLANK_LINES_A_ROW * (self.number - self._blank):
            raise self.error(f"{self._blank:,} of the lines up to here are empty, so it is no {self.role.noun}")

    def _split(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        # The parts of the next line. To join them block by block would take quadratic time.
        parts: list[bytes] = []
        size = 0
        for block in blocks:
            end, *lines = block.split(b"\n")
            parts.append(end)
            size += len(end)
            for line in lines:
                yield b"".join(parts) + b"\n"
                parts, size = [line], len(line)
            if size > self.role.max_row_bytes:
                raise self.too_long("next line")
        if size:
            yield b"".join(parts)

    def too_long(self, what: str) -> InvalidSourceError:
        """Return the error of a row that is longer than any of such a file."""
        return self.error(f"the {what} is longer than {self.role.max_row_bytes >> 20} MB, so it is no {self.role.noun}")

    @contextmanager
    def _whole_gzip(self) -> Iterator[None]:
        try:
            yield
        except (zlib.error, EOFError) as error:
            raise self.error(f"it is no whole gzip file ({error})") from None

    def _check_text(self, head: bytes) -> None:
        for start, (kind, advice) in _NO_TEXT.items():
            if head.startswith(start):
                raise self.error(f"it is {kind}{self.role.advice(f'; {advice}')}")
        if b"\0" in head:
            raise self.error("it is no text (it holds NUL bytes)")
        # The name of a column may hold one, in quotes.
        if b"\r" in _QUOTED.sub(b"", head.rstrip(b"\r\n")):
            raise self.error("its lines end in CR alone, as on old Macs; save it with LF, or with CR and LF")

    def error(self, problem: str) -> InvalidSourceError:
        """Return an error that names the file and the last line."""
        place = f", line {self.number}" if self.number else ""
        return InvalidSourceError(f"{self.role.name} {self._path}{place}: {problem}.")

    def row(self, text: str, error: str | None = None, columns: Mapping[str, Any] | None = None) -> SourceRow:
        """Return a row of the last line."""
        if not text.isascii():
            error, text = error or no_utf8(text), readable(text)
        return SourceRow(text, f"Line {self.number}: {error}." if error else None, columns, self.number)


def _unzipped(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """
    Decompress a gzip file block by block.

    ``gzip.GzipFile`` reads padding, and the file name in a header, byte by byte: 50 MB take 12 seconds.

    :param read: reads the file.
    :returns: blocks of at most ``_BLOCK_BYTES``.
    :raises zlib.error: if it is damaged.
    :raises EOFError: if its end is missing.
    """
    member = zlib.decompressobj(_GZIP_WINDOW)
    data = read(_GZIP_BLOCK_BYTES)
    if not data:
        return
    while data:
        if member.eof and (data := data.lstrip(b"\0")):
            # Files that are joined are one file with several members. Zeros may follow each.
            member = zlib.decompressobj(_GZIP_WINDOW)
        if data:
            if block := member.decompress(data, _BLOCK_BYTES):
                yield block
            data = member.unused_data if member.eof else member.unconsumed_tail
        data = data or read(_GZIP_BLOCK_BYTES)
    if not member.eof:
        raise EOFError("its end is missing")


def no_utf8(text: str) -> str | None:
    """
    Return an error if a text holds bytes that are not UTF-8.

    :param text: a text as the lines have it.
    """
    found = None if _is_utf8(text) else _BYTE.search(text)
    return found and f"it is no UTF-8 text (byte 0x{_byte(found)} at place {found.start() + 1})"


def readable(text: str, escape: str = "\\x") -> str:
    """
    Return a text with an escape in place of each byte that is not UTF-8.

    :param text: a text as the lines have it.
    :param escape: what stands before the two hexadecimal digits of the byte.
    """
    return text if _is_utf8(text) else _BYTE.sub(lambda found: escape + _byte(found), text)


def _is_utf8(text: str) -> bool:
    # Much faster than a search.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _byte(found: re.Match[str]) -> str:
    return f"{ord(found[0]) - 0xDC00:02x}"


_NO_TEXT = {
    b"\xff\xfe": ("no UTF-8 text but UTF-16", "save it as UTF-8"),
    b"\xfe\xff": ("no UTF-8 text but UTF-16", "save it as UTF-8"),
    b"\x1f\x8b": ("no UTF-8 text but compressed with gzip", "let its name end in .gz"),
    b"PAR1": ("no text but Parquet", "let its name end in .parquet"),
    b"PK\x03\x04": ("no text but a ZIP archive or a workbook", "save it as .csv"),
}
