"""Decompress gzip, of replies and of files, in bounded memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

_GZIP = 16 + zlib.MAX_WBITS
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
