"""Which failures are known to come before anything was sent, and which are not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import requests
import urllib3.exceptions

from airflow_provider_mediaops.exceptions import InvalidConnectionError, UncertainDeliveryError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Failure, Request, Response
from airflow_provider_mediaops.http.runner import run
from tests.unit.http.sending import PATIENT, ask, failure_of, read_and
from tests.unit.loopback import Loopback, answering, closed_port, http_reply

if TYPE_CHECKING:
    from pathlib import Path

    from requests_mock import Mocker

    from tests.unit.http.sending import Open, Send
    from tests.unit.loopback import Peer

POST = Request("POST", "/bulletins", body=b"{}", idempotent=False)


def post(send: Send, base: str) -> Response:
    return run(Client((base,), ErrorRules("service")).ask(Call(POST, lambda reply: reply)), send, lambda _: None)


@pytest.mark.parametrize("location", [b"/\xff\xfe", b"http://[::1", b"//\xe2\x98\x83.invalid:port/"])
def test_a_write_is_sent_once_whatever_a_redirect_says(opened: Open, location: bytes) -> None:
    seen: list[bytes] = []
    reply = b"HTTP/1.1 303 See Other\r\ncontent-length: 0\r\nlocation: " + location + b"\r\n\r\n"
    with Loopback(answering(reply, seen=seen)) as server, pytest.raises(UncertainDeliveryError):
        post(opened(PATIENT), server.base)
    assert len(seen) == 1


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 2OO OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"\xff\xfe\xfd\r\n\r\n",
    ],
)
def test_a_reply_that_cannot_be_read_was_asked_for(opened: Open, reply: bytes) -> None:
    seen: list[bytes] = []

    def serve(peer: Peer) -> None:
        seen.append(peer.request())
        peer.send(reply)

    with Loopback(serve) as server:
        try:
            opened(PATIENT)(Request("POST", "/", base=server.base, body=b"{}"))
        except Exception as error:  # noqa: BLE001 some of these a library reads as an empty reply
            assert getattr(error, "sent", False), error  # noqa: PT017
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (requests.exceptions.ConnectTimeout("slow"), Failure.NOT_SENT),
        (requests.exceptions.ConnectionError("broken"), Failure.BROKEN),
        (requests.exceptions.SSLError("tls"), Failure.BROKEN),
        (requests.exceptions.ProxyError("proxy"), Failure.BROKEN),
        (requests.exceptions.ReadTimeout("slow"), Failure.TIMEOUT),
        (requests.exceptions.ChunkedEncodingError("cut"), Failure.BROKEN),
        (requests.exceptions.InvalidHeader("two lengths"), Failure.BROKEN),
        (requests.exceptions.InvalidProxyURL("proxy"), Failure.CONFIGURATION),
        (requests.exceptions.InvalidSchema("socks"), Failure.CONFIGURATION),
        (urllib3.exceptions.ProtocolError("cut"), Failure.BROKEN),
        (urllib3.exceptions.DecodeError("gzip"), Failure.BROKEN),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), Failure.BROKEN),
        (ValueError("no integer"), Failure.BROKEN),
        (OSError("?"), Failure.BROKEN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_requests_count_by_their_type(requests_mock: Mocker, error: Exception, failure: Failure) -> None:
    from airflow_provider_mediaops.http.transport import Transport

    requests_mock.get("http://service.invalid/path", exc=error)
    with Transport(PATIENT) as transport:
        assert failure_of(transport.send, ask("http://service.invalid")).failure is failure


def test_certificates_of_the_environment_that_are_missing_are_an_error_of_configuration(
    opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing.pem")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", missing)
    send = opened(PATIENT)
    with pytest.raises(InvalidConnectionError, match="REQUESTS_CA_BUNDLE"):
        post(send, f"https://127.0.0.1:{closed_port()}")
    # They are not needed without TLS.
    with Loopback(answering(http_reply(200, b"plain"))) as server:
        assert send(ask(server.base)).body == b"plain"


@pytest.mark.parametrize("proxy", ["http://me:s3cr3t@host:port", "socks9://me:s3cr3t@host:1080"])
def test_a_proxy_that_cannot_be_used_is_an_error_of_configuration(
    opened: Open, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(InvalidConnectionError) as caught:
        post(opened(PATIENT), "http://service.invalid")
    assert "s3cr3t" not in str(caught.value)
    assert "Nothing was sent" in str(caught.value)


def test_a_certificate_that_is_refused_is_not_tried_again(opened: Open, certificate: Path) -> None:
    with Loopback(answering(http_reply()), certificate) as server:
        with pytest.raises(InvalidConnectionError, match="self-signed certificate"):
            post(opened(PATIENT), server.base)
        assert server.accepted == 1


def test_a_proxy_that_breaks_off_before_the_tunnel_is_told_from_a_lost_reply(opened: Open) -> None:
    with Loopback(read_and(http_reply(502))) as proxy:
        error = failure_of(opened(replace(PATIENT, proxies={"https": proxy.base})), ask("https://service.invalid"))
    assert (error.failure, error.detail.rpartition(" ")[2]) == (Failure.NOT_SENT, "502")
