"""The limits of the transport against peers that send as slowly, or as much, as they can."""

from __future__ import annotations

import gzip
import socket
import tracemalloc
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http import connections
from airflow_provider_mediaops.http.exchange import Failure, Request
from airflow_provider_mediaops.http.settings import MAX_HEAD_BYTES, TransportSettings
from airflow_provider_mediaops.http.transport import Transport
from tests.unit.http.sending import (
    PAST_THE_DEADLINE,
    PATIENT,
    QUICK_READ,
    MovedClock,
    WholeExchangeSettings,
    ask,
    failure_of,
    read_and,
    trickling,
)
from tests.unit.loopback import Loopback, answering, http_reply

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.http.sending import Open
    from tests.unit.loopback import Peer

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
FOUND = b"HTTP/1.1 302 Found\r\nlocation: /there\r\n"
GZIPPED = OK + b"content-encoding: gzip\r\n\r\n\x1f\x8b\x08" + bytes(7)
EMPTY_BLOCK = b"\0\0\0\xff\xff"


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
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", b"x", id="body"),
        pytest.param(CHUNKED, b"1\r\nx\r\n", id="chunks"),
        pytest.param(GZIPPED, EMPTY_BLOCK, id="empty blocks"),
        pytest.param(FOUND + b"content-length: 1000\r\n\r\n", b"x", id="body of a redirect"),
    ],
)
@pytest.mark.parametrize("tls", [False, True])
def test_a_reply_that_trickles_in_is_given_up(
    opened: Open, certificate: Path, clock: MovedClock, head: bytes, drop: bytes, *, tls: bool
) -> None:
    settings = WholeExchangeSettings(connect_timeout=240.0, verify=str(certificate))
    with Loopback(trickling(head, drop, clock), certificate if tls else None) as server:
        error = failure_of(opened(settings), Request("POST", "/", base=server.base, body=b"{}"))
    assert (error.failure, error.sent) == (Failure.TIMEOUT, True)
    assert "still coming in" in error.detail


def test_a_proxy_that_trickles_is_given_up(opened: Open, clock: MovedClock) -> None:
    with Loopback(trickling(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", clock)) as proxy:
        settings = WholeExchangeSettings(connect_timeout=240.0, proxies={"https": proxy.base})
        error = failure_of(opened(settings), ask("https://service.invalid"))
    assert (error.failure, error.sent) == (Failure.NOT_SENT, False)


def test_a_handshake_through_a_proxy_that_speaks_tls_is_given_up(
    opened: Open, certificate: Path, clock: MovedClock
) -> None:
    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        # The client's greeting; then the beginning of a long record, as if from the host beyond the proxy.
        peer.socket.recv(65536)
        peer.send(b"\x16\x03\x03\x3f\xff\x02")
        # The deadline of the whole exchange is later than the time to connect.
        for seconds in (0.0, 0.4 * PAST_THE_DEADLINE, PAST_THE_DEADLINE):
            clock.ahead += seconds
            for _ in range(5):
                peer.send(b"\0")
                peer.pause(0.01)
        peer.pause()

    with Loopback(serve, certificate) as proxy:
        settings = WholeExchangeSettings(240.0, proxies={"https": proxy.base}, verify=str(certificate))
        error = failure_of(opened(settings), ask("https://service.invalid"))
    assert (error.failure, error.sent) == (Failure.NOT_SENT, False)


def test_the_next_request_has_the_whole_time_again(opened: Open, clock: MovedClock) -> None:
    def serve(peer: Peer) -> None:
        while peer.request():
            clock.ahead += 0.4 * PAST_THE_DEADLINE
            peer.send(http_reply(200, b"x"))

    with Loopback(serve) as server:
        send = opened(TransportSettings(connect_timeout=240.0, read_timeout=PAST_THE_DEADLINE))
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
        error = failure_of(opened(PATIENT), ask(server.base))
    assert error.failure is Failure.TOO_LARGE


def test_the_limit_of_headers_is_exact_although_the_body_comes_with_them() -> None:
    body = b"z" * 200_000
    lines = [b"x-%d: %b\r\n" % (number, b"y" * 1_000) for number in range(97)]
    start = OK + b"content-length: %d\r\n" % len(body) + b"".join(lines)
    for over in (0, 1):
        last = b"x: %b\r\n\r\n" % (b"y" * (MAX_HEAD_BYTES + over - len(start) - len(b"x: \r\n\r\n")))
        with Loopback(read_and(start + last + body)) as server, Transport(PATIENT) as transport:
            if over:
                assert failure_of(transport.send, ask(server.base)).failure is Failure.TOO_LARGE
            else:
                assert transport.send(ask(server.base)).body == body


def test_headers_within_their_limit_are_read(opened: Open) -> None:
    head = OK + b"".join(b"x-%d: %b\r\n" % (number, b"y" * 900) for number in range(98))
    with Loopback(read_and(head + b"content-length: 0\r\n\r\n")) as server:
        assert len(opened(PATIENT)(ask(server.base)).headers) == 99


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br"])
def test_other_compression_is_refused(opened: Open, encoding: str) -> None:
    bomb = gzip.compress(gzip.compress(b"0" * 10_000_000))
    with Loopback(answering(http_reply(200, bomb, content_encoding=encoding))) as server:
        error = failure_of(opened(PATIENT), ask(server.base))
    assert error.failure is Failure.UNREADABLE


@pytest.mark.parametrize("status", [200, 302, 500])
def test_a_small_reply_of_any_status_that_inflates_costs_little_memory(opened: Open, status: int) -> None:
    compressor = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    bomb = b"".join(compressor.compress(b"0" * 1_000_000) for _ in range(50)) + compressor.flush()
    reply = http_reply(status, bomb, content_encoding="gzip", location="/there")
    with Loopback(answering(reply)) as server:
        send = opened(PATIENT)
        tracemalloc.start()
        try:
            error = failure_of(send, Request("GET", "/", base=server.base, max_bytes=1_000_000))
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert error.failure is Failure.TOO_LARGE
    assert peak_bytes < 20_000_000


def test_the_connection_limits_a_large_reply(opened: Open) -> None:
    with Loopback(answering(http_reply(200, b"x" * 3000))) as server:
        large = Request("GET", "/", base=server.base, max_bytes=10, large_reply=True)
        assert len(opened(replace(PATIENT, max_large_reply_bytes=3000))(large).body) == 3000
        error = failure_of(opened(replace(PATIENT, max_large_reply_bytes=2999)), large)
    assert error.failure is Failure.TOO_LARGE


def test_an_interim_reply_is_not_taken_for_the_reply_to_another_request(opened: Open) -> None:
    def serve(peer: Peer) -> None:
        while request := peer.request():
            if request.startswith(b"GET /first"):
                peer.send(b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n")
            else:
                peer.send(http_reply(200, b"second"))

    with Loopback(serve) as server:
        send = opened(QUICK_READ)
        error = failure_of(send, Request("GET", "/first", base=server.base))
        assert error.failure in (Failure.BROKEN, Failure.TIMEOUT)
        assert send(Request("GET", "/second", base=server.base, read_timeout=240.0)).body == b"second"
        assert server.accepted == 2


def test_a_connection_that_is_made_at_the_deadline_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []
    clock = MovedClock()

    def connect(new: socket.socket, _: object) -> None:
        made.append(new)
        clock.ahead += PAST_THE_DEADLINE

    monkeypatch.setattr(connections, "time", clock)
    monkeypatch.setattr(socket.socket, "connect", connect)
    with Transport(PATIENT) as transport:
        failure_of(transport.send, ask("http://127.0.0.1:9"))
    assert [each.fileno() for each in made] == [-1]
