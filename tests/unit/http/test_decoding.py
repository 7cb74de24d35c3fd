from __future__ import annotations

import gzip
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.http.decoding import BodyReader
from airflow_provider_mediaops.http.exchange import Failure, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PIECE = 64 * 1024
LARGE = 10**9


def bare_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


ENCODED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "none": ("", bytes),
    "identity": ("identity", bytes),
    "gzip": ("gzip", gzip.compress),
    "x-gzip": (" X-GZip , identity", gzip.compress),
    "two members": ("gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", bare_deflate),
}
BROKEN_OFF = ("gzip", "two members", "deflate", "bare deflate")
BODIES = st.binary(max_size=2000) | st.builds(lambda data, times: data * times, st.binary(max_size=50), st.just(5000))


def read(encoding: str, chunks: Iterable[bytes], limit: int = LARGE) -> bytes:
    reader = BodyReader(encoding, limit)
    for chunk in chunks:
        reader.add(chunk)
    return reader.finish()


def outcome(encoding: str, chunks: Iterable[bytes], limit: int = LARGE) -> bytes | Failure:
    try:
        return read(encoding, chunks, limit)
    except TransportError as error:
        return error.failure


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("form", ENCODED)
@given(body=BODIES, size=st.integers(1, 3000))
def test_a_body_is_decoded_however_it_is_cut(form: str, body: bytes, size: int) -> None:
    encoding, compress = ENCODED[form]
    assert read(encoding, cut(compress(body), size)) == body


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@given(body=st.binary(min_size=1, max_size=300), size=st.integers(1, 300), good=st.booleans())
def test_any_cutting_of_any_bytes_gives_the_same(encoding: str, body: bytes, size: int, *, good: bool) -> None:
    sent = ENCODED[encoding][1](body) + body if good else body
    assert outcome(encoding, cut(sent, size)) == outcome(encoding, [sent])


@pytest.mark.parametrize("form", BROKEN_OFF)
@given(body=st.binary(min_size=20, max_size=300), data=st.data())
def test_a_compressed_body_that_is_cut_is_never_taken_for_whole(form: str, body: bytes, data: st.DataObject) -> None:
    encoding, compress = ENCODED[form]
    sent = compress(body)
    # Where the first member ends, nothing is missing.
    whole = len(gzip.compress(body[:9])) if form == "two members" else 0
    end = data.draw(st.integers(1, len(sent) - 1).filter(lambda end: not 0 <= end - whole <= 1))
    assert outcome(encoding, [sent[:end]]) is Failure.BROKEN


@pytest.mark.parametrize("form", ENCODED)
@given(size=st.integers(1, 5000), over=st.integers(1, 100_000), limit=st.integers(1, 200_000))
def test_a_body_beyond_the_limit_is_refused(form: str, size: int, over: int, limit: int) -> None:
    encoding, compress = ENCODED[form]
    assert outcome(encoding, cut(compress(b"0" * (limit + over)), size), limit) is Failure.TOO_LARGE
    assert outcome(encoding, cut(compress(b"0" * limit), size), limit) == b"0" * limit


@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip,deflate", "br", "zstd", "gzip, br", "compress"])
def test_other_compression_is_refused(encoding: str) -> None:
    assert outcome(encoding, [gzip.compress(gzip.compress(b"x"))]) is Failure.UNREADABLE


def test_an_empty_body_needs_no_compression() -> None:
    assert read("br", []) == b""
    assert read("gzip", []) == b""


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_bytes_after_the_end_are_ignored(encoding: str) -> None:
    sent = ENCODED[encoding][1](b"whole")
    for rest in (b"\0" * 512, b"garbage", b"\x1f"):
        assert read(encoding, [sent + rest]) == b"whole"


def test_a_member_after_the_first_has_to_be_good() -> None:
    member = gzip.compress(b"whole")
    assert outcome("gzip", [member + member[:12]]) is Failure.BROKEN
    assert outcome("gzip", [member + b"\x1f\x8b" + b"garbage" * 9]) is Failure.UNREADABLE
    assert outcome("gzip", [member[:-1] + b"?"]) is Failure.UNREADABLE


def test_blocks_that_hold_nothing_are_counted() -> None:
    # An empty stored block (RFC 1951, section 3.2.4), which is not the last.
    empty = b"\0\0\0\xff\xff" * 10_000
    assert outcome("deflate", [empty] * 10, limit=1000) is Failure.TOO_LARGE


def test_little_that_becomes_much_costs_no_more_memory_than_the_limit() -> None:
    limit = 4 * 1024 * 1024
    bomb = gzip.compress(b"0" * 300_000_000, compresslevel=9)
    tracemalloc.start()
    try:
        assert outcome("gzip", [bomb], limit) is Failure.TOO_LARGE
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The body so far, which grows by an eighth at a time, the rest of the chunk, and one piece.
    assert peak < 1.5 * limit + 2 * len(bomb) + 8 * PIECE


def test_a_large_body_is_held_once() -> None:
    size = 32 * 1024 * 1024
    chunk = bytes(PIECE)
    tracemalloc.start()
    try:
        reader = BodyReader("", size)
        for _ in range(size // PIECE):
            reader.add(chunk)
        body = reader.finish()
        text = body.decode("utf-8", errors="surrogateescape")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(text) == size
    assert peak < 3 * size
