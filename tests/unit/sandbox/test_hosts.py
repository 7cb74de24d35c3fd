"""The sandbox answers to its own host names only, so that no web page reaches it under another one."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from airflow_provider_mediaops.sandbox.app import create_app
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import SandboxState

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


def ask(server: SandboxServer, *hosts: str, path: str = "/_sandbox/requests") -> tuple[int, str]:
    """Ask the server, with these ``Host`` headers."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=240)
    try:
        connection.putrequest("GET", path, skip_host=True)
        for host in hosts:
            connection.putheader("Host", host.replace("PORT", str(address.port)))
        connection.endheaders()
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["127.0.0.1:PORT", "localhost:PORT", "LocalHost:PORT", "[::1]:PORT"])
def test_its_own_names_are_served(server: SandboxServer, host: str) -> None:
    assert ask(server, host)[0] == 200


@pytest.mark.parametrize(
    ("host", "path"),
    [
        *(
            (host, "/_sandbox/requests")
            for host in ("evil.example", "evil.example:PORT", "localhost", "localhost:1", "")
        ),
        *((host, "/_sandbox/requests") for host in ("127.0.0.1.evil.example:PORT", "localhost.:PORT")),
        *(("evil.example", path) for path in ("/docs", "/books/pro/key", "/video/oauth2/token")),
    ],
)
def test_any_other_is_refused_in_words(server: SandboxServer, host: str, path: str) -> None:
    recorded = len(server.state.requests)
    status, text = ask(server, host, path=path)

    assert status == 421
    assert f"answers as {server.url.removeprefix('http://')}, localhost:" in text
    assert "--host" in text
    assert len(server.state.requests) == recorded


@pytest.mark.parametrize("hosts", [(), ("127.0.0.1:PORT", "evil.example")])
def test_a_request_names_one_host(server: SandboxServer, hosts: tuple[str, ...]) -> None:
    assert ask(server, *hosts)[0] == 400


async def test_the_name_on_which_it_listens_is_its_own() -> None:
    app = create_app(SandboxState(), host="Sandbox.Test")

    async def status(url: str) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            return (await client.get(f"{url}/docs")).status_code

    # A server on the port of HTTP is addressed without it.
    for host in ("sandbox.test:8900", "sandbox.test", "localhost:8900"):
        assert await status(f"http://{host}") == 200
    assert await status("http://other.test:8900") == 421
