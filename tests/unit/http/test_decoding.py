from __future__ import annotations

import gzip
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.http.decoding import read_body
from airflow_provider_mediaops.http.exchange import Failure, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PIECE = 64 * 1024
LARGE = 10**9

ENCODED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    " GZip ": gzip.compress,
    "x-gzip": gzip.compress,
}
BODIES = st.binary(max_size=2000) | st.builds(lambda data, times: data * times, st.binary(max_size=50), st.just(5000))


def outcome(encoding: str, chunks: Iterable[bytes], limit: int = LARGE) -> bytes | Failure:
    try:
        return read_body(chunks, encoding, limit)
    except TransportError as error:
        return error.failure


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("encoding", ENCODED)
@given(body=BODIES, size=st.integers(1, 3000))
def test_a_body_is_decoded_however_it_is_cut(encoding: str, body: bytes, size: int) -> None:
    assert outcome(encoding, cut(ENCODED[encoding](body), size)) == body


@given(sent=st.binary(min_size=1, max_size=300), size=st.integers(1, 300), good=st.booleans())
def test_any_cutting_of_any_bytes_gives_the_same(sent: bytes, size: int, *, good: bool) -> None:
    if good:
        sent = gzip.compress(sent)
    assert outcome("gzip", cut(sent, size)) == outcome("gzip", [sent])


@given(body=st.binary(min_size=20, max_size=300), data=st.data())
def test_a_compressed_body_that_is_cut_is_never_taken_for_whole(body: bytes, data: st.DataObject) -> None:
    sent = gzip.compress(body)
    assert outcome("gzip", [sent[: data.draw(st.integers(1, len(sent) - 1))]]) is Failure.BROKEN


@pytest.mark.parametrize("encoding", ENCODED)
@given(size=st.integers(1, 5000), over=st.integers(1, 100_000), limit=st.integers(50, 200_000))
def test_a_body_beyond_the_limit_is_refused(encoding: str, size: int, over: int, limit: int) -> None:
    compress = ENCODED[encoding]
    assert outcome(encoding, cut(compress(b"0" * (limit + over)), size), limit) is Failure.TOO_LARGE
    body = b"0" * (limit if encoding in ("", "identity") or limit > 1000 else 10)
    assert outcome(encoding, cut(compress(body), size), limit) == body


@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip,deflate", "deflate", "br", "zstd", "gzip, br", "compress"])
def test_other_compression_is_refused(encoding: str) -> None:
    assert outcome(encoding, [gzip.compress(gzip.compress(b"x"))]) is Failure.UNREADABLE


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_an_empty_body_needs_no_compression(encoding: str) -> None:
    assert outcome(encoding, []) == b""


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_body_in_several_members_of_gzip_is_whole(size: int) -> None:
    assert (
        outcome("gzip", cut(gzip.compress(b"one, ") + gzip.compress(b"") + gzip.compress(b"two"), size)) == b"one, two"
    )


@pytest.mark.parametrize("rest", [b"garbage", gzip.compress(b"another", mtime=0)[:-1]])
@pytest.mark.parametrize("is_one_chunk", [True, False])
def test_bytes_behind_the_end_are_not_dropped_without_a_word(rest: bytes, *, is_one_chunk: bool) -> None:
    sent = gzip.compress(b"whole")
    assert outcome("gzip", [sent + rest] if is_one_chunk else [sent, rest]) in {Failure.UNREADABLE, Failure.BROKEN}


@pytest.mark.parametrize("size", [5, 10_000])
def test_members_that_are_too_much_together_are_refused(size: int) -> None:
    assert outcome("gzip", cut(gzip.compress(b"0" * 60) * 4, size), limit=150) is Failure.TOO_LARGE


def test_a_damaged_body_is_refused() -> None:
    with pytest.raises(TransportError) as caught:
        read_body([gzip.compress(b"whole")[:-1] + b"?"], "gzip", LARGE)
    assert caught.value.failure is Failure.UNREADABLE
    # An error keeps nothing of the library's.
    assert caught.value.__context__ is None


def test_blocks_that_hold_nothing_are_counted() -> None:
    # The head of a member, and empty stored blocks (RFC 1951, section 3.2.4), none of which is the last.
    blocks = [b"\x1f\x8b\x08" + bytes(7), *[b"\0\0\0\xff\xff" * 10_000] * 10]
    assert outcome("gzip", blocks, limit=1000) is Failure.TOO_LARGE
    assert outcome("gzip", blocks) is Failure.BROKEN


def test_a_large_body_is_held_once() -> None:
    size = 32 * 1024 * 1024
    tracemalloc.start()
    try:
        body = read_body((bytes(PIECE) for _ in range(size // PIECE)), "", size)
        text = body.decode("utf-8", errors="surrogateescape")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(text) == size
    assert peak < 3 * size
