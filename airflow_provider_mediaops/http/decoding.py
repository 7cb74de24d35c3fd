"""
Read a body under a limit of size: raw chunks in, decoded bytes out. No I/O.

The transport hands over what the connection gives, before any decompression, and decompression happens here in pieces
of at most 64 kB. So a small reply that inflates to gigabytes costs no more memory than the limit and one piece.

Accepted are no compression, ``gzip``, and ``deflate`` with or without the zlib wrapper, because servers disagree. A
body that is compressed twice, or in another way, is refused. A gzip body may have several members. Bytes after the end
of the compressed data are ignored, unless they begin another gzip member, which must then be whole. A compressed body
that ends too early is an error, even if its framing says that it is whole.
"""

from __future__ import annotations

import contextlib
import io
import zlib
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.exchange import Failure, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_PIECE_BYTES = 64 * 1024
# Data that is already compressed becomes slightly longer: by 5 bytes in 16 kB, and a header.
_RAW_OVERHEAD_BYTES = 64 * 1024
_GZIP_WINDOW, _ZLIB_WINDOW, _RAW_WINDOW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"
# A gzip member needs two bytes to be recognized, and so does the zlib wrapper.
_MAGIC_BYTES = 2
# The zlib wrapper begins with these two, and is a multiple of 31 (RFC 1950, section 2.2).
_DEFLATE_METHOD, _LARGEST_WINDOW = 8, 7


class BodyReader:
    """
    Decodes one body and keeps it, under a limit of size.

    :param content_encoding: the reply's header ``Content-Encoding``; several values are separated by commas.
    :param max_bytes: the limit of the decoded body. The body as sent may be 64 kB larger than that.
    """

    def __init__(self, content_encoding: str, max_bytes: int) -> None:
        self._encodings = [
            name for part in content_encoding.split(",") if (name := part.strip().lower()) not in ("", "identity")
        ]
        self._max_bytes = max_bytes
        self._raw_bytes = 0
        # Unlike a list of chunks, this returns its content without a copy.
        self._body = io.BytesIO()
        self._decoder: _Decoder | None = None

    def feed(self, chunk: bytes) -> Iterator[int]:
        """
        Decode the next chunk of the body as it was sent.

        :param chunk: the chunk; not empty.
        :returns: the size of each decoded piece, lazily, so that an event loop can do other work in between; the
            iterator must be exhausted.
        :raises TransportError: if the body is too large, or its compression cannot be undone.
        """
        if not self._raw_bytes:
            self._decoder = _decoder_for(self._encodings)
        self._raw_bytes += len(chunk)
        if self._raw_bytes > self._max_bytes + (_RAW_OVERHEAD_BYTES if self._decoder else 0):
            raise self._too_large()
        for piece in self._decoder.feed(chunk) if self._decoder else (chunk,):
            if self._body.tell() + len(piece) > self._max_bytes:
                raise self._too_large()
            self._body.write(piece)
            yield len(piece)

    def add(self, chunk: bytes) -> None:
        """
        Decode the next chunk of the body at once; for threads, which may block.

        :param chunk: the chunk; not empty.
        :raises TransportError: as :meth:`feed`.
        """
        for _ in self.feed(chunk):
            pass

    def finish(self) -> bytes:
        """
        Return the whole body.

        :returns: the decoded body.
        :raises TransportError: if the compressed data ended too early.
        """
        if self._decoder:
            self._decoder.finish()
        return self._body.getvalue()

    def _too_large(self) -> TransportError:
        return TransportError(Failure.TOO_LARGE, f"the reply is larger than {self._max_bytes:,} bytes")


def _decoder_for(encodings: list[str]) -> _Decoder | None:
    if not encodings:
        return None
    if len(encodings) > 1:
        raise TransportError(Failure.UNREADABLE, "it is compressed more than once")
    if encodings[0] in ("gzip", "x-gzip"):
        return _Decoder(_gzip_window, has_members=True)
    if encodings[0] == "deflate":
        return _Decoder(_deflate_window, has_members=False)
    raise TransportError(Failure.UNREADABLE, "its compression is neither gzip nor deflate")


def _gzip_window(start: bytes) -> int | None:
    return _GZIP_WINDOW if start == _GZIP_MAGIC else None


def _deflate_window(start: bytes) -> int | None:
    # RFC 9110 means the zlib wrapper by "deflate"; some servers send the bare data.
    method, window = start[0] & 0x0F, start[0] >> 4
    wrapped = method == _DEFLATE_METHOD and window <= _LARGEST_WINDOW and not int.from_bytes(start, "big") % 31
    return _ZLIB_WINDOW if wrapped else _RAW_WINDOW


class _Decoder:
    """
    Undoes one compression, in pieces of bounded size.

    :param window: chooses zlib's ``wbits`` by the first two bytes; None if they begin no such data.
    :param has_members: whether more compressed data may follow the end of the first.
    """

    def __init__(self, window: Callable[[bytes], int | None], *, has_members: bool) -> None:
        self._window = window
        self._has_members = has_members
        self._stream: Any = None
        # A first byte, until the second one shows which data they begin.
        self._start = b""
        self._ended = 0
        self._ignoring = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data and not self._ignoring:
            if self._stream is None:
                data, self._start = self._start + data, b""
                if len(data) < _MAGIC_BYTES:
                    self._start = data
                    return
                self._open(data[:_MAGIC_BYTES])
            if self._stream is not None:
                data = yield from self._inflate(data)

    def finish(self) -> None:
        if self._stream is not None or not self._ended:
            raise TransportError(Failure.BROKEN, "the compressed reply ended too early")

    def _open(self, start: bytes) -> None:
        window = self._window(start)
        if window is not None:
            self._stream = zlib.decompressobj(window)
        elif self._ended:
            self._ignoring = True
        else:
            raise _unreadable()

    def _inflate(self, data: bytes) -> Generator[bytes, None, bytes]:
        stream = self._stream
        while True:
            piece = _inflated(stream, data)
            if piece:
                yield piece
            if stream.eof:
                self._stream = None
                self._ended += 1
                self._ignoring = not self._has_members
                return bytes(stream.unused_data)
            data = stream.unconsumed_tail
            # A full piece may leave output behind that needs no more input.
            if not data and len(piece) < _PIECE_BYTES:
                return b""


def _inflated(stream: Any, data: bytes) -> bytes:
    with contextlib.suppress(zlib.error):
        return bytes(stream.decompress(data, _PIECE_BYTES))
    raise _unreadable()


def _unreadable() -> TransportError:
    return TransportError(Failure.UNREADABLE, "its compression cannot be undone")
