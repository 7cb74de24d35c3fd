"""Read the lines of a reply and find the end of its body as RFC 9112 demands; http.client is more lenient."""

from __future__ import annotations

import email.errors
import http.client
import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from email.message import Message

_LENGTH = re.compile("[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?\r?\n")
_NEVER_IN_A_HEADER = re.compile("[\0\v\f]")
# The parser drops such a line, or every line after it: a Content-Length could be among them.
_LINES_DROPPED = (
    email.errors.MissingHeaderBodySeparatorDefect,
    email.errors.FirstHeaderLineIsContinuationDefect,
    email.errors.InvalidHeaderDefect,
)


class FramingError(http.client.HTTPException):
    """Raised for a reply whose end is not clear. Its text holds nothing of the reply."""


class ReplyLines(io.BufferedReader):
    """
    The bytes of one reply, with strict lines: the status, the headers, the sizes of chunks and the trailers.

    http.client takes a lone CR for the end of a header, so a part of a header's value could be taken for the length of
    the body. It takes the end of the connection for the end of the headers. And it keeps blanks at the end of a value,
    so it does not understand ``chunked`` with a blank behind it.
    """

    _has_begun = False

    def readline(self, size: int | None = -1, /) -> bytes:
        """
        Read one line.

        :param size: the limit in bytes; of a longer line, only the start is returned.
        :returns: the line, without blanks before its end; empty if the connection ended before the first line.
        :raises FramingError: if a CR in it is not followed by LF, or the connection ended before its end.
        """
        line = super().readline(size)
        if not line.endswith(b"\n"):
            if len(line) != size and (line or self._has_begun):
                raise FramingError("the connection ended within its headers")
            return line
        self._has_begun = True
        content = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        if b"\r" in content:
            raise FramingError("one of its lines holds a carriage return")
        # A line of blanks must not become an empty one, which ends the headers.
        return content.rstrip(b" \t") + b"\r\n" if content.strip(b" \t") else line


def check_framing(headers: Message) -> int | None:
    """
    Make sure that the end of a reply's body is clear.

    :param headers: the reply's headers.
    :returns: the length of the body in bytes; None if it is sent in chunks, or ends with the connection.
    :raises FramingError: if a header is malformed, or the length or the encoding of the transfer is.
    """
    if any(isinstance(defect, _LINES_DROPPED) for defect in headers.defects):
        raise FramingError("one of its headers is malformed")
    if any(_NEVER_IN_A_HEADER.search(str(value)) for value in headers.values()):
        raise FramingError("one of its headers holds control characters")
    encodings = headers.get_all("transfer-encoding", [])
    if encodings:
        # It overrides Content-Length (RFC 9112, section 6.3).
        if [str(encoding).lower() for encoding in encodings] != ["chunked"]:
            raise FramingError("its Transfer-Encoding is not chunked")
        return None
    lengths = {part.strip() for value in headers.get_all("content-length", []) for part in str(value).split(",")}
    if not lengths:
        return None
    length = lengths.pop()
    if lengths or not _LENGTH.fullmatch(length):
        raise FramingError("its Content-Length is not one number")
    return int(length)


def chunk_size(line: bytes) -> int:
    """
    Parse the line before a chunk.

    :param line: the line with its end; extensions of the size are ignored.
    :returns: the size of the chunk in bytes; 0 for the last one.
    :raises FramingError: if the line begins with no number, or is longer than any.
    """
    found = _CHUNK_SIZE.fullmatch(line)
    if not found:
        raise FramingError("the size of a chunk is no number")
    return int(found[1], 16)
