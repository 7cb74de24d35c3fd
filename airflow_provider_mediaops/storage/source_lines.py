"""Read the lines of a text file on any storage, in any encoding, plain or compressed with gzip, in bounded memory."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
_ENCODING_ADVICE = "give the encoding in which it was written, or leave encoding out to have it recognised"
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


def read_lines(file: SourceFile) -> Iterator[str]:
    """
    Yield the lines of a file. Their encoding is noted in it, and so is the number of the last one.

    Without an encoding, a file is UTF-16 or UTF-32 if it begins with the mark of one; otherwise each line is UTF-8, or
    cp1252 if it is none. A list is compressed with gzip if its suffix says so, a dataset never. A line that is too long
    is refused, or cut as the file says.
    """
    blanks, begins, rest = 0, True, ""
    with _opened_text(file) as text:
        while line := rest + text.readline(file.role.max_row_bytes + 1 - len(rest)):
            file.line += begins
            begins = line.endswith("\n")
            rest = ""
            if len(line) > file.role.max_row_bytes and not begins:
                # Programs write all of a JSON array into one line.
                place = line.rfind(file.cut) + 1 if file.cut else 0
                if not place:
                    raise file.too_long("line")
                line, rest = line[:place], line[place:]
            if text.errors == "surrogateescape" and not line.isascii():
                line = _decoded(file, line)
            if file.line == 1:
                line = line.removeprefix("\ufeff")
                _check_text(file, line[:_HEAD_BYTES])
            # Bytes have other blanks than texts, such as no-break spaces.
            blanks = blanks + 1 if line.isspace() else 0
            if blanks > _BLANK_LINES:
                raise file.error(f"{blanks:,} lines up to here are empty, so it is not a list")
            yield line


@contextmanager
def _opened_text(file: SourceFile) -> Iterator[io.TextIOWrapper]:
    """Open a file as text, in which bytes that are not UTF-8 are surrogates if no encoding is known."""
    is_list, given = file.role is LIST, file.options.encoding
    with file.opened() as opened:
        if is_list and file.path.lower().endswith(GZIP):
            content: gzip.GzipFile | io.BufferedReader = gzip.GzipFile(fileobj=opened)
        else:
            content = io.BufferedReader(opened, _BLOCK_BYTES)
        try:
            head = content.peek(_HEAD_BYTES)[:_HEAD_BYTES]
            _check_kind(file, head)
            if is_list and not given:
                given = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
            file.encoding = given or "utf-8"
            # One odd row of a dataset is no reason to ask for all books anew.
            errors = "strict" if given else "surrogateescape" if is_list else "replace"
            yield io.TextIOWrapper(content, file.encoding, errors, newline="\n")
        except (zlib.error, EOFError, gzip.BadGzipFile) as error:
            raise file.error(f"it is not a whole gzip file ({error})") from None
        except UnicodeDecodeError as error:
            raise _wrong_encoding(file, error) from None
        except UnicodeError as error:
            # UTF-16 without its mark.
            raise file.error(f"it is not text in {file.encoding} ({error}); {_ENCODING_ADVICE}") from None


def _wrong_encoding(file: SourceFile, error: UnicodeDecodeError) -> InvalidSourceError:
    encoding = str(file.encoding)
    # A block of lines is decoded when the one before it was read.
    file.line += error.object[: error.start].decode(encoding, "ignore").count("\n") + 1
    found = f"byte 0x{error.object[error.start]:02x}" if error.start < len(error.object) else "its end is missing"
    return file.error(f"it is not text in {encoding} ({found}); {_ENCODING_ADVICE}")


def _decoded(file: SourceFile, line: str) -> str:
    """Return a line that is perhaps not UTF-8."""
    try:
        line.encode()
    except UnicodeEncodeError:
        file.fallback_line = file.fallback_line or file.line
        file.encoding = FALLBACK
        return line.encode("utf-8", "surrogateescape").decode(FALLBACK, "replace")
    return line


def _check_kind(file: SourceFile, head: bytes) -> None:
    for start, kind in _NO_TEXT.items():
        if head.lstrip(b"\xef\xbb\xbf \r\n\t").lower().startswith(start):
            raise file.error(f"it is {kind}", 1)


def _check_text(file: SourceFile, head: str) -> None:
    if "\0" in head:
        raise file.error("it is not text (it holds NUL bytes)")
    # The name of a column in a dataset may hold one, in quotes.
    if file.role is LIST and "\r" in head.rstrip("\r\n"):
        raise file.error("its lines end in CR alone, as on old Macs; save it with LF, or with CR and LF")
