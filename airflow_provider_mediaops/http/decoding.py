"""Read the body of a reply, undo its compression, and keep to a limit of its size."""

from __future__ import annotations

import contextlib
import io
import zlib
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.exchange import Failure, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable

_GZIP = 16 + zlib.MAX_WBITS
# The second is the older name (RFC 9110).
_GZIP_NAMES = ("gzip", "x-gzip")


def read_body(chunks: Iterable[bytes], content_encoding: str, max_bytes: int) -> bytes:
    """Read a whole body, which may be compressed with gzip, of limited size both as it was sent and decompressed."""
    # Unlike a list of chunks, this returns its content without a copy.
    body = io.BytesIO()
    stream = zlib.decompressobj(_GZIP)
    encoding = content_encoding.strip().lower()
    received = 0
    for chunk in chunks:
        received += len(chunk)
        rest = chunk
        while rest:
            if encoding in ("", "identity"):
                body.write(rest)
                rest = b""
            elif encoding in _GZIP_NAMES:
                if stream.eof:
                    # Some servers send gzip in several members.
                    stream = zlib.decompressobj(_GZIP)
                # No more than one byte beyond the limit, however small the chunk is.
                body.write(_decompressed(stream, rest, max_bytes + 1 - body.tell()))
                rest = stream.unused_data
            else:
                raise TransportError(Failure.UNREADABLE, "it is not compressed with gzip, or more than once")
            if max(received, body.tell()) > max_bytes:
                raise TransportError(Failure.TOO_LARGE, f"the reply is larger than {max_bytes:,} bytes")
    if encoding in _GZIP_NAMES and received and not stream.eof:
        raise TransportError(Failure.BROKEN, "the compressed reply ended too early")
    return body.getvalue()


def _decompressed(stream: Any, data: bytes, max_bytes: int) -> bytes:
    with contextlib.suppress(zlib.error):
        return bytes(stream.decompress(data, max_bytes))
    raise TransportError(Failure.UNREADABLE, "its compression cannot be undone")
