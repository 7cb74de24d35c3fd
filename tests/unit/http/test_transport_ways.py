"""The ways to a service: certificates to trust, and proxies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.exchange import Failure, Request
from tests.unit.http.sending import PATIENT, ask, failure_of
from tests.unit.http.tunnels import through
from tests.unit.loopback import Loopback, answering, closed_port, http_reply

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.http.sending import Open


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


def test_a_proxy_is_sent_the_whole_address(opened: Open) -> None:
    seen: list[bytes] = []
    with Loopback(answering(http_reply(), seen=seen)) as proxy:
        send = opened(through(proxy.base))
        for _ in range(2):
            send(Request("GET", "/a%2Fb", params=(("q", "1 2"),), base="http://service.invalid"))
        assert proxy.accepted == 1
    assert [head.partition(b"\r\n")[0] for head in seen] == [b"GET http://service.invalid/a%2Fb?q=1%202 HTTP/1.1"] * 2
