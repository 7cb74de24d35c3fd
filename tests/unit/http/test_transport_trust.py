from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.exchange import Failure, Request
from tests.unit.http.sending import PATIENT, QUICK_CONNECT, ask, failure_of, read_and
from tests.unit.loopback import Loopback, answering, closed_port, http_reply

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.http.sending import Open
    from tests.unit.loopback import Peer


def test_a_handshake_that_is_not_made_in_time(opened: Open) -> None:
    with Loopback(lambda peer: peer.pause()) as server:
        error = failure_of(opened(QUICK_CONNECT), ask(server.base.replace("http", "https")))
    assert (error.failure, error.detail) == (Failure.NOT_SENT, "no connection within the time limit")


def test_tls_to_a_plain_port(opened: Open) -> None:
    def serve(peer: Peer) -> None:
        peer.socket.recv(1000)
        peer.send(http_reply(400))

    with Loopback(serve) as server:
        error = failure_of(opened(PATIENT), ask(server.base.replace("http", "https")))
    assert error.failure is Failure.TLS
    assert not error.sent


def test_plain_http_to_a_tls_port(opened: Open, certificate: Path) -> None:
    with Loopback(answering(http_reply()), certificate) as server:
        error = failure_of(opened(PATIENT), ask(server.base.replace("https", "http")))
    assert error.failure is Failure.BROKEN


def test_a_certificate_that_is_not_trusted(opened: Open, certificate: Path) -> None:
    with Loopback(answering(http_reply()), certificate) as server:
        error = failure_of(opened(PATIENT), ask(server.base))
    assert error.failure is Failure.UNTRUSTED
    assert not error.sent
    assert "self-signed certificate" in error.detail


@pytest.mark.parametrize("in_environment", [False, True])
def test_a_certificate_that_the_connection_trusts(
    opened: Open, certificate: Path, monkeypatch: pytest.MonkeyPatch, *, in_environment: bool
) -> None:
    # requests lets these variables override what is set on a session.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate) if in_environment else "/no/such/file")
    verify = True if in_environment else str(certificate)
    with Loopback(answering(http_reply(200, b"hello")), certificate) as server:
        assert opened(replace(PATIENT, verify=verify))(ask(server.base)).body == b"hello"


def test_certificates_are_not_checked_where_that_is_asked(
    opened: Open, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/file")
    # requests-based clients warn of each such request; here it is on purpose.
    monkeypatch.setattr("urllib3.connectionpool.warnings.warn", lambda *_, **__: None)
    with Loopback(answering(http_reply(200, b"hello")), certificate) as server:
        assert opened(replace(PATIENT, verify=False))(ask(server.base)).body == b"hello"


def test_a_folder_of_certificates_can_be_trusted(opened: Open, tmp_path: Path, certificate: Path) -> None:
    with Loopback(answering(http_reply()), certificate) as server:
        error = failure_of(opened(replace(PATIENT, verify=str(tmp_path))), ask(server.base))
    assert error.failure is Failure.UNTRUSTED


def test_tls_that_breaks_after_the_request_is_no_proof_that_nothing_was_sent(opened: Open, certificate: Path) -> None:
    def serve(peer: Peer) -> None:
        peer.request()
        peer.send_below_tls(b"\x17\x03\x03\x00\x20" + b"garbage, not encrypted by anyone")

    with Loopback(serve, certificate) as server:
        send = opened(replace(PATIENT, verify=str(certificate)))
        error = failure_of(send, Request("POST", "/", base=server.base, body=b"{}"))
    assert error.failure is Failure.BROKEN
    assert error.sent


def test_a_proxy_of_the_connection_goes_before_those_of_the_environment(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("no_proxy", "service.invalid")
    seen: list[bytes] = []
    with Loopback(answering(http_reply(200, b"by proxy"), seen=seen)) as proxy:
        response = opened(replace(PATIENT, proxies={"http": proxy.base}))(ask("http://service.invalid"))
    assert response.body == b"by proxy"
    assert seen[0].startswith(b"GET http://service.invalid/path?part=id&key=")


def test_a_proxy_of_the_environment_is_used(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback(answering(http_reply(200, b"by proxy"))) as proxy:
        monkeypatch.setenv("http_proxy", proxy.base)
        monkeypatch.delenv("no_proxy", raising=False)
        assert opened(PATIENT)(ask("http://service.invalid")).body == b"by proxy"


def test_each_host_has_a_way_of_its_own(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with (
        Loopback(answering(http_reply(200, b"by proxy"))) as proxy,
        Loopback(answering(http_reply(200, b"straight"))) as server,
    ):
        monkeypatch.setenv("http_proxy", proxy.base)
        send = opened(PATIENT)
        bodies = [send(ask(base)).body for _ in range(2) for base in ("http://service.invalid", server.base)]
        assert (proxy.accepted, server.accepted) == (1, 1)
    assert bodies == [b"by proxy", b"straight"] * 2


def test_a_proxy_that_refuses_the_connection(opened: Open) -> None:
    settings = replace(PATIENT, proxies={"http": f"http://127.0.0.1:{closed_port()}"})
    error = failure_of(opened(settings), ask("http://service.invalid"))
    assert (error.failure, error.detail) == (Failure.NOT_SENT, "ConnectionRefusedError: Connection refused")


def test_a_proxy_that_does_not_let_through(opened: Open) -> None:
    with Loopback(answering(http_reply(407))) as proxy:
        error = failure_of(opened(replace(PATIENT, proxies={"https": proxy.base})), ask("https://service.invalid"))
    assert error.failure is Failure.NOT_SENT
    assert "407" in error.detail


def test_a_proxy_that_breaks_off_may_have_passed_the_request_on(opened: Open) -> None:
    with Loopback(read_and()) as proxy:
        error = failure_of(opened(replace(PATIENT, proxies={"http": proxy.base})), ask("http://service.invalid"))
    assert error.failure is Failure.BROKEN
    assert error.sent
