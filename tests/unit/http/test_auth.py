"""Credentials: on a request, fetched, renewed, shared by calls, and never shown."""

from __future__ import annotations

import json
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    InvalidReplyError,
    PermissionDeniedError,
    RateLimitedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.auth import RefreshTokenAuth, credentials_of
from airflow_provider_mediaops.http.exchange import Request, Response, Returned, TransportError, advance
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.http.settings import TransportSettings
from tests.unit.call_flows import FakeClock, ask_once, pauses_of, replay, requests_of, text_call
from tests.unit.http.asking import BROKEN, DOWN, GOOD, error_of, make, refused
from tests.unit.http.rate_limit.keys import limiter_of, next_step

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError
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


def holds_token(auth: RefreshTokenAuth) -> bool:
    return isinstance(advance(auth.prepare(ask_once)), Returned)


def refresh(auth: RefreshTokenAuth, reply: Response) -> Request:
    """Prepare the credentials of a call; return the request that this needs."""
    assert not holds_token(auth)
    steps: list[Step] = []
    replay(auth.prepare(ask_once), [reply], steps=steps)
    assert holds_token(auth)
    (request,) = requests_of(steps)
    return request


def form_of(request: Request) -> dict[str, list[str]]:
    return parse_qs((request.body or b"").decode(), strict_parsing=True)


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
    assert "secret" not in repr(auth)
    fake.wait(3_599 - 61)
    assert holds_token(auth)
    # A minute before its end it could run out on the way.
    fake.wait(2)
    refresh(auth, granted("at-2"))
    assert auth.sign(REQUEST).headers["Authorization"] == "Bearer at-2"


def test_the_refusal_of_an_older_token_leaves_the_newer_one() -> None:
    tokens, steps = Tokens(FakeClock()), list["Step"]()
    early = tokens.client.ask(text_call())
    advance(early)
    early_request = next_step(early, granted("t1"))
    assert isinstance(early_request, Request)
    replies = [refused(401), granted("t2"), GOOD]
    assert replay(tokens.client.ask(text_call()), replies, steps=steps) == "good"
    # The refusal of the call that was sent first comes late; it is signed anew.
    again = advance(early, refused(401))
    assert isinstance(again, Request)
    assert again.headers["Authorization"] == "Bearer t2"


def test_a_refresh_token_that_comes_back_unchanged_is_no_new_one() -> None:
    told: list[str] = []
    auth = refresh_auth(on_secret=told.append, on_rotated=lambda: told.append("rotated"))
    refresh(auth, granted("at-1", refresh_token="rt-secret"))
    assert told == ["at-1"]


_NO_LIFETIMES: tuple[Any, ...] = (None, "soon", [], {}, 10**400, 0, -5, "nan")


@pytest.mark.parametrize(
    ("expires_in", "used"),
    [
        ("100", 89),
        (5, 4.4),
        # What is not a lifetime counts as an hour.
        *((lifetime, 3_600 - 61) for lifetime in _NO_LIFETIMES),
    ],
)
def test_a_token_is_used_up_to_the_last_tenth_of_its_lifetime_or_a_minute(expires_in: object, used: float) -> None:
    fake = FakeClock()
    auth = refresh_auth(fake)
    refresh(auth, granted("at-1", expires_in=expires_in))
    fake.wait(used)
    assert holds_token(auth)
    fake.wait(2)
    assert not holds_token(auth)


def test_a_token_address_keeps_its_query_and_needs_no_path() -> None:
    with_query = refresh(refresh_auth(token_url="https://host:1/token?p=policy&q="), granted("at-1"))
    assert (with_query.url, with_query.path) == ("https://host:1/token?p=policy&q=", "/token")
    plain = refresh(refresh_auth(token_url="https://host"), granted("at-1"))
    assert plain.url == "https://host/"
    assert b"scope" not in (plain.body or b"")


class Tokens:
    """A token address and a service that accepts one token at a time."""

    def __init__(self, fake: FakeClock, **more: Any) -> None:
        self.auth = refresh_auth(
            fake, token_url="http://accounts/token", client_secret="cs-s3cr3t", refresh_token="rt-s3cr3t"
        )
        self.client = make(fake, auth=self.auth, **more)


def signed_with(steps: list[Step]) -> list[str]:
    return [request.headers.get("Authorization", request.path) for request in requests_of(steps)]


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_refused_token_is_renewed_once(*, idempotent: bool) -> None:
    tokens, steps = Tokens(FakeClock()), list["Step"]()
    call = text_call("POST", idempotent=idempotent)
    replies = [granted("t1"), refused(401), granted("t2"), GOOD]
    assert replay(tokens.client.ask(call), replies, steps=steps) == "good"
    # All calls of a client share the token.
    assert replay(tokens.client.ask(call), [GOOD], steps=steps) == "good"
    assert signed_with(steps) == ["/token", "Bearer t1", "/token", "Bearer t2", "Bearer t2"]
    assert pauses_of(steps) == []


@pytest.mark.parametrize(
    ("replies", "cls"),
    [
        pytest.param(
            [granted("t1"), refused(401), granted("t2"), refused(401)], AuthenticationError, id="refused twice"
        ),
        pytest.param([granted("t1"), refused(403)], PermissionDeniedError, id="not about the token"),
        pytest.param([granted("t1"), refused(401, "noScope")], PermissionDeniedError, id="a scope that is missing"),
        pytest.param([refused(401, "invalid_client")], AuthenticationError, id="the refresh token"),
    ],
)
def test_another_refusal_is_final(replies: list[Response], cls: type[MediaOpsError]) -> None:
    assert type(error_of(Tokens(FakeClock()).client, text_call(), replies)) is cls


def test_a_token_address_that_is_down_is_asked_again_and_the_write_is_still_certain_and_the_host_the_same() -> None:
    fake, steps, write = FakeClock(), list["Step"](), text_call("POST", idempotent=False)
    tokens = Tokens(fake, base_urls=("http://one", "http://two", "http://three"))
    replies: list[Response | TransportError] = [DOWN, BROKEN, granted("t1"), GOOD]
    assert replay(tokens.client.ask(write), replies, steps=steps, clock=fake) == "good"
    assert [request.host for request in requests_of(steps)] == ["accounts"] * 3 + ["one"]
    assert type(error_of(Tokens(fake).client, write, [DOWN] * 5, fake)) is ServiceUnavailableError


def test_a_token_that_always_expires_in_the_queue_is_used_all_the_same() -> None:
    fake, steps = FakeClock(), list["Step"]()
    tokens = Tokens(fake, limiter=limiter_of(fake, 0.01))
    reply = granted("t1", expires_in=5)
    replay(tokens.client.ask(text_call()), [reply, GOOD], clock=fake)
    assert replay(tokens.client.ask(text_call()), [reply, GOOD], steps=steps, clock=fake) == "good"


@pytest.mark.parametrize("token", [None, "", 5, "t1-s3cr3t\n", "t1-s3cr3t\u00fc", " t1-s3cr3t", ["t1-s3cr3t"]])
def test_a_token_that_cannot_be_used_is_not_shown(token: object) -> None:
    tokens = Tokens(FakeClock())
    reply = Response(200, {}, json.dumps({"access_token": token, "refresh_token": "new-s3cr3t"}).encode())
    error = error_of(tokens.client, text_call(), [reply])
    assert type(error) is InvalidReplyError
    assert "without an access_token that can be sent" in error.message
    assert not holds_token(tokens.auth)
    assert "s3cr3t" not in "".join(traceback.format_exception(error)) + repr(error.to_dict())
    assert error.__context__ is None


def test_the_reply_to_a_request_with_an_older_token_does_not_show_that_token() -> None:
    tokens = Tokens(FakeClock())
    early = tokens.client.ask(text_call())
    advance(early)
    next_step(early, granted("t1-s3cr3t"))
    replay(tokens.client.ask(text_call()), [refused(401), granted("t2"), GOOD])
    with pytest.raises(BadRequestError) as caught:
        advance(early, Response(400, {}, b"you sent t1-s3cr3t"))
    assert "you sent ***." in str(caught.value)


def test_each_request_hides_the_other_secrets_of_the_connection_too() -> None:
    tokens, steps = Tokens(FakeClock()), list["Step"]()
    client = replace(tokens.client, other_secrets=("pr0xy-s3cr3t",))
    replay(client.ask(text_call()), [granted("t1-s3cr3t"), GOOD], steps=steps)
    assert [request.path for request in requests_of(steps)] == ["/token", "/thing"]
    for request in requests_of(steps):
        assert {"pr0xy-s3cr3t", "rt-s3cr3t"} <= set(request.secrets)
    assert "pr0xy" not in repr(client)


def test_a_token_is_taken_after_any_wait() -> None:
    fake, steps = FakeClock(), list["Step"]()
    tokens = Tokens(fake, retry=RetryPolicy(max_wait=9_000.0), limiter=limiter_of(fake))
    # The token is good for an hour, the service asks for a longer pause.
    replies = [granted("t1"), Response(503, {"retry-after": "4000"}), granted("t2"), GOOD]
    replay(tokens.client.ask(text_call()), replies, steps=steps, clock=fake)
    assert signed_with(steps) == ["/token", "Bearer t1", "/token", "Bearer t2"]
    # And after one for the rate.
    replay(tokens.client.report_limit(RateLimitedError("It was the limit.", retry_after=4_000.0)), [])
    replay(tokens.client.ask(text_call()), [granted("t3"), GOOD], steps=steps, clock=fake)
    assert signed_with(steps)[-1] == "Bearer t3"


@pytest.mark.parametrize(
    ("settings", "secrets"),
    [
        (
            {"proxies": {"http": "http://me:p%40ss%C3%A9@proxy:1", "https": "https://me:p%40ss%C3%A9@proxy/"}},
            ("p@ssé",),
        ),
        ({"proxies": {"http": "http://:only@[::1]:3128"}}, ("only",)),
        (
            {"proxies": {"http": "http://me@proxy", "https": "http://me:@proxy", "no": "proxy", "ftp": "http://[::1"}},
            (),
        ),
        *(
            ({"headers": {name: "s3cr3t"}}, ("s3cr3t",))
            for name in ("X-Api-Key", "apikey", "PRIVATE-TOKEN", "X-Forwarded-Authorization", "X-Password")
        ),
        ({"headers": {"X-Api-Key": "s3cr3t", "X-Token": "s3cr3t", "X-Team": "ops"}}, ("s3cr3t",)),
        ({"headers": {"X-Upstream": "Basic bWU6czNjcjN0"}}, ("bWU6czNjcjN0",)),
        ({"headers": {"X-Author": "ops", "X-Keyspace": "ops", "X-Upstream": "Bearers of news"}}, ()),
    ],
)
def test_passwords_of_proxies_and_headers_that_look_like_credentials_are_secrets(
    settings: dict[str, Any], secrets: tuple[str, ...]
) -> None:
    proxies = {"http": "http://proxy:3128"}
    assert credentials_of(TransportSettings(**{"proxies": proxies, **settings})) == secrets
