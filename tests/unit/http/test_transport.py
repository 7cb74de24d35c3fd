from __future__ import annotations

import gzip
import logging
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from airflow_provider_mediaops.http.exchange import Failure, Request
from airflow_provider_mediaops.http.transport import Transport
from tests.unit.http.sending import PATIENT, ask, failure_of, read_and
from tests.unit.loopback import Loopback, answering, closed_port, http_reply

if TYPE_CHECKING:
    from tests.unit.http.sending import Open
    from tests.unit.loopback import Peer

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def test_process_forked_after_a_request_connects_anew() -> None:
    with Loopback(answering(http_reply())) as server, Transport(PATIENT) as transport:
        assert transport.send(ask(server.base)).status == 200
        child = os.fork()
        if not child:
            # It ends by the signal if it hangs, and without the tests' own end.
            signal.alarm(120)
            os._exit(0 if transport.send(ask(server.base)).status == 200 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert server.accepted == 2
        assert transport.send(ask(server.base)).status == 200
        assert server.accepted == 2


def test_a_reply_is_read_whole_and_a_request_sent_whole(opened: Open) -> None:
    seen: list[bytes] = []
    reply = http_reply(201, gzip.compress("größer".encode()), content_encoding="gzip", X_Thing="Value")
    with Loopback(answering(reply, seen=seen)) as server:
        request = Request("POST", "/v3", params=(("b", "x&y"),), body=b"{}", base=f"{server.base}/base")
        send = opened(replace(PATIENT, headers={"X-Team": "ops", "accept": "of/connection"}))
        response = send(replace(request, headers={"Accept": "of/request"}))
    assert (response.status, response.text, response.headers["x-thing"]) == (201, "größer", "Value")
    head, _, body = seen[0].partition(b"\r\n\r\n")
    target, *fields = head.lower().split(b"\r\n")
    assert (target, body) == (b"post /base/v3?b=x%26y http/1.1", b"{}")
    # A header of a request goes before one of the connection in any case.
    assert [field for field in fields if field.startswith(b"accept:")] == [b"accept: of/request"]
    assert {b"x-team: ops", b"accept-encoding: gzip"} <= set(fields)
    # Some services compress only for agents that say so.
    assert any(field.startswith(b"user-agent:") and b"(gzip)" in field for field in fields)


def test_a_reply_says_when_its_request_was_sent(opened: Open) -> None:
    received: list[float] = []

    def serve(peer: Peer) -> None:
        while peer.request():
            received.append(time.monotonic())
            peer.send(http_reply())

    with Loopback(serve) as server:
        send = opened(PATIENT)
        for _ in range(2):
            began = time.monotonic()
            response = send(Request("GET", "/", base=server.base))
            assert response.sent_at is not None
            assert began <= response.sent_at <= received[-1]


@pytest.mark.parametrize(
    ("path", "sent"),
    [("/a%2Fb,c", "/a%2Fb,c"), ("/a%2fb", "/a%2Fb"), ("/größe", "/gr%C3%B6%C3%9Fe"), ("/a b", "/a%20b"), ("", "/")],
)
def test_a_target_that_is_not_escaped_is_escaped(path: str, sent: str) -> None:
    seen: list[bytes] = []
    with Loopback(answering(http_reply(), seen=seen)) as server, Transport(PATIENT) as transport:
        transport.send(Request("GET", path, params=(("q", "1 2"),), base=server.base))
    assert seen[0].startswith(f"GET {sent}?q=1%202 HTTP/1.1\r\n".encode())


def test_a_redirect_is_not_followed(opened: Open) -> None:
    seen: list[bytes] = []
    with Loopback(answering(http_reply(200, b"secret place"))) as elsewhere:
        reply = http_reply(302, location=f"{elsewhere.base}/there")
        with Loopback(answering(reply, seen=seen)) as server:
            response = opened(PATIENT)(ask(server.base))
        assert elsewhere.accepted == 0
    assert (response.status, len(seen)) == (302, 1)


def test_no_cookie_is_kept(opened: Open) -> None:
    seen: list[bytes] = []
    reply = http_reply(200, set_cookie="route=node-7; Path=/")
    with Loopback(answering(reply, seen=seen)) as server:
        send = opened(PATIENT)
        for _ in range(2):
            send(ask(server.base))
    assert len(seen) == 2
    assert b"cookie" not in seen[1].lower()


def test_one_connection_serves_many_requests(opened: Open) -> None:
    compressed = http_reply(200, gzip.compress(b"x"), content_encoding="gzip")
    replies = [http_reply(200, b"one"), http_reply(404, b"two"), compressed]
    chunked = CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"
    with Loopback(answering(*replies, chunked)) as server:
        send = opened(PATIENT)
        bodies = [send(ask(server.base)).body for _ in range(12)]
        assert server.accepted == 1
    assert bodies == [b"one", b"two", b"x", *[b"abc"] * 9]


def test_a_netrc_file_does_not_replace_the_credentials(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    seen: list[bytes] = []
    with Loopback(answering(http_reply(), seen=seen)) as server:
        send = opened(PATIENT)
        send(Request("GET", "/", base=server.base, headers={"Authorization": "Bearer ours"}))
        send(Request("GET", "/", base=server.base))
    assert b"authorization: bearer ours\r\n" in seen[0].lower()
    assert b"authorization" not in seen[1].lower()


def test_no_credential_is_logged_or_told(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = http_reply(302, b"s3cr3t", location="/there?key=s3cr3t-k%E2%82%ACy%2F%2B&part=id")
    told: list[object] = []
    with Loopback(answering(http_reply(200), echo, b"HTTP/1.1 200 OK\r\nno header\r\n\r\n")) as server:
        send = opened(PATIENT)
        secret: dict[str, Any] = {"headers": {"Authorization": "Bearer s3cr3t"}, "body": b"s3cr3t"}
        requests_sent = [replace(ask(server.base, f"/{turn}"), **secret) for turn in range(3)]
        told += [send(sent) for sent in requests_sent[:2]]
        told.append(failure_of(send, Request("GET", "/", base=f"http://127.0.0.1:{closed_port()}")))
        told += requests_sent
        with Loopback(read_and(), None) as broken:
            told.append(failure_of(send, ask(broken.base)))
    everything = "\n".join([*(record.getMessage() for record in caplog.records), *map(repr, told)])
    assert "s3cr3t" not in everything


def test_urllib3_logs_the_requests_of_others(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Loopback(answering(http_reply())) as server:
        opened(PATIENT)(Request("GET", "/ours", base=server.base))
        requests.get(f"{server.base}/theirs", timeout=240)
    assert "/theirs" in caplog.text
    assert "/ours" not in caplog.text


def test_a_session_closed_during_a_request_still_gives_its_reply_and_serves_the_next() -> None:
    sent, closed, ended = threading.Event(), threading.Event(), threading.Event()

    def serve(peer: Peer) -> None:
        while peer.request():
            sent.set()
            closed.wait(240)
            peer.send(http_reply(200, b"whole"))
        ended.set()

    with Loopback(serve) as server, ThreadPoolExecutor() as pool:
        transport = Transport(PATIENT)
        under_way = pool.submit(transport.send, ask(server.base))
        assert sent.wait(240)
        transport.close()
        closed.set()
        assert under_way.result(240).body == b"whole"
        assert ended.wait(240)
        ended.clear()
        with transport:
            assert transport.send(ask(server.base)).body == b"whole"
            assert not ended.is_set()
        assert ended.wait(240)


# Certificates to trust, and proxies.


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


def test_a_proxy_of_the_connection_goes_before_those_of_the_environment_and_is_sent_the_whole_address(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("no_proxy", "service.invalid")
    seen: list[bytes] = []
    with Loopback(answering(http_reply(200, b"by proxy"), seen=seen)) as proxy:
        send = opened(replace(PATIENT, proxies={"http": proxy.base}))
        for _ in range(2):
            request = Request("GET", "/a%2Fb", params=(("q", "1 2"),), base="http://service.invalid")
            assert send(request).body == b"by proxy"
        assert proxy.accepted == 1
    assert [head.partition(b"\r\n")[0] for head in seen] == [b"GET http://service.invalid/a%2Fb?q=1%202 HTTP/1.1"] * 2


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
