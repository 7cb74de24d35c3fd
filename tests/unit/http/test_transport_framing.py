"""A reply whose end cannot be known is refused by both transports, so that no part of one is taken for the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.exchange import Failure, Request
from airflow_provider_mediaops.http.transport_settings import TransportSettings
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
        pytest.param(b"content-length: +2\r\n\r\n{}", id="length with sign"),
        pytest.param(b"content-length: 0_2\r\n\r\n{}", id="length with underscore"),
        pytest.param(b"content-length: \r\n\r\n{}", id="empty length"),
        pytest.param(b"content-length: " + b"9" * 5000 + b"\r\n\r\n{}", id="5000 digits"),
        pytest.param(b"content-length: 2\r\ncontent-length: 1\r\n\r\n{}", id="two lengths"),
        pytest.param(b"content-length: 2, 1\r\n\r\n{}", id="two lengths in one header"),
        pytest.param(b"content-length : 2\r\n\r\n{}", id="blank before the colon"),
        pytest.param(b"no header\r\ncontent-length: 2\r\n\r\n{}", id="no header"),
        pytest.param(b"x: a\0b\r\ncontent-length: 2\r\n\r\n{}", id="NUL"),
        pytest.param(b"x: a\rcontent-length: 2\r\n\r\n{}", id="length behind a CR"),
        pytest.param(b"x: a\rtransfer-encoding: chunked\r\n\r\n" + CHUNKED_BODY, id="chunked behind a CR"),
        pytest.param(b"x: a\r\r content-length: 1\r\ncontent-length: 2\r\n\r\n{}", id="CR twice"),
        pytest.param(b"x: a\r\r\ncontent-length: 2\r\n\r\n{}", id="CR before a line's end"),
        pytest.param(b"x: a\r\n\rcontent-length: 2\r\n\r\n{}", id="CR before a name"),
        pytest.param(b"transfer-encoding: chunked\x0b\r\n\r\n" + CHUNKED_BODY, id="control character behind chunked"),
        pytest.param(b" \r\ncontent-length: 2\r\n\r\n{}", id="blank line within the headers"),
        pytest.param(b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKED_BODY, id="other coding"),
        pytest.param(b"transfer-encoding: identity\r\ncontent-length: 2\r\n\r\n{}", id="no coding"),
        pytest.param(
            b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKED_BODY, id="chunked twice"
        ),
        pytest.param(CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n", id="negative size of a chunk"),
        pytest.param(CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n", id="size of a chunk with sign"),
        pytest.param(CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n", id="size of a chunk with 0x"),
        pytest.param(CHUNKED + b"0_2\r\n{}\r\n0\r\n\r\n", id="size of a chunk with underscore"),
        pytest.param(CHUNKED + b"\r\n{}\r\n0\r\n\r\n", id="no size of a chunk"),
        pytest.param(CHUNKED + b"2\r\n{}  0\r\n\r\n", id="no end of a chunk"),
        pytest.param(CHUNKED + b"2\r\n{}aaaa\r\n0\r\n\r\n", id="chunk longer than its size"),
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
        pytest.param(b"HTTP/1.1 200 OK\rcontent-length: 1\r\ncontent-length: 2\r\n\r\n{}", id="CR in the status line"),
        pytest.param(OK + b"content-length: 2\r\n\r\r\n{}", id="CR before the headers' end"),
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
        pytest.param(b"content-length: 2\r\n\r\n{}", id="length"),
        pytest.param(b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}", id="same length twice"),
        pytest.param(b"content-length: 2, 2\r\n\r\n{}", id="same length twice in one header"),
        pytest.param(b"Transfer-Encoding: Chunked\r\n\r\n" + CHUNKED_BODY, id="chunked"),
        # RFC 9112, section 6.3: Transfer-Encoding overrides Content-Length.
        pytest.param(
            b"transfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n" + CHUNKED_BODY, id="chunked and length"
        ),
        # RFC 9112, section 5: blanks around a value are no part of it.
        pytest.param(b"transfer-encoding: \tchunked \t\r\n\r\n" + CHUNKED_BODY, id="chunked between blanks"),
        pytest.param(b"content-length: \t2 \t\r\n\r\n{}", id="length between blanks"),
        pytest.param(CHUNKED + b"2;a=b\r\n{}\r\n0;c\r\nx: y\r\n\r\n", id="chunk with extension and trailer"),
        pytest.param(CHUNKED + b"1\r\n{\r\n0001\r\n}\r\n00\r\n\r\n", id="size of a chunk with zeros"),
        pytest.param(b"x: a\x85content-length: 1\r\ncontent-length: 2\r\n\r\n{}", id="NEL in a value"),
        pytest.param(b"x:\r\ncontent-length: 2\r\n\r\n{}", id="no value"),
        pytest.param(b"x: a\ncontent-length: 2\n\n{}", id="LF alone"),
        pytest.param(b"content-type: multipart/mixed\r\ncontent-length: 2\r\n\r\n{}", id="several parts"),
    ],
)
def test_a_reply_with_a_clear_end_is_read(opened: Open, rest: bytes) -> None:
    with Loopback(answering(OK + rest)) as server:
        assert opened(PATIENT)(Request("GET", "/", base=server.base)).body == b"{}"


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize(
    ("method", "first"),
    [
        pytest.param("GET", http_reply(200, b"first") + ANOTHER, id="a whole reply"),
        pytest.param("GET", http_reply(200, b"first") + ANOTHER[:30], id="the begin of one"),
        pytest.param("GET", http_reply(200, b"first") + ANOTHER * 2_000, id="more than is received at once"),
        pytest.param("GET", OK + CHUNKED + CHUNKED_BODY + ANOTHER, id="behind chunks"),
        pytest.param("GET", http_reply(204) + ANOTHER, id="behind a reply without body"),
        pytest.param("GET", b"HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nbody", id="body of a 204"),
        pytest.param("HEAD", http_reply(200, b"body"), id="body of a reply to HEAD"),
    ],
)
def test_what_comes_behind_a_reply_is_not_the_reply_to_the_next_request(
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
