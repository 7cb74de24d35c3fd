from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidReplyError,
    PermissionDeniedError,
    RateLimitedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.auth import HeaderAuth, ParameterAuth, RefreshTokenAuth
from airflow_provider_mediaops.http.exchange import Call, Request, Response
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.reply import read_json
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.conversations import FakeClock, pauses_of, replay, requests_of, text_call
from tests.unit.http.asking import BROKEN, DOWN, GOOD, error_of, make, refused
from tests.unit.http.rate_limit.rate_stores import memory_store

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Step, TransportError

SECRET = "s3cr3t/k+y ü"


class Tokens:
    """A token address and a service that accepts one token at a time."""

    def __init__(self, fake: FakeClock) -> None:
        self.auth = RefreshTokenAuth("http://accounts/token", "client", "cs-s3cr3t", "rt-s3cr3t", clock=fake.clock)
        self.client = make(fake, auth=self.auth)

    @staticmethod
    def granted(token: str) -> Response:
        return Response(200, {}, json.dumps({"access_token": token, "expires_in": 3600}).encode())


def signed_with(steps: list[Step]) -> list[str]:
    return [request.headers.get("Authorization", request.path) for request in requests_of(steps)]


def test_a_token_is_fetched_first_and_kept() -> None:
    tokens, steps = Tokens(FakeClock()), list["Step"]()
    replay(tokens.client.ask(text_call()), [tokens.granted("t1"), GOOD], steps=steps)
    replay(tokens.client.ask(text_call()), [GOOD], steps=steps)
    assert signed_with(steps) == ["/token", "Bearer t1", "Bearer t1"]


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_refused_token_is_renewed_once(*, idempotent: bool) -> None:
    tokens, steps = Tokens(FakeClock()), list["Step"]()
    call = text_call("POST", idempotent=idempotent)
    replies = [tokens.granted("t1"), refused(401), tokens.granted("t2"), GOOD]
    assert replay(tokens.client.ask(call), replies, steps=steps) == "good"
    assert signed_with(steps) == ["/token", "Bearer t1", "/token", "Bearer t2"]
    assert pauses_of(steps) == []


def test_a_token_that_is_refused_twice_is_an_error() -> None:
    tokens = Tokens(FakeClock())
    replies = [tokens.granted("t1"), refused(401), tokens.granted("t2"), refused(401)]
    assert type(error_of(tokens.client, text_call(), replies)) is AuthenticationError


@pytest.mark.parametrize("reply", [refused(403), refused(401, "noScope")])
def test_only_a_refused_token_is_renewed(reply: Response) -> None:
    tokens = Tokens(FakeClock())
    assert type(error_of(tokens.client, text_call(), [tokens.granted("t1"), reply])) is PermissionDeniedError


def test_a_refusal_of_the_refresh_token_is_final() -> None:
    tokens = Tokens(FakeClock())
    error = error_of(tokens.client, text_call(), [Response(401, {}, b'{"error": "invalid_client"}')])
    assert type(error) is AuthenticationError
    assert "at accounts answered POST /token with 401 invalid_client" in error.message


def test_a_fixed_token_is_not_renewed() -> None:
    client = make(FakeClock(), auth=HeaderAuth.bearer("t0"))
    assert type(error_of(client, text_call(), [refused(401)])) is AuthenticationError


def test_a_token_address_that_is_down_is_asked_again_and_a_write_is_still_certain() -> None:
    fake = FakeClock()
    tokens = Tokens(fake)
    replies: list[Response | TransportError] = [DOWN, BROKEN, tokens.granted("t1"), GOOD]
    assert replay(tokens.client.ask(text_call("POST", idempotent=False)), replies, clock=fake) == "good"
    tokens = Tokens(fake)
    error = error_of(tokens.client, text_call("POST", idempotent=False), [DOWN] * 5, fake)
    assert type(error) is ServiceUnavailableError


def test_a_token_is_taken_after_any_wait() -> None:
    fake, steps = FakeClock(), list["Step"]()
    tokens = Tokens(fake)
    tokens.client.retry = RetryPolicy(max_wait=9_000.0)
    tokens.client.limiter = limiter_for("thing", "key", 1.0, memory_store(fake))
    # The token is good for an hour, the service asks for a longer pause.
    replies = [tokens.granted("t1"), Response(503, {"retry-after": "4000"}), tokens.granted("t2"), GOOD]
    replay(tokens.client.ask(text_call()), replies, steps=steps, clock=fake)
    assert signed_with(steps) == ["/token", "Bearer t1", "/token", "Bearer t2"]
    # And after one for the rate.
    replay(tokens.client.limited(RateLimitedError("It was the limit.", retry_after=4_000.0)), [])
    replay(tokens.client.ask(text_call()), [tokens.granted("t3"), GOOD], steps=steps, clock=fake)
    assert signed_with(steps)[-1] == "Bearer t3"


@pytest.mark.parametrize("auth", [HeaderAuth.bearer(SECRET), HeaderAuth.basic("me", SECRET), ParameterAuth(SECRET)])
@pytest.mark.parametrize("status", [200, 302, 400, 403, 503])
def test_a_service_that_echoes_the_credentials_does_not_make_them_public(
    auth: HeaderAuth | ParameterAuth, status: int
) -> None:
    signed = auth.sign(Request("GET", "/thing"))
    echo = f"{signed.headers.get('Authorization', '')} {SECRET} {signed.url} s3cr3t%2Fk%2By%20%C3%BC"
    bodies = [
        f"<html>{echo}</html>",
        json.dumps([{"error": {"message": echo, "errors": [{"reason": SECRET}]}}], ensure_ascii=False),
        '{"error": {"message": "' + echo + '", "errors": [{"reason": "' + SECRET + '"}]}, cut short',
        # Where the text is cut for the log, half a secret must not be left.
        *("x" * length + echo for length in range(250, 300, 3)),
    ]
    for body in bodies:
        response = Response(status, {"location": f"http://two/{echo}"}, body.encode())
        client = make(FakeClock(), auth=auth, retry=RetryPolicy(max_attempts=1))
        error = error_of(client, Call(signed, read_json), [response])
        told = "".join(traceback.format_exception(error)) + repr(error.to_dict()) + repr(client)
        for half in ("s3cr", "czNjcjN0"):
            assert half not in told, body


def test_what_a_parser_says_of_a_reply_holds_no_secret() -> None:
    def parse(response: Response) -> str:
        raise InvalidReplyError(f"This is odd: {response.text}")

    client = make(FakeClock(), auth=HeaderAuth.raw("s3cr3t"))
    error = error_of(client, Call(Request("GET", "/thing"), parse), [Response(200, {}, b"you sent s3cr3t")])
    told = "".join(traceback.format_exception(error))
    assert "This is odd: you sent ***" in told
    assert "s3cr3t" not in told
