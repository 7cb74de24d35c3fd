"""A reply whose end cannot be known is refused by both transports, so that no part of one is taken for the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.exchange import Failure, Request
from tests.unit.http.sending import PATIENT, failure_of
from tests.unit.loopback import Loopback, answering

if TYPE_CHECKING:
    from tests.unit.http.sending import Open

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED_BODY = b"2\r\n{}\r\n0\r\n\r\n"


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
        pytest.param(b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKED_BODY, id="other coding"),
        pytest.param(b"transfer-encoding: identity\r\ncontent-length: 2\r\n\r\n{}", id="no coding"),
        pytest.param(
            b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKED_BODY, id="chunked twice"
        ),
    ],
)
def test_a_reply_without_a_clear_end_is_refused(opened: Open, rest: bytes) -> None:
    seen: list[bytes] = []
    with Loopback(answering(OK + rest, seen=seen)) as server:
        error = failure_of(opened(PATIENT), Request("POST", "/", base=server.base, body=b"{}"))
    assert (error.failure, error.sent) == (Failure.BROKEN, True)
    assert len(seen) == 1


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
        pytest.param(b"content-type: multipart/mixed\r\ncontent-length: 2\r\n\r\n{}", id="several parts"),
    ],
)
def test_a_reply_with_a_clear_end_is_read(opened: Open, rest: bytes) -> None:
    with Loopback(answering(OK + rest)) as server:
        assert opened(PATIENT)(Request("GET", "/", base=server.base)).body == b"{}"
