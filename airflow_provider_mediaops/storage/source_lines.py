"""Read the lines of a text file on any storage, in any encoding, plain or compressed with gzip, in bounded memory."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from airflow_provider_mediaops.gunzip import inflated
from airflow_provider_mediaops.storage.source_file import LIST

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.source_file import InvalidSourceError, SourceFile

GZIP = ".gz"
#: The encoding of a line that is not UTF-8, if none is given: that of Windows in Western Europe and America.
FALLBACK = "cp1252"
# The part of a file that is searched for signs of another format, and the part that is read at once.
_HEAD_BYTES = 4096
_BLOCK_BYTES = 256 * 1024
# A kilobyte of gzip may hold a million empty lines. This many may follow each other.
_BLANK_LINES = 1_000_000


class SourceLines:
    """
    The lines of a file as text. Their encoding is noted in the file, and so is the number of the last one.

    Without an encoding, a file is UTF-16 or UTF-32 if it begins with the mark of one; otherwise each line is UTF-8, or
    cp1252 if it is none. A list is compressed with gzip if its suffix says so, a dataset never.

    A line that is too long is cut at the last ``cut`` that was read of it, after the first byte of that: programs write
    all of a JSON array into one line. Without ``cut``, such a line is refused.
    """

    def __init__(self, file: SourceFile, *, cut: bytes = b"") -> None:
        self.file, self.cut = file, cut
        self._given = file.options.encoding
        self._begins = True
        self._blank = 0

    def __iter__(self) -> Iterator[str]:
        file = self.file
        file.encoding = self._given or "utf-8"
        is_packed = file.role is LIST and file.path.lower().endswith(GZIP)
        with file.opened() as opened, self._whole_gzip():
            blocks = iter(lambda: opened.read(_BLOCK_BYTES), b"")
            blocks = inflated(blocks) if is_packed else blocks
            for line in self._split(self._in_bytes_with_line_ends(blocks)):
                file.line += self._begins
                self._begins = line.endswith(b"\n")
                text = self._decoded(line)
                if file.line == 1:
                    text = text.removeprefix("\ufeff")
                    self._check_text(text[:_HEAD_BYTES])
                # Bytes have other blanks than texts, such as no-break spaces.
                self._blank = self._blank + 1 if text.isspace() else 0
                if self._blank > _BLANK_LINES:
                    raise file.error(f"{self._blank:,} lines up to here are empty, so it is not a list")
                yield text

    def _in_bytes_with_line_ends(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """Check how the file begins; return its blocks in an encoding in which LF is one byte, as in ASCII."""
        head = b""
        while len(head) < _HEAD_BYTES and (block := next(blocks, b"")):
            head += block
        self._check_kind(head[:_HEAD_BYTES])
        blocks = chain((head,), blocks) if head else blocks
        marked = next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), None)
        wide = self._given or (marked if self.file.role is LIST else None)
        if wide is None or "\n".encode(wide) == b"\n":
            return blocks
        self.file.encoding = wide
        return self._transcoded(blocks, wide)

    def _transcoded(self, blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
        self._given = "utf-8"
        decoder = codecs.getincrementaldecoder(encoding)()
        ends = 0
        try:
            for block in blocks:
                text = decoder.decode(block)
                ends += text.count("\n")
                yield text.encode("utf-8", "surrogatepass")
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            self.file.line = ends + error.object[: error.start].decode(encoding, "ignore").count("\n") + 1
            raise self._wrong_encoding(encoding, error) from None

    def _decoded(self, line: bytes) -> str:
        file, encoding = self.file, self._given or "utf-8"
        try:
            return line.decode(encoding)
        except UnicodeDecodeError as error:
            if file.role is not LIST:
                # One odd row of a dataset is no reason to ask for all books anew.
                return line.decode(encoding, "replace")
            if self._given:
                raise self._wrong_encoding(encoding, error) from None
        file.fallback_line = file.fallback_line or file.line
        file.encoding = FALLBACK
        return line.decode(FALLBACK, "replace")

    def _wrong_encoding(self, encoding: str, error: UnicodeDecodeError) -> InvalidSourceError:
        found = f"byte 0x{error.object[error.start]:02x}" if error.start < len(error.object) else "its end is missing"
        advice = "give the encoding in which it was written, or leave encoding out to have it recognised"
        return self.file.error(f"it is not text in {encoding} ({found}); {advice}")

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
            if size > self.file.role.max_row_bytes:
                parts = [b"".join(parts)]
                place = parts[0].rfind(self.cut) + 1 if self.cut else 0
                if not place:
                    raise self.file.too_long("next line")
                yield parts[0][:place]
                parts = [parts[0][place:]]
                size = len(parts[0])
        if size:
            yield b"".join(parts)

    @contextmanager
    def _whole_gzip(self) -> Iterator[None]:
        try:
            yield
        except (zlib.error, EOFError) as error:
            raise self.file.error(f"it is not a whole gzip file ({error})") from None

    def _check_kind(self, head: bytes) -> None:
        for start, kind in _NO_TEXT.items():
            if head.lstrip(b"\xef\xbb\xbf \r\n\t").lower().startswith(start):
                raise self.file.error(f"it is {kind}", 1)

    def _check_text(self, head: str) -> None:
        if "\0" in head:
            raise self.file.error("it is not text (it holds NUL bytes)")
        # The name of a column in a dataset may hold one, in quotes.
        if self.file.role is LIST and "\r" in head.rstrip("\r\n"):
            raise self.file.error("its lines end in CR alone, as on old Macs; save it with LF, or with CR and LF")


# The marks of encodings whose characters have two bytes or four.
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NO_TEXT = {
    b"\x1f\x8b": "not text but compressed with gzip, though its name does not end in .gz",
    b"par1": "not text but Parquet, though its name does not end in .parquet",
    b"pk\x03\x04": "not text but a ZIP archive, or a workbook whose name does not end in .xlsx",
    b"\xd0\xcf\x11\xe0": "not text but a workbook of Excel in its old form",
    b"%pdf-": "not text but a PDF",
    b"<!doctype html": "a web page; perhaps that of a login",
    b"<html": "a web page; perhaps that of a login",
}
