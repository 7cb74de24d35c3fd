"""No part of a reply is taken for the whole, and no other reply for the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.exchange import Failure, Request
from airflow_provider_mediaops.http.settings import TransportSettings
from tests.unit.http.sending import PATIENT, failure_of, read_and
from tests.unit.loopback import Loopback, answering, http_reply

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.http.sending import Open

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
CHUNKED_BODY = b"2\r\n{}\r\n0\r\n\r\n"
ANOTHER = http_reply(200, b"another")


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"content-length: 2abc\r\n\r\n{}", id="length with letters"),
        pytest.param(b"content-length: -5\r\n\r\n{}", id="negative length"),
        pytest.param(b"content-length: \r\n\r\n{}", id="empty length"),
        pytest.param(b"content-length: " + b"9" * 5000 + b"\r\n\r\n{}", id="5000 digits"),
        pytest.param(b"content-length: 2\r\ncontent-length: 1\r\n\r\n{}", id="two lengths"),
        pytest.param(b"content-length: 2, 1\r\n\r\n{}", id="two lengths in one header"),
        pytest.param(b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKED_BODY, id="other coding"),
        pytest.param(b"transfer-encoding: identity\r\ncontent-length: 2\r\n\r\n{}", id="no coding"),
        pytest.param(CHUNKED + b"\r\n{}\r\n0\r\n\r\n", id="no size of a chunk"),
        pytest.param(CHUNKED + b"many\r\n{}\r\n0\r\n\r\n", id="word for the size of a chunk"),
    ],
)
def test_a_reply_without_a_clear_end_is_refused(opened: Open, rest: bytes) -> None:
    seen: list[bytes] = []
    with Loopback(answering(OK + rest, seen=seen)) as server:
        error = failure_of(opened(PATIENT), Request("POST", "/", base=server.base, body=b"{}"))
    assert (error.failure, error.sent) == (Failure.BROKEN, True)
    assert len(seen) == 1


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(OK[:-2], id="within the status line"),
        pytest.param(OK, id="before the headers"),
        pytest.param(OK + b"content-type: application/json\r\n", id="between headers"),
        pytest.param(OK + b"content-type: application/json\r\nx-", id="within a header"),
        pytest.param(OK + b"content-length: 0\r\n", id="before the headers' end"),
    ],
)
def test_a_head_that_is_cut_short_is_no_reply(opened: Open, head: bytes) -> None:
    with Loopback(read_and(head)) as server:
        error = failure_of(opened(PATIENT), Request("POST", "/", base=server.base, body=b"{}"))
    assert (error.failure, error.sent) == (Failure.BROKEN, True)


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}", id="same length twice"),
        pytest.param(b"Transfer-Encoding: Chunked\r\n\r\n" + CHUNKED_BODY, id="chunked"),
        # RFC 9112, section 6.3: Transfer-Encoding overrides Content-Length.
        pytest.param(
            b"transfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n" + CHUNKED_BODY, id="chunked and length"
        ),
        pytest.param(CHUNKED + b"2;a=b\r\n{}\r\n0;c\r\nx: y\r\n\r\n", id="chunk with extension and trailer"),
    ],
)
def test_a_reply_with_a_clear_end_is_read(opened: Open, rest: bytes) -> None:
    with Loopback(answering(OK + rest)) as server:
        assert opened(PATIENT)(Request("GET", "/", base=server.base)).body == b"{}"


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize(
    ("method", "first"),
    [
        pytest.param("GET", http_reply(200, b"first") + ANOTHER[:30], id="the begin of one"),
        pytest.param("GET", http_reply(200, b"first") + ANOTHER * 2_000, id="more than is received at once"),
        pytest.param("GET", OK + CHUNKED + CHUNKED_BODY + ANOTHER, id="behind chunks"),
        pytest.param("HEAD", http_reply(200, b"body"), id="body of a reply to HEAD"),
    ],
)
def test_bytes_behind_a_reply_are_not_the_reply_to_the_next_request(
    opened: Open, certificate: Path, method: str, first: bytes, *, is_tls: bool
) -> None:
    seen: list[bytes] = []
    serve = answering(first, http_reply(200, b"second"), seen=seen)
    with Loopback(serve, certificate if is_tls else None) as server:
        send = opened(TransportSettings(connect_timeout=240.0, read_timeout=240.0, verify=str(certificate)))
        assert send(Request(method, "/", base=server.base)).body in (b"first", b"{}", b"")
        assert [send(Request("POST", "/", base=server.base, body=b"{}")).body for _ in range(2)] == [b"second"] * 2
        # Nothing came behind the second reply.
        assert server.accepted == 2
    assert len(seen) == 3
