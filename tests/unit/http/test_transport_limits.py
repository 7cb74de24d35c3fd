"""The limits of both transports against peers that send as slowly, or as much, as they can."""

from __future__ import annotations

import gzip
import resource
import zlib
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.exchange import Failure, Request
from airflow_provider_mediaops.http.transport_settings import TransportSettings
from tests.unit.http.sending import QUICK, ask, failure_of, read_and
from tests.unit.loopback import Loopback, answering, http_reply

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.http.sending import Open
    from tests.unit.loopback import Peer

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
FOUND = b"HTTP/1.1 302 Found\r\nlocation: /there\r\n"
DEFLATED = OK + b"content-encoding: deflate\r\n\r\n"
EMPTY_BLOCK = b"\0\0\0\xff\xff"


def trickling(head: bytes, drop: bytes, *, asked: bool = True) -> Callable[[Peer], None]:
    """Send something again and again until the client has had enough."""

    def serve(peer: Peer) -> None:
        if asked:
            peer.request()
        peer.send(head)
        while not peer.stopping.is_set():
            peer.send(drop)
            peer.pause(0.05)

    return serve


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        pytest.param(b"", b"H", id="status line"),
        pytest.param(OK + b"x-slow: ", b"x", id="header"),
        pytest.param(OK, b"x: y\r\n", id="headers"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", id="interim replies"),
        pytest.param(CHUNKED + b"1;", b"x", id="chunk extension"),
        pytest.param(CHUNKED + b"0\r\n", b"x: y\r\n", id="trailers"),
        pytest.param(CHUNKED + b"ffff\r\n", b"x", id="chunk"),
        pytest.param(OK + b"\r\n", b"x", id="body without length"),
        pytest.param(DEFLATED, EMPTY_BLOCK, id="empty blocks"),
        pytest.param(FOUND + b"content-length: 1000\r\n\r\n", b"x", id="body of a redirect"),
    ],
)
@pytest.mark.parametrize("tls", [False, True])
def test_a_reply_that_trickles_in_is_given_up(
    opened: Open, certificate: Path, head: bytes, drop: bytes, *, tls: bool
) -> None:
    settings = TransportSettings(connect_timeout=0.3, read_timeout=0.3, verify=str(certificate))
    with Loopback(trickling(head, drop), certificate if tls else None) as server:
        error = failure_of(opened(settings), Request("POST", "/", base=server.base, body=b"{}"))
    assert (error.failure, error.sent) == (Failure.TIMEOUT, True)
    assert "still coming in" in error.detail


def test_a_proxy_that_trickles_is_given_up(opened: Open) -> None:
    with Loopback(trickling(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n")) as proxy:
        settings = TransportSettings(connect_timeout=0.3, read_timeout=0.3, proxies={"https": proxy.base})
        error = failure_of(opened(settings), ask("https://service.invalid"))
    assert (error.failure, error.sent) == (Failure.NOT_SENT, False)


def test_a_handshake_through_a_proxy_that_speaks_tls_is_given_up(opened: Open, certificate: Path) -> None:
    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        # The client's greeting; then the beginning of a long record, as if from the host beyond the proxy.
        peer.socket.recv(65536)
        trickling(b"\x16\x03\x03\x3f\xff\x02", b"\0", asked=False)(peer)

    with Loopback(serve, certificate) as proxy:
        settings = TransportSettings(0.3, 0.3, proxies={"https": proxy.base}, verify=str(certificate))
        error = failure_of(opened(settings), ask("https://service.invalid"))
    assert (error.failure, error.sent) == (Failure.NOT_SENT, False)


def test_the_next_request_has_the_whole_time_again(opened: Open) -> None:
    def serve(peer: Peer) -> None:
        while peer.request():
            peer.pause(0.4)
            peer.send(http_reply(200, b"x"))

    with Loopback(serve) as server:
        send = opened(TransportSettings(connect_timeout=0.1, read_timeout=1.0))
        assert [send(ask(server.base)).body for _ in range(5)] == [b"x"] * 5
        assert server.accepted == 1


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(OK + b"x: " + b"y" * 120_000 + b"\r\n", id="one long"),
        pytest.param(OK + b"".join(b"x-%d: y\r\n" % number for number in range(101)), id="many"),
        pytest.param(OK + b"".join(b"x-%d: %b\r\n" % (n, b"y" * 2000) for n in range(90)), id="large in all"),
    ],
)
def test_headers_beyond_their_limit_are_refused(opened: Open, head: bytes) -> None:
    with Loopback(read_and(head + b"content-length: 0\r\n\r\n")) as server:
        error = failure_of(opened(QUICK), ask(server.base))
    assert error.failure is Failure.TOO_LARGE


def test_headers_within_their_limit_are_read(opened: Open) -> None:
    head = OK + b"".join(b"x-%d: %b\r\n" % (number, b"y" * 900) for number in range(98))
    with Loopback(read_and(head + b"content-length: 0\r\n\r\n")) as server:
        assert len(opened(QUICK)(ask(server.base)).headers) == 99


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br"])
def test_other_compression_is_refused(opened: Open, encoding: str) -> None:
    bomb = gzip.compress(gzip.compress(b"0" * 10_000_000))
    with Loopback(answering(http_reply(200, bomb, content_encoding=encoding))) as server:
        error = failure_of(opened(QUICK), ask(server.base))
    assert error.failure is Failure.UNREADABLE


@pytest.mark.parametrize("status", [200, 302, 500])
def test_a_small_reply_of_any_status_that_inflates_costs_little_memory(opened: Open, status: int) -> None:
    bomb = zlib.compress(b"0" * 600_000_000, 9)
    reply = http_reply(status, bomb, content_encoding="deflate", location="/there")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Loopback(answering(reply)) as server:
        error = failure_of(opened(QUICK), Request("GET", "/", base=server.base, max_bytes=1_000_000))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert error.failure is Failure.TOO_LARGE
    assert grown < 100_000_000


def test_the_connection_limits_a_large_reply(opened: Open) -> None:
    with Loopback(answering(http_reply(200, b"x" * 3000))) as server:
        large = Request("GET", "/", base=server.base, max_bytes=10, large_reply=True)
        assert len(opened(TransportSettings(max_large_reply_bytes=3000))(large).body) == 3000
        error = failure_of(opened(TransportSettings(max_large_reply_bytes=2999)), large)
    assert error.failure is Failure.TOO_LARGE


def test_an_interim_reply_is_not_taken_for_the_reply_to_another_request(opened: Open) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n"
    with Loopback(answering(early, http_reply(200, b"second"), http_reply(200, b"third"))) as server:
        send = opened(QUICK)
        error = failure_of(send, ask(server.base))
        assert error.failure in (Failure.BROKEN, Failure.TIMEOUT)
        assert send(ask(server.base)).body == b"second"
        assert server.accepted == 2
