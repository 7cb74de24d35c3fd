"""Whatever a service, a parser or a proxy says, no error of a client holds a secret."""

from __future__ import annotations

import json
import traceback

import pytest

from airflow_provider_mediaops.exceptions import InvalidReplyError, ServiceUnavailableError
from airflow_provider_mediaops.http.auth import HeaderAuth, ParameterAuth
from airflow_provider_mediaops.http.exchange import Call, Request, Response
from airflow_provider_mediaops.http.reply import read_json
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import FakeClock
from tests.unit.http.asking import error_of, make

SECRET = "s3cr3t/k+y ü"


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


def test_error_of_a_parser_holds_no_secret() -> None:
    def parse(response: Response) -> str:
        raise InvalidReplyError(f"This is odd: {response.text}")

    client = make(FakeClock(), auth=HeaderAuth.raw("s3cr3t"))
    error = error_of(client, Call(Request("GET", "/thing"), parse), [Response(200, {}, b"you sent s3cr3t")])
    told = "".join(traceback.format_exception(error))
    assert "This is odd: you sent ***" in told
    assert "s3cr3t" not in told
    assert error.__context__ is None


def test_error_of_a_parser_of_a_refusal_in_disguise_holds_no_secret() -> None:
    def parse(response: Response) -> str:
        raise ServiceUnavailableError(f"All failed: {response.text}", status=200, excerpt=response.text, reason="odd")

    client = make(FakeClock(), auth=HeaderAuth.raw("s3cr3t"), retry=RetryPolicy(max_attempts=1))
    error = error_of(client, Call(Request("GET", "/thing"), parse), [Response(200, {}, b"s3cr3t")])
    assert (error.message, error.excerpt, error.reason, error.status) == ("All failed: ***", "***", "odd", 200)
    assert type(error) is ServiceUnavailableError


@pytest.mark.parametrize(
    "failure",
    [OverflowError("s3cr3t"), RecursionError("s3cr3t"), ValueError("Exceeds the limit (4300 digits): s3cr3t")],
    ids=lambda failure: type(failure).__name__,
)
def test_a_reply_that_breaks_its_parser_is_an_invalid_reply(failure: Exception) -> None:
    def parse(_: Response) -> str:
        raise failure

    error = error_of(make(FakeClock()), Call(Request("GET", "/thing"), parse), [Response(200, {}, b"1e999")])
    assert type(error) is InvalidReplyError
    assert f"cannot be read ({type(failure).__name__})" in error.message
    assert "s3cr3t" not in "".join(traceback.format_exception(error))


def test_no_reply_makes_a_long_message() -> None:
    def parse(response: Response) -> str:
        raise InvalidReplyError(f"Its kind is {response.text!r}.", reason=response.text)

    error = error_of(make(FakeClock()), Call(Request("GET", "/thing"), parse), [Response(200, {}, b"x" * 10_000_000)])
    assert len(repr(error.to_dict())) < 3_000
