from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.http.connections import failure_of
from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.http.transport import read_body

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
    except (EOFError, zlib.error) as error:
        return failure_of(error, may_have_sent=True, is_late=False).failure


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("encoding", ENCODED)
@given(body=BODIES, size=st.integers(1, 3000))
def test_a_body_is_decoded_however_it_is_cut_up_to_the_limit(encoding: str, body: bytes, size: int) -> None:
    sent = ENCODED[encoding](body)
    largest = max(len(sent), len(body))
    assert outcome(encoding, cut(sent, size), largest) == body
    if body:
        assert outcome(encoding, cut(sent, size), largest - 1) is Failure.TOO_LARGE


@given(body=st.binary(min_size=20, max_size=300), data=st.data())
def test_a_compressed_body_that_is_cut_is_never_taken_for_whole(body: bytes, data: st.DataObject) -> None:
    sent = gzip.compress(body)
    assert outcome("gzip", [sent[: data.draw(st.integers(1, len(sent) - 1))]]) is Failure.BROKEN


@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip,deflate", "deflate", "br", "zstd", "compress"])
def test_other_compression_is_refused_unless_the_body_is_empty(encoding: str) -> None:
    assert outcome(encoding, [gzip.compress(gzip.compress(b"x"))]) is Failure.UNREADABLE
    assert outcome(encoding, []) == b""


WHOLE = gzip.compress(b"whole")


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("sent", "found"),
    [
        pytest.param(gzip.compress(b"one, ") + gzip.compress(b"") + gzip.compress(b"two"), b"one, two", id="members"),
        pytest.param(gzip.compress(b"0" * 60) * 4, Failure.TOO_LARGE, id="members that are too much together"),
        pytest.param(WHOLE + gzip.compress(b"another")[:-1], Failure.BROKEN, id="a member that is cut"),
        pytest.param(WHOLE + b"garbage", Failure.UNREADABLE, id="bytes behind the end"),
        pytest.param(WHOLE[:-1] + b"?", Failure.UNREADABLE, id="damage"),
    ],
)
def test_all_of_a_compressed_body_counts(sent: bytes, size: int, found: bytes | Failure) -> None:
    assert outcome("gzip", cut(sent, size), limit=150) == found


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
