"""Read the body of a reply, which may be compressed, up to a limit."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING

from airflow_provider_mediaops.gunzip import inflated
from airflow_provider_mediaops.http.exchange import Failure, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The second is the older name (RFC 9110).
_GZIP_NAMES = ("gzip", "x-gzip")


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
