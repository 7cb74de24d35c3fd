"""A fault on the way to the service, before the request itself is sent, never counts as a request that was sent."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import ConnectionFailedError, InvalidConnectionError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Failure, Request
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.http.runner import run
from airflow_provider_mediaops.http.transport import Transport
from tests.unit.http.sending import PATIENT, ask, failure_of, read_and
from tests.unit.http.tunnels import OK, server_side, through
from tests.unit.loopback import Loopback, answering, closed_port, http_reply

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.http.sending import Open, Send
    from tests.unit.loopback import Peer

SERVICE = "https://service.invalid"
WRITE = Request("POST", "/bulletins", base=SERVICE, body=b"{}", idempotent=False)


def post(send: Send, base: str) -> object:
    client = Client((base,), ErrorRules("service"), retry=RetryPolicy(max_attempts=2, max_wait=1.0, base_seconds=0.001))
    call = Call(Request("POST", "/bulletins", body=b"{}", idempotent=False), lambda reply: reply)
    return run(client.ask(call), send, lambda _: None)


def repeating(head: bytes, part: bytes, seconds: float) -> Callable[[Peer], None]:
    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(head)
        while not peer.stopping.is_set():
            peer.send(part)
            peer.pause(seconds)

    return serve


ANSWERS_TO_CONNECT = [
    pytest.param(read_and(), id="closed"),
    pytest.param(read_and(b"\0\1\2\r\n\r\n"), id="no HTTP"),
    pytest.param(read_and(then="reset"), id="reset"),
    pytest.param(read_and(OK + b"x: y", then="stall"), id="stalled"),
    pytest.param(read_and(then="stall"), id="silent"),
    pytest.param(repeating(OK + b"x-slow: ", b"x", 0.05), id="trickling"),
    pytest.param(repeating(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05), id="interim replies"),
    pytest.param(repeating(OK, b"x: y\r\n" * 1000, 0.0), id="endless headers"),
    pytest.param(read_and(OK + b"\r\njunkjunkjunk"), id="no TLS behind the tunnel"),
    pytest.param(read_and(OK + b"\r\n", then="stall"), id="silent behind the tunnel"),
]


@pytest.mark.parametrize("serve", ANSWERS_TO_CONNECT)
def test_a_write_is_known_to_be_unsent_if_the_proxy_opens_no_tunnel(
    opened: Open, serve: Callable[[Peer], None]
) -> None:
    with Loopback(serve) as proxy:
        error = failure_of(opened(through(proxy.base, limit=0.3)), WRITE)
    assert error.failure in (Failure.NOT_SENT, Failure.TLS)
    assert not error.sent


def test_a_write_is_tried_again_if_the_proxy_opens_no_tunnel(opened: Open) -> None:
    with Loopback(read_and()) as proxy:
        send = opened(through(proxy.base))
        with pytest.raises(ConnectionFailedError):
            post(send, SERVICE)
        assert proxy.accepted == 2


def test_a_write_that_went_through_the_tunnel_may_have_been_sent(opened: Open, certificate: Path) -> None:
    seen: list[bytes] = []

    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(OK + b"\r\n")
        with server_side(certificate).wrap_socket(peer.socket, server_side=True) as service:
            seen.append(service.recv(65536))

    with Loopback(serve) as proxy:
        request = Request("POST", "/", base="https://127.0.0.1:1", body=b"{}")
        error = failure_of(opened(through(proxy.base, verify=str(certificate))), request)
    assert (error.failure, error.sent) == (Failure.BROKEN, True)
    assert seen[0].startswith(b"POST / ")


def test_the_certificate_behind_a_tunnel_is_checked(opened: Open, certificate: Path) -> None:
    def serve(peer: Peer) -> None:
        peer.request()
        peer.send(OK + b"\r\n")
        server_side(certificate).wrap_socket(peer.socket, server_side=True).close()

    with Loopback(serve) as proxy:
        error = failure_of(opened(through(proxy.base)), Request("POST", "/", base="https://127.0.0.1:1", body=b"{}"))
    assert error.failure is Failure.UNTRUSTED


def test_a_proxy_is_sent_the_whole_address(opened: Open) -> None:
    seen: list[bytes] = []
    with Loopback(answering(http_reply(), seen=seen)) as proxy:
        send = opened(through(proxy.base))
        for _ in range(2):
            send(Request("GET", "/a%2Fb", params=(("q", "1 2"),), base="http://service.invalid"))
        assert proxy.accepted == 1
    assert [head.partition(b"\r\n")[0] for head in seen] == [b"GET http://service.invalid/a%2Fb?q=1+2 HTTP/1.1"] * 2


def test_too_many_headers_of_a_proxy_are_described(opened: Open) -> None:
    with Loopback(repeating(OK, b"x: y\r\n" * 1000, 0.0)) as proxy:
        error = failure_of(opened(through(proxy.base)), WRITE)
    assert (error.failure, error.detail) == (Failure.NOT_SENT, "the headers of the proxy's reply are too large")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("password", ["s3cr3t%E2%82%AC", "s3cr3t%ff"])
def test_credentials_of_a_proxy_that_requests_cannot_send_are_an_error_of_configuration(
    monkeypatch: pytest.MonkeyPatch, scheme: str, password: str
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    with Loopback(read_and()) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://me:{password}@127.0.0.1:{proxy.port}")
        with (
            Transport(PATIENT) as transport,
            pytest.raises(InvalidConnectionError, match="Nothing was sent") as caught,
        ):
            post(transport.send, f"{scheme}://service.invalid")
        assert proxy.accepted == 0
    assert "s3cr3t" not in str(caught.value)


def test_a_host_whose_addresses_all_refuse_is_described_by_the_system(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def two_addresses(host: str | bytes, *arguments: object, **named: object) -> list[object]:
        if host not in ("service.invalid", b"service.invalid"):
            return real(host, *arguments, **named)  # type: ignore[arg-type, return-value]
        return [found for each in ("127.0.0.1", "127.0.0.2") for found in real(each, *arguments, **named)]  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    error = failure_of(opened(PATIENT), ask(f"http://service.invalid:{closed_port()}"))
    assert (error.failure, error.detail) == (Failure.NOT_SENT, "ConnectionRefusedError: Connection refused")
