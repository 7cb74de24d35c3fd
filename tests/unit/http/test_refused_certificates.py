"""A certificate that is refused: one try, and an error that no retry follows, over both transports and any way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Failure, Request
from tests.certificates import Certificate, make_certificate
from tests.unit.conversations import replay
from tests.unit.http.sending import PATIENT, failure_of
from tests.unit.http.tunnels import OK, server_side, through
from tests.unit.loopback import Loopback, answering, http_reply

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.http.sending import Open
    from tests.unit.loopback import Peer

AUTHORITY = make_certificate("authority")
OTHER_AUTHORITY = make_certificate("other authority")
GOOD = make_certificate("node", AUTHORITY)
EXPIRED = make_certificate("node", AUTHORITY, expired=True)
# The certificates are for the address alone.
FAULTS = {
    "no authority is given": (GOOD, None, "127.0.0.1"),
    "of another authority": (GOOD, OTHER_AUTHORITY, "127.0.0.1"),
    "for another name": (GOOD, AUTHORITY, "localhost"),
    "expired": (EXPIRED, AUTHORITY, "127.0.0.1"),
}


def files(folder: Path, shown: Certificate, trusted: Certificate | None) -> tuple[Path, bool | str]:
    """Write what the server shows, and what the client trusts."""
    server, authority = folder / "server.pem", folder / "authority.pem"
    server.write_bytes(shown.key_pem + shown.pem)
    if trusted is None:
        return server, True
    authority.write_bytes(trusted.pem)
    return server, str(authority)


@pytest.mark.parametrize("proxied", [False, True], ids=["straight", "through a proxy"])
@pytest.mark.parametrize("fault", FAULTS)
def test_it_is_tried_once(opened: Open, tmp_path: Path, fault: str, *, proxied: bool) -> None:
    shown, trusted, host = FAULTS[fault]
    server_file, verify = files(tmp_path, shown, trusted)

    def tunnel(peer: Peer) -> None:
        peer.request()
        peer.send(OK + b"\r\n")
        server_side(server_file).wrap_socket(peer.socket, server_side=True).close()

    server = Loopback(tunnel) if proxied else Loopback(answering(http_reply()), server_file)
    with server:
        base = f"https://{host}:{1 if proxied else server.port}"
        settings = through(server.base, verify=verify) if proxied else replace(PATIENT, verify=verify)
        failure = failure_of(opened(settings), Request("GET", "/", base=base))
        assert server.accepted == 1

    assert failure.failure is Failure.UNTRUSTED
    client = Client((base,), ErrorRules(service="s"))
    # A second request would be one reply too few.
    with pytest.raises(InvalidConnectionError, match=r"Check the host, ca_cert and verify"):
        replay(client.ask(Call(Request("GET", "/"), lambda reply: reply)), [failure])


def test_a_proxy_s_own_certificate_is_checked_too(opened: Open, tmp_path: Path) -> None:
    server_file, verify = files(tmp_path, GOOD, OTHER_AUTHORITY)
    with Loopback(lambda peer: peer.pause(), server_file) as proxy:
        failure = failure_of(
            opened(through(proxy.base, verify=verify)), Request("GET", "/", base="https://127.0.0.1:1")
        )
        assert proxy.accepted == 1
    assert failure.failure is Failure.UNTRUSTED
