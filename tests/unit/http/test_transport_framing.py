"""A reply whose end cannot be known is refused by both transports, so that no part of one is taken for the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.exchange import Failure, Request
from tests.unit.http.sending import PATIENT, failure_of, read_and
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
        pytest.param(b"x: a\x85content-length: 1\r\ncontent-length: 2\r\n\r\n{}", id="NEL in a value"),
        pytest.param(b"x:\r\ncontent-length: 2\r\n\r\n{}", id="no value"),
        pytest.param(b"x: a\ncontent-length: 2\n\n{}", id="LF alone"),
        pytest.param(b"content-type: multipart/mixed\r\ncontent-length: 2\r\n\r\n{}", id="several parts"),
    ],
)
def test_a_reply_with_a_clear_end_is_read(opened: Open, rest: bytes) -> None:
    with Loopback(answering(OK + rest)) as server:
        assert opened(PATIENT)(Request("GET", "/", base=server.base)).body == b"{}"
