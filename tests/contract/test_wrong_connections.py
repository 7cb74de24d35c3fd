"""The test of a connection with a wrong value says what is wrong, and what to do."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from pkgutil import resolve_name
from typing import Any

import pytest

from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from airflow_provider_mediaops.sandbox.server import SandboxServer
from tests.unit.no_limit import NoLimit

_CLOSED = "http://127.0.0.1:9"
_REFRESHED = {"auth": "refresh_token", "refresh_token": "a wrong one"}
_ANOTHER_PLAN = "Either the base address is that of another plan than the key's"


def at(path: str) -> Callable[[str], dict[str, Any]]:
    return lambda url: {"host": f"{url}/{path}"}


#: The type, without the prefix of all; what is changed of a good connection, by its fields, or a function of the
#: sandbox's address (None removes a field); and what its test says, where an ellipsis stands for anything. The unit
#: tests of hooks have the fields whose errors need no service.
WRONG: dict[str, tuple[str, dict[str, Any] | Callable[[str], dict[str, Any]], str]] = {
    "nothing listens at the port": ("cluster", {"host": _CLOSED}, "refused. Check host and port"),
    "the name of the host is wrong": ("books", {"host": "https://nowhere.invalid"}, "Check host and port"),
    "https where the service speaks http": (
        "video",
        lambda url: {"host": url.replace("http", "https")},
        "and the scheme (http or https)",
    ),
    "a proxy that nobody serves": ("cluster", {"extra": {"proxies": _CLOSED}}, "Check the proxy's address"),
    "a wrong access token": (
        "video",
        {"password": "unheard-of"},
        "401 authError: … check the connection's password, or use auth=refresh",
    ),
    "a wrong API key of the platform": (
        "video",
        {"password": "another key", "extra": {"auth": "api_key"}},
        "400 badRequest: The API key is not valid. The access token or API key is missing, wrong or expired",
    ),
    "a wrong client id": (
        "video",
        lambda url: {"login": "unknown", "extra": {**_REFRESHED, "token_url": f"{url}/video/oauth2/token"}},
        "401 invalid_client: … Check the client id (Login) and client secret (Password) in the connection.",
    ),
    "the base address of the platform ends in /v3": ("video", at("video/v3"), "ends in /v3, … take /v3 off."),
    "a wrong path to the platform": ("video", at("nothing"), "404: Not Found. … it ends before /v3."),
    "a cluster in the place of the platform": ("video", at("cluster"), "A search cluster answers there: put"),
    "another kind_prefix": ("video", {"extra": {"kind_prefix": "youtube"}}, "answers with kinds … Write `svc`."),
    "a wrong password": (
        "cluster",
        {"password": "unheard-of"},
        "401 security_exception: unable … Check login and password",
    ),
    "a wrong API key of the cluster": (
        "cluster",
        {"password": "another key", "extra": {"auth": "api_key"}},
        "401 security_exception: … Check login and password (API key or token), and auth, in the connection.",
    ),
    "a password, but neither login nor auth": (
        "cluster",
        {"login": "", "extra": {"auth": None}},
        "field `auth`: … write api_key or bearer",
    ),
    "a user without the permissions": (
        "cluster",
        {"login": "sandbox-guest", "password": "sandbox-guest-password"},
        "may read neither … (cluster:monitor/nodes/stats) nor … give the connection's user a role with …",
    ),
    "the base address of the cluster ends in /_nodes": ("cluster", at("cluster/_nodes"), "take /_nodes off."),
    "a wrong path to the cluster": ("cluster", at("nothing"), "404: Not Found. … routes are not there."),
    "a platform in the place of the cluster": ("cluster", at("video"), "404 notFound: … routes are not there."),
    "a wrong key": ("books", {"password": "unheard-of"}, f"403: … {_ANOTHER_PLAN} … is wrong, or its daily"),
    "the base address of another plan": ("books", at("books/premium"), f"403: … is for premium. {_ANOTHER_PLAN}"),
    "a key that is not active": (
        "books",
        {"password": "sandbox-books-inactive-key"},
        "401: The key is not active. … host and plan.",
    ),
    "a wrong path to the database": ("books", at("nothing"), "404: … answers otherwise: check … base address"),
    "the base address of the database ends in /book": ("books", at("books/pro/book"), "404: … answers otherwise"),
    "canary_isbn has no record": (
        "books",
        {"extra": {"canary_isbn": "9791090648524"}},
        "404: … canary_isbn names this book as one that exists",
    ),
    "a platform in the place of the database": ("books", at("video"), "404 notFound: … canary_isbn names this"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        # All tests ask with one key, and on a fast machine more often in a second than it may.
        server.state.books_rate = NoLimit()
        yield server


@pytest.mark.parametrize("wrong", WRONG)
def test_of_a_connection_says_what_is_wrong(server: SandboxServer, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_name(host: str, *others: Any, **more: Any) -> Any:
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *others, **more)

    resolve = socket.getaddrinfo
    monkeypatch.setattr("socket.getaddrinfo", no_such_name)
    kind, change, says = WRONG[wrong]
    variable = f"AIRFLOW_CONN_MEDIAOPS_{kind.upper()}_DEFAULT"
    good = json.loads(server.connections()[variable])
    fields = change if isinstance(change, dict) else change(server.url)
    extra = {**good["extra"], **fields.get("extra", {})}
    extra = {name: value for name, value in extra.items() if value is not None}
    monkeypatch.setenv(variable, json.dumps({**good, **fields, "extra": extra}))

    hook = resolve_name(CONNECTION_TYPES[f"mediaops_{kind}"]["hook-class-name"])()
    works, answer = hook.test_connection()

    assert not works
    pieces = [re.escape(piece.strip().replace("`", "'")) for piece in says.split("…")]
    assert re.search(".*".join(pieces), answer), answer
