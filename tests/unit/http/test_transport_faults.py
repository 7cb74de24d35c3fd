"""The transport by its faults: the failure of each, whether the request may have been sent, bounds of time and size."""

from __future__ import annotations

import gzip
import socket
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
import urllib3.exceptions

from airflow_provider_mediaops.http.exchange import Failure, Request
from airflow_provider_mediaops.http.settings import TransportSettings
from airflow_provider_mediaops.http.transport import Transport
from tests.certificates import make_certificate
from tests.unit.http.sending import (
    PAST_THE_DEADLINE,
    PATIENT,
    QUICK_CONNECT,
    QUICK_READ,
    MovedClock,
    WholeExchangeSettings,
    ask,
    failure_of,
    read_and,
    server_side,
    through,
    trickling,
)
from tests.unit.loopback import Loopback, answering, closed_port, deaf_port, http_reply

if TYPE_CHECKING:
    from requests_mock import Mocker

    from tests.unit.http.sending import Open
    from tests.unit.loopback import Peer

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
CHUNKED_BODY = b"2\r\n{}\r\n0\r\n\r\n"
GZIPPED = OK + b"content-encoding: gzip\r\n\r\n\x1f\x8b\x08" + bytes(7)
EMPTY_BLOCK = b"\0\0\0\xff\xff"
HALF_A_BODY = http_reply(body=b"x" * 100)[:-50]
ANOTHER = http_reply(200, b"another")
SERVICE = "https://service.invalid"


def write(base: str) -> Request:
    return Request("POST", "/", base=base, body=b"{}", max_bytes=5_000)


BROKEN_REPLIES = {
    "closed before any reply": read_and(),
    "reset before any reply": read_and(then="reset"),
    "cut within the status line": read_and(OK[:-2]),
    "cut within a header": read_and(OK + b"content-type: application/json\r\nx-"),
    "closed in mid-body": read_and(HALF_A_BODY),
    "reset in mid-body": read_and(HALF_A_BODY, then="reset"),
    "closed within a chunk": read_and(CHUNKED + b"5\r\nab"),
    "closed within a compressed body": read_and(
        http_reply(200, gzip.compress(b"x" * 50), content_encoding="gzip")[:-5]
    ),
    "no HTTP": read_and(b"\x15\x03\x01\x00\x02\x02F"),
    "length with letters": answering(OK + b"content-length: 2abc\r\n\r\n{}"),
    "two lengths": answering(OK + b"content-length: 2, 1\r\n\r\n{}"),
    "other coding": answering(OK + b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKED_BODY),
    "word for the size of a chunk": answering(CHUNKED + b"many\r\n{}\r\n0\r\n\r\n"),
    "text that ends with its connection": read_and(OK + b"\r\n::: {node-1}\n"),
    "interim reply for the final one": read_and(b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n"),
}
TOO_LARGE_REPLIES = {
    "body": answering(http_reply(200, b"x" * 5_001)),
    "compressed body": answering(http_reply(200, gzip.compress(b"0" * 20_000_000), content_encoding="gzip")),
    "one header": read_and(OK + b"x: " + b"y" * 120_000 + b"\r\ncontent-length: 0\r\n\r\n"),
    "number of headers": read_and(OK + b"".join(b"x-%d: y\r\n" % n for n in range(101)) + b"\r\n"),
}
UNREADABLE_REPLIES = {
    "not the compression it says": answering(http_reply(200, b"plain", content_encoding="gzip")),
    "compressed twice": answering(
        http_reply(200, gzip.compress(gzip.compress(b"0" * 10_000)), content_encoding="gzip, gzip")
    ),
    "other compression": answering(http_reply(200, b"x", content_encoding="br")),
}


@pytest.mark.parametrize(
    ("serve", "failure"),
    [
        pytest.param(serve, failure, id=f"{failure.name}: {name}")
        for failure, table in (
            (Failure.BROKEN, BROKEN_REPLIES),
            (Failure.TOO_LARGE, TOO_LARGE_REPLIES),
            (Failure.UNREADABLE, UNREADABLE_REPLIES),
        )
        for name, serve in table.items()
    ],
)
def test_faulty_reply_ends_the_request_that_was_sent_once(
    opened: Open, serve: Callable[[Peer], None], failure: Failure
) -> None:
    with Loopback(serve) as server:
        error = failure_of(opened(PATIENT), write(server.base))
        assert server.accepted == 1
    assert (error.failure, error.sent) == (failure, True)


@pytest.mark.parametrize("begin", [b"", HALF_A_BODY], ids=["before any reply", "in mid-body"])
def test_silent_server_is_given_up_at_the_read_limit(opened: Open, begin: bytes) -> None:
    with Loopback(read_and(begin, then="stall")) as server:
        error = failure_of(opened(QUICK_READ), write(server.base))
    assert (error.failure, error.sent) == (Failure.TIMEOUT, True)
    assert "no reply within" in error.detail


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        pytest.param(b"", b"H", id="status line"),
        pytest.param(OK + b"x-slow: ", b"x", id="header"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", id="interim replies"),
        pytest.param(OK + b"\r\n", b"x", id="body without length"),
        pytest.param(OK + b"content-length: 100\r\n\r\n", b"x", id="body"),
        pytest.param(CHUNKED, b"1\r\nx\r\n", id="chunks"),
        pytest.param(GZIPPED, EMPTY_BLOCK, id="empty blocks"),
    ],
)
@pytest.mark.parametrize("tls", [False, True])
def test_trickling_reply_is_given_up_at_the_deadline(
    opened: Open, certificate: Path, clock: MovedClock, head: bytes, drop: bytes, *, tls: bool
) -> None:
    settings = WholeExchangeSettings(connect_timeout=240.0, verify=str(certificate))
    with Loopback(trickling(head, drop, clock), certificate if tls else None) as server:
        error = failure_of(opened(settings), write(server.base))
    assert (error.failure, error.sent) == (Failure.TIMEOUT, True)
    assert "still coming in" in error.detail


def test_server_that_falls_silent_before_the_deadline_is_given_up_at_it(opened: Open, clock: MovedClock) -> None:
    def serve(peer: Peer) -> None:
        peer.request()
        clock.ahead += PAST_THE_DEADLINE / 2 - 0.3
        peer.send(HALF_A_BODY)
        peer.pause()

    with Loopback(serve) as server:
        error = failure_of(opened(WholeExchangeSettings(connect_timeout=240.0)), write(server.base))
    assert (error.failure, error.sent) == (Failure.TIMEOUT, True)


@pytest.mark.parametrize("service", [SERVICE, "http://service.invalid"])
def test_proxy_that_wants_credentials_has_passed_nothing_on(opened: Open, service: str) -> None:
    with Loopback(read_and(http_reply(407))) as proxy:
        error = failure_of(opened(through(proxy.base, limit=240.0)), write(service))
    assert (error.failure, error.sent) == (Failure.PROXY, False)
    assert "407: it asks for a user and password" in error.detail


def repeating(head: bytes, part: bytes, seconds: float) -> Callable[[Peer], None]:
    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(head)
        while not peer.stopping.is_set():
            peer.send(part)
            peer.pause(seconds)

    return serve


@pytest.mark.parametrize(
    ("serve", "limit", "detail"),
    [
        pytest.param(read_and(), 240.0, "", id="closed"),
        pytest.param(read_and(http_reply(502)), 240.0, "502", id="finds no host"),
        pytest.param(read_and(OK + b"x: y", then="stall"), 0.3, "no connection within the time limit", id="stalled"),
        pytest.param(read_and(then="stall"), 0.3, "no connection within the time limit", id="silent"),
        pytest.param(repeating(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05), 0.3, "", id="interim replies"),
        # Airflow's oldest Python skips them, until the deadline.
        pytest.param(repeating(OK, b"x: y\r\n" * 1000, 0.0), 0.3, "", id="endless headers"),
        pytest.param(
            read_and(OK + b"x: " + b"y" * 120_000),
            240.0,
            "",
            id="too large header",
        ),
        pytest.param(read_and(OK + b"\r\njunkjunkjunk"), 240.0, "", id="no TLS behind the tunnel"),
        pytest.param(read_and(OK + b"\r\n", then="stall"), 0.3, "", id="silent behind the tunnel"),
    ],
)
def test_request_for_which_a_proxy_opens_no_tunnel_is_known_to_be_unsent(
    opened: Open, serve: Callable[[Peer], None], limit: float, detail: str
) -> None:
    with Loopback(serve) as proxy:
        error = failure_of(opened(through(proxy.base, limit=limit)), write(SERVICE))
        assert proxy.accepted == 1
    assert error.failure in (Failure.NOT_SENT_BY_PROXY, Failure.TLS)
    assert not error.sent
    assert detail in error.detail


def test_request_lost_in_a_tunnel_may_have_been_sent(opened: Open, certificate: Path) -> None:
    seen: list[bytes] = []

    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(OK + b"\r\n")
        with server_side(certificate).wrap_socket(peer.socket, server_side=True) as service:
            seen.append(service.recv(65536))

    with Loopback(serve) as proxy:
        error = failure_of(opened(through(proxy.base, verify=str(certificate))), write("https://127.0.0.1:1"))
    assert (error.failure, error.sent) == (Failure.BROKEN, True)
    assert seen[0].startswith(b"POST / ")


def test_refused_connection_is_described_by_the_system(opened: Open) -> None:
    error = failure_of(opened(PATIENT), ask(f"http://127.0.0.1:{closed_port()}"))
    assert (error.failure, error.detail) == (Failure.NOT_SENT, "ConnectionRefusedError: Connection refused")


@pytest.mark.parametrize("service", ["http://service.invalid", SERVICE])
@pytest.mark.parametrize("source", ["the connection", "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY"])
def test_proxy_that_is_down_is_named_without_its_credentials_and_who_chose_it(
    opened: Open, monkeypatch: pytest.MonkeyPatch, service: str, source: str
) -> None:
    address = f"127.0.0.1:{closed_port()}"
    proxies = dict.fromkeys(("http", "https"), f"http://me:s3cr3t@{address}")
    if source != "the connection":
        monkeypatch.delenv("no_proxy", raising=False)
        for scheme in proxies:
            monkeypatch.setenv(f"{scheme}_proxy", proxies[scheme])
        proxies = {}
    error = failure_of(opened(replace(PATIENT, proxies=proxies)), write(service))
    assert (error.failure, error.sent) == (Failure.NOT_SENT_BY_PROXY, False)
    said = f"ConnectionRefusedError: Connection refused (the proxy {address}, which {source} names)"
    assert error.detail == said


def test_socks_proxy_of_the_environment_is_said_to_be_unsupported(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("all_proxy", "socks5h://me:s3cr3t@proxy.example:1080")
    error = failure_of(opened(PATIENT), ask(SERVICE))
    assert error.failure is Failure.CONFIGURATION
    assert error.detail.startswith("a SOCKS proxy is not supported (the proxy proxy.example:1080, which")


def test_each_address_of_a_host_has_what_is_left_of_the_time(
    opened: Open, monkeypatch: pytest.MonkeyPatch, clock: MovedClock
) -> None:
    limits: list[float] = []
    addresses = socket.getaddrinfo

    def three(host: str, *_: object, **__: object) -> Any:
        found = addresses("127.0.0.1", 9, type=socket.SOCK_STREAM)
        return found * 3 if host == "service.invalid" else found

    def connect(new: socket.socket, _: object) -> None:
        limits.append(new.gettimeout() or 0.0)
        clock.ahead += 300
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", three)
    monkeypatch.setattr(socket.socket, "connect", connect)
    # 480 seconds in all, of which at most 240 for a connection.
    assert failure_of(opened(PATIENT), ask("http://service.invalid")).failure is Failure.NOT_SENT
    assert len(limits) == 2
    assert limits[0] == pytest.approx(240, abs=1)
    assert limits[1] <= 180


def test_connection_not_made_in_time_is_given_up(opened: Open) -> None:
    send = opened(QUICK_CONNECT)
    with deaf_port() as port, Loopback(lambda peer: peer.pause()) as silent:
        for base in (f"http://127.0.0.1:{port}", silent.base.replace("http", "https")):
            error = failure_of(send, ask(base))
            assert (error.failure, error.detail) == (Failure.NOT_SENT, "no connection within the time limit")


def test_tls_to_a_plain_port_is_an_error_of_tls(opened: Open) -> None:
    def serve(peer: Peer) -> None:
        peer.socket.recv(1000)
        peer.send(http_reply(400))

    with Loopback(serve) as server:
        error = failure_of(opened(PATIENT), ask(server.base.replace("http", "https")))
    assert (error.failure, error.sent) == (Failure.TLS, False)


def test_plain_http_to_a_tls_port_is_a_broken_reply(opened: Open, certificate: Path) -> None:
    with Loopback(answering(http_reply()), certificate) as server:
        error = failure_of(opened(PATIENT), ask(server.base.replace("https", "http")))
    assert error.failure is Failure.BROKEN


AUTHORITY = make_certificate("authority")
OTHER_AUTHORITY = make_certificate("other authority")
NODE = make_certificate("node", AUTHORITY)
EXPIRED = make_certificate("node", AUTHORITY, expired=True)


# The certificates are for the address alone.
REFUSED_CERTIFICATES = {
    "no authority is given": (NODE, None, "127.0.0.1"),
    "of another authority": (NODE, OTHER_AUTHORITY, "127.0.0.1"),
    "for another name": (NODE, AUTHORITY, "localhost"),
    "expired": (EXPIRED, AUTHORITY, "127.0.0.1"),
}


@pytest.mark.parametrize("fault", REFUSED_CERTIFICATES)
@pytest.mark.parametrize("way", ["straight", "tunnel", "proxy"])
def test_refused_certificate_ends_the_request_unsent(opened: Open, tmp_path: Path, fault: str, way: str) -> None:
    shown, trusted, host = REFUSED_CERTIFICATES[fault]
    server_file, authority = tmp_path / "server.pem", tmp_path / "authority.pem"
    server_file.write_bytes(shown.key_pem + shown.pem)
    if trusted:
        authority.write_bytes(trusted.pem)

    def tunnel(peer: Peer) -> None:
        peer.request()
        peer.send(OK + b"\r\n")
        server_side(server_file).wrap_socket(peer.socket, server_side=True).close()

    verify = str(authority) if trusted else True
    with Loopback(tunnel) if way == "tunnel" else Loopback(answering(http_reply()), server_file) as server:
        if way == "straight":
            error = failure_of(opened(replace(PATIENT, verify=verify)), write(f"https://{host}:{server.port}"))
        else:
            proxy = f"{'https' if way == 'proxy' else 'http'}://{host}:{server.port}"
            error = failure_of(opened(through(proxy, verify=verify)), write(f"https://{host}:1"))
        assert server.accepted == 1
    assert (error.failure, error.sent) == (Failure.UNTRUSTED, False)
    assert "certificate" in error.detail


@pytest.mark.parametrize("base", ["http://[::1", "ftp://127.0.0.1", "http://"])
def test_address_that_is_none_is_an_error_of_configuration(opened: Open, base: str) -> None:
    error = failure_of(opened(PATIENT), ask(base))
    assert (error.failure, error.sent) == (Failure.CONFIGURATION, False)


@pytest.mark.parametrize(
    "proxy",
    [
        "http://me:s3cr3t@host:port",
        "socks9://me:s3cr3t@host:1080",
        "http://me:s3cr3t%E2%82%AC@127.0.0.1:{port}",
        "http://me:s3cr3t%ff@127.0.0.1:{port}",
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proxy_that_cannot_be_used_is_an_error_of_configuration(
    opened: Open, monkeypatch: pytest.MonkeyPatch, proxy: str, scheme: str
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    with Loopback(read_and()) as server:
        monkeypatch.setenv(f"{scheme}_proxy", proxy.format(port=server.port))
        error = failure_of(opened(PATIENT), ask(f"{scheme}://service.invalid"))
        assert server.accepted == 0
    assert (error.failure, error.sent) == (Failure.CONFIGURATION, False)
    assert "s3cr3t" not in error.detail


def test_certificates_of_the_environment_that_are_missing_are_an_error_of_configuration(
    opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "missing.pem"))
    send = opened(PATIENT)
    error = failure_of(send, ask(f"https://127.0.0.1:{closed_port()}"))
    assert (error.failure, error.sent) == (Failure.CONFIGURATION, False)
    assert "REQUESTS_CA_BUNDLE" in error.detail
    # They are not needed without TLS.
    with Loopback(answering(http_reply(200, b"plain"))) as server:
        assert send(ask(server.base)).body == b"plain"


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (requests.exceptions.ConnectTimeout("slow"), Failure.NOT_SENT),
        (requests.exceptions.ConnectionError("broken"), Failure.BROKEN),
        (requests.exceptions.ReadTimeout("slow"), Failure.TIMEOUT),
        (requests.exceptions.InvalidProxyURL("proxy"), Failure.CONFIGURATION),
        (urllib3.exceptions.ProtocolError("cut"), Failure.BROKEN),
        (ValueError("no integer"), Failure.BROKEN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_error_of_requests_counts_by_its_type(requests_mock: Mocker, error: Exception, failure: Failure) -> None:
    requests_mock.get("http://service.invalid/path", exc=error)
    with Transport(PATIENT) as transport:
        assert failure_of(transport.send, ask("http://service.invalid")).failure is failure


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize(
    ("method", "first"),
    [
        pytest.param("GET", http_reply(200, b"first") + ANOTHER[:30], id="the begin of one"),
        pytest.param("GET", http_reply(200, b"first") + ANOTHER * 2_000, id="more than is received at once"),
        pytest.param("HEAD", http_reply(200, b"body"), id="body of a reply to HEAD"),
    ],
)
def test_bytes_behind_a_reply_are_not_the_reply_to_the_next_request(
    opened: Open, certificate: Path, method: str, first: bytes, *, is_tls: bool
) -> None:
    with Loopback(answering(first, http_reply(200, b"second")), certificate if is_tls else None) as server:
        send = opened(replace(PATIENT, verify=str(certificate)))
        assert send(Request(method, "/", base=server.base)).body in (b"first", b"")
        assert [send(write(server.base)).body for _ in range(2)] == [b"second"] * 2


def test_final_reply_that_follows_an_interim_one_is_not_the_reply_to_the_next_request(opened: Open) -> None:
    asked_again = threading.Event()

    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        asked_again.wait(240)
        peer.send(ANOTHER)

    with Loopback(serve) as server:
        send = opened(PATIENT)
        assert failure_of(send, write(server.base)).failure is Failure.BROKEN
        asked_again.set()
        assert failure_of(send, write(server.base)).failure is Failure.BROKEN
        assert server.accepted == 2


@pytest.mark.parametrize("status", [200, 302, 500])
def test_reply_of_any_status_that_inflates_costs_little_memory(opened: Open, status: int) -> None:
    compressor = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    bomb = b"".join(compressor.compress(b"0" * 1_000_000) for _ in range(50)) + compressor.flush()
    with Loopback(answering(http_reply(status, bomb, content_encoding="gzip", location="/there"))) as server:
        send = opened(PATIENT)
        tracemalloc.start()
        try:
            error = failure_of(send, Request("GET", "/", base=server.base, max_bytes=1_000_000))
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert error.failure is Failure.TOO_LARGE
    assert peak_bytes < 20_000_000


def test_large_reply_is_limited_by_the_connection(opened: Open) -> None:
    with Loopback(answering(http_reply(200, b"x" * 3000))) as server:
        large = Request("GET", "/", base=server.base, max_bytes=None)
        assert len(opened(replace(PATIENT, max_large_reply_bytes=3000))(large).body) == 3000
        error = failure_of(opened(replace(PATIENT, max_large_reply_bytes=2999)), large)
    assert error.failure is Failure.TOO_LARGE


def test_each_request_has_the_whole_time_and_may_ask_for_more(opened: Open, clock: MovedClock) -> None:
    late = [0.4 * PAST_THE_DEADLINE] * 5 + [2 * PAST_THE_DEADLINE]

    def serve(peer: Peer) -> None:
        while peer.request():
            clock.ahead += late.pop(0)
            peer.send(http_reply(200, b"x"))

    with Loopback(serve) as server:
        send = opened(TransportSettings(connect_timeout=240.0, read_timeout=PAST_THE_DEADLINE))
        assert [send(ask(server.base)).body for _ in range(5)] == [b"x"] * 5
        assert send(replace(ask(server.base), read_timeout=3 * PAST_THE_DEADLINE)).body == b"x"
        assert server.accepted == 1
