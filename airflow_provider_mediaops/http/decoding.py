"""Decompress gzip in bounded memory, and read the body of a reply, which may be compressed, up to a limit."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.exchange import Failure, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_GZIP = 16 + zlib.MAX_WBITS
# The second is the older name (RFC 9110).
_GZIP_NAMES = ("gzip", "x-gzip")
_PIECE_BYTES = 256 * 1024
# After each member the rest is copied.
_STEP_BYTES = 8 * 1024


def inflated(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """
    Yield what gzip holds, in pieces of at most 256 kB however small its blocks are.

    Files of gzip that are joined are one file with several members. Zeros may follow each.

    :raises zlib.error: if it is damaged.
    :raises EOFError: if its end is missing.
    """
    member = None
    for block in _small(blocks):
        data = block
        while data:
            if member is None or member.eof:
                data = data.lstrip(b"\0") if member else data
                member = zlib.decompressobj(_GZIP) if data else member
                continue
            if piece := member.decompress(data, _PIECE_BYTES):
                yield piece
            data = member.unused_data if member.eof else member.unconsumed_tail
    if member and not member.eof:
        raise EOFError("its end is missing")


def _small(blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        for start in range(0, len(block), _STEP_BYTES):
            yield block[start : start + _STEP_BYTES]


def read_body(chunks: Iterable[bytes], content_encoding: str, max_bytes: int) -> bytes:
    """Read a whole body, which may be compressed with gzip, of limited size both as it was sent and decompressed."""
    # Unlike a list of chunks, this returns its content without a copy.
    body = io.BytesIO()
    encoding = content_encoding.strip().lower()
    received = _limited(chunks, max_bytes)
    failure = None
    try:
        for piece in _limited(inflated(received) if encoding in _GZIP_NAMES else received, max_bytes):
            if encoding not in ("", "identity", *_GZIP_NAMES):
                raise TransportError(Failure.UNREADABLE, "it is not compressed with gzip, or more than once")
            body.write(piece)
    except EOFError:
        failure = TransportError(Failure.BROKEN, "the compressed reply ended too early")
    except zlib.error:
        failure = TransportError(Failure.UNREADABLE, "its compression cannot be undone")
    if failure:
        raise failure
    return body.getvalue()


def _limited(pieces: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise TransportError(Failure.TOO_LARGE, f"the reply is larger than {max_bytes:,} bytes")
        yield piece
