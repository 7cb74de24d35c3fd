from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.http.auth import (
    Auth,
    HeaderAuth,
    NoAuth,
    ParameterAuth,
    RefreshTokenAuth,
)
from airflow_provider_mediaops.http.exchange import Request, Response
from tests.unit.call_flows import FakeClock, ask_once, replay, requests_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Step

REQUEST = Request("GET", "/thing", params=(("part", "id"),), headers={"X-One": "1"}, base="http://host")


def granted(token: str, **more: Any) -> Response:
    return Response(200, {}, json.dumps({"access_token": token, "expires_in": 3599, **more}).encode())


def refresh_auth(fake: FakeClock | None = None, **more: Any) -> RefreshTokenAuth:
    settings: dict[str, Any] = {
        "token_url": "https://accounts.example/oauth2/token",
        "client_id": "client",
        "client_secret": "cs-secret",
        "refresh_token": "rt-secret",
        "clock": (fake or FakeClock()).clock,
    }
    return RefreshTokenAuth(**{**settings, **more})


def refresh(auth: RefreshTokenAuth, reply: Response) -> Request:
    """Prepare the credentials of a call; return the request that this needs."""
    assert not auth.ready
    steps: list[Step] = []
    replay(auth.prepare(ask_once), [reply], steps=steps)
    assert auth.ready
    (request,) = requests_of(steps)
    return request


def form_of(request: Request) -> dict[str, list[str]]:
    return parse_qs((request.body or b"").decode(), strict_parsing=True)


@pytest.mark.parametrize(
    ("auth", "header", "secrets"),
    [
        (HeaderAuth.raw("k-1"), "k-1", {"k-1"}),
        (HeaderAuth.bearer("t-1"), "Bearer t-1", {"t-1"}),
        (HeaderAuth.api_key("k-2"), "ApiKey k-2", {"k-2"}),
        (
            HeaderAuth.basic("me", "pä:ss"),
            "Basic " + base64.b64encode("me:pä:ss".encode()).decode(),
            {"pä:ss", base64.b64encode("me:pä:ss".encode()).decode()},
        ),
    ],
    ids=["raw", "bearer", "api key", "basic"],
)
def test_a_fixed_header(auth: HeaderAuth, header: str, secrets: set[str]) -> None:
    signed = auth.sign(REQUEST)
    assert signed.headers == {"X-One": "1", "Authorization": header}
    assert (signed.url, REQUEST.headers) == (REQUEST.url, {"X-One": "1"})
    assert set(auth.secrets) == secrets
    assert not any(secret in repr(auth) for secret in secrets)


def test_a_key_in_the_query_is_kept_apart() -> None:
    auth = ParameterAuth("s3cr3t")
    signed = auth.sign(REQUEST)
    assert signed.url == "http://host/thing?part=id&key=s3cr3t"
    assert auth.secrets == ("s3cr3t",)
    assert "s3cr3t" not in repr((auth, signed))


@pytest.mark.parametrize("auth", [NoAuth(), HeaderAuth.raw("k"), ParameterAuth("k")])
def test_fixed_credentials_need_nothing_first_and_cannot_be_renewed(auth: Auth) -> None:
    assert auth.ready
    assert auth.secrets == (() if isinstance(auth, NoAuth) else ("k",))
    replay(auth.prepare(ask_once), [])
    assert not auth.invalidate(auth.sign(REQUEST))


def test_an_access_token_is_fetched_and_used_until_it_runs_out() -> None:
    fake = FakeClock()
    auth = refresh_auth(fake, scopes="a b")
    request = refresh(auth, granted("at-1"))
    assert request.url == "https://accounts.example/oauth2/token"
    assert (request.method, request.path) == ("POST", "/oauth2/token")
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert form_of(request) == {
        "grant_type": ["refresh_token"],
        "client_id": ["client"],
        "client_secret": ["cs-secret"],
        "refresh_token": ["rt-secret"],
        "scope": ["a b"],
    }
    assert auth.sign(REQUEST).headers["Authorization"] == "Bearer at-1"
    fake.wait(3_599 - 61)
    assert auth.ready
    # A minute before its end it could run out on the way.
    fake.wait(2)
    refresh(auth, granted("at-2"))
    assert auth.sign(REQUEST).headers["Authorization"] == "Bearer at-2"


def test_scopes_are_left_out_where_none_are_asked_for() -> None:
    assert "scope" not in form_of(refresh(refresh_auth(), granted("at-1")))


def test_the_refusal_of_an_older_token_leaves_the_newer_one() -> None:
    auth = refresh_auth()
    refresh(auth, granted("at-1"))
    refused = auth.sign(REQUEST)
    assert auth.invalidate(refused)
    refresh(auth, granted("at-2"))
    # The refusal of another call that was sent with the first token comes late; it is signed anew.
    assert auth.invalidate(refused)
    assert auth.ready


def test_a_new_refresh_token_replaces_the_old_one() -> None:
    told: list[str] = []
    auth = refresh_auth(on_secret=told.append, on_rotated=lambda: told.append("rotated"))
    refresh(auth, granted("at-1", refresh_token="rt-2"))
    assert told == ["at-1", "rt-2", "rotated"]
    assert set(auth.secrets) == {"cs-secret", "rt-2", "at-1"}
    auth.invalidate(auth.sign(REQUEST))
    assert form_of(refresh(auth, granted("at-2", refresh_token="rt-3")))["refresh_token"] == ["rt-2"]
    # Said once.
    assert told == ["at-1", "rt-2", "rotated", "at-2", "rt-3"]


def test_a_refresh_token_that_comes_back_unchanged_is_no_new_one() -> None:
    told: list[str] = []
    auth = refresh_auth(on_secret=told.append, on_rotated=lambda: told.append("rotated"))
    refresh(auth, granted("at-1", refresh_token="rt-secret"))
    assert told == ["at-1"]


@pytest.mark.parametrize("expires_in", [None, "soon", [], {}, 10**400, 0, -5, "nan"])
def test_a_lifetime_that_is_none_counts_as_an_hour(expires_in: object) -> None:
    fake = FakeClock()
    auth = refresh_auth(fake)
    refresh(auth, granted("at-1", expires_in=expires_in))
    fake.wait(3_600 - 61)
    assert auth.ready
    fake.wait(2)
    assert not auth.ready


@pytest.mark.parametrize(("expires_in", "used"), [("100", 89), (5, 4.4)])
def test_a_short_lifetime_is_used_up_to_its_last_tenth(expires_in: object, used: float) -> None:
    fake = FakeClock()
    auth = refresh_auth(fake)
    refresh(auth, granted("at-1", expires_in=expires_in))
    fake.wait(used)
    assert auth.ready
    fake.wait(1.2)
    assert not auth.ready


@pytest.mark.parametrize("token", [None, "", 5, ["t"], "line\nbreak", "sn\u2603w", " t"])
def test_a_reply_without_a_token_that_can_be_sent_is_refused(token: object) -> None:
    auth = refresh_auth()
    with pytest.raises(InvalidReplyError, match="without an access_token"):
        refresh(auth, Response(200, {}, json.dumps({"access_token": token}).encode()))
    assert not auth.ready


def test_a_token_address_keeps_its_query_and_needs_no_path() -> None:
    with_query = refresh(refresh_auth(token_url="https://host:1/token?p=policy&q="), granted("at-1"))
    assert (with_query.url, with_query.path) == ("https://host:1/token?p=policy&q=", "/token")
    assert refresh(refresh_auth(token_url="https://host"), granted("at-1")).url == "https://host/"


def test_tokens_are_not_shown() -> None:
    auth = refresh_auth()
    refresh(auth, granted("at-secret"))
    assert "secret" not in repr(auth)
    assert set(auth.secrets) == {"cs-secret", "rt-secret", "at-secret"}
