from __future__ import annotations

import json
from datetime import timedelta

import pytest

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ReplyTimeoutError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError
from tests.unit.call_flows import START

REQUEST = Request("GET", "/thing", base="https://me@host:9200/base")
WHOLE = "/base/thing"
RULES = ErrorRules(
    service="thing service",
    by_reason={"quotaspent": QuotaExceededError, "gone_for_good": NotFoundError, "late": ReplyTimeoutError},
    advice={"quotaspent": "Buy more."},
    advice_by_class={PermissionDeniedError: "Ask the owner."},
)


def refusal(status: int, body: object = None, **headers: str) -> MediaOpsError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = RULES.refusal(REQUEST, Response(status, headers, content), START)
    assert error is not None
    return error


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_success_is_no_refusal(status: int) -> None:
    assert RULES.refusal(REQUEST, Response(status, {}, b'{"error": "no"}'), START) is None


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (400, BadRequestError),
        (401, AuthenticationError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (408, ServiceUnavailableError),
        (410, NotFoundError),
        (429, RateLimitedError),
        (500, ServiceUnavailableError),
        (599, ServiceUnavailableError),
        (302, InvalidReplyError),
        (101, InvalidReplyError),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html><body>Sorry.</body></html>", b'{"error": {"err'])
def test_without_a_known_reason_the_status_tells(status: int, cls: type[MediaOpsError], body: bytes) -> None:
    error = refusal(status, body)
    assert type(error) is cls
    assert (error.service, error.method, error.path, error.status) == ("thing service", "GET", WHOLE, status)
    assert f"The thing service at host:9200 answered GET /base/thing with {status}" in error.message


@pytest.mark.parametrize(
    ("status", "words", "cls"),
    [
        *((status, {"reason": "quotaSpent"}, QuotaExceededError) for status in (400, 401, 403, 404, 429, 500)),
        (403, {"reason": "unheardOf", "name": "gone_for_good"}, NotFoundError),
        (400, {"reason": "gone_for_good"}, NotFoundError),
        (500, {"reason": "late"}, ReplyTimeoutError),
        # A failure stays one whatever it quotes, and 401 is about the credentials.
        (500, {"reason": "gone_for_good"}, ServiceUnavailableError),
        (401, {"reason": "gone_for_good"}, AuthenticationError),
    ],
)
def test_reason_or_name_goes_before_the_status_unless_they_contradict_each_other(
    status: int, words: dict[str, str], cls: type[MediaOpsError]
) -> None:
    error = refusal(status, {"error": {"errors": [words], "message": "No more"}})
    assert (type(error), error.reason) == (cls, words["reason"])
    assert f" with {status} {words['reason']}: No more. " in error.message
    assert error.message.endswith("Buy more.") is (words["reason"] == "quotaSpent")


@pytest.mark.parametrize(
    ("status", "reason", "headers", "seconds"),
    [
        (503, "down", {"retry-after": "7"}, 7.0),
        (429, "slow", {}, None),
        (403, "quotaSpent", {}, timedelta(days=1).total_seconds()),
        (403, "quotaSpent", {"retry-after": "60"}, 60.0),
    ],
)
def test_error_has_the_pause_that_the_service_asks_for_or_that_to_the_reset_of_the_quota(
    status: int, reason: str, headers: dict[str, str], seconds: float | None
) -> None:
    assert refusal(status, {"error": {"errors": [{"reason": reason}]}}, **headers).retry_after == seconds


def test_a_base_address_that_holds_a_credential_does_not_tell_it() -> None:
    request = Request("GET", "/thing", base="https://host/k3y-s3cr3t", secrets=("k3y-s3cr3t",))
    error = RULES.no_reply(request, TransportError(Failure.BROKEN, "cut"))
    assert (error.path, "k3y" in error.message) == ("/***/thing", False)


def test_advice_of_the_service_goes_before_general_advice() -> None:
    assert refusal(403, {}).message.endswith("Ask the owner.")
    assert refusal(401, {}).message.endswith("Check the credentials in the connection.")
    assert "time limit" in refusal(400, {"error": {"errors": [{"reason": "late"}]}}).message


@pytest.mark.parametrize(
    ("body", "said", "start"),
    [
        ({"message": "Really?"}, "Really? Correct", '{"message": "Really?"}'),
        (b"<p>Out of  order</p>", "Out of order. Correct", "Out of order"),
        (b"", "no explanation. Correct", None),
    ],
)
def test_error_quotes_the_service_and_keeps_the_start_of_the_reply(body: object, said: str, start: str | None) -> None:
    error = refusal(400, body)
    assert said in error.message
    assert error.excerpt == start


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://login.example/in?key=s3cr3t", "to https://login.example/in; redirects"),
        ("/in#token=s3cr3t", "to /in; redirects"),
        ("", "to an address it does not name; redirects"),
    ],
)
def test_a_redirect_says_where_to_without_its_query(location: str, shown: str) -> None:
    error = refusal(302, b"", location=location)
    assert shown in error.message
    assert "s3cr3t" not in error.message
    assert error.message.endswith("Correct the base address in the connection.")


@pytest.mark.parametrize("failure", Failure, ids=lambda failure: failure.name)
def test_no_reply_says_where_the_connection_was_to_go(failure: Failure) -> None:
    error = RULES.no_reply(REQUEST, TransportError(failure, "the cause"))
    assert type(error) is failure.error
    message = "The thing service at host:9200 gave no whole reply to GET /base/thing: the cause."
    assert error.message == f"{message} {failure.advice.format(address='host and port')}"
    assert (error.service, error.method, error.path, error.status) == ("thing service", "GET", WHOLE, None)


def test_a_reply_that_cannot_be_read_is_told_with_where_it_came_from() -> None:
    page = Response(200, {}, b"<html>Sign in</html>")
    error = RULES.unusable(REQUEST, page, InvalidReplyError("It is odd.", reason="odd"))
    assert "at host:9200 answered GET /base/thing with 200, but: It is odd. Check that" in error.message
    assert (error.status, error.reason, error.excerpt) == (200, "odd", "Sign in")
    own = ErrorRules(service="s", advice_by_class={InvalidReplyError: "Look here."})
    assert own.unusable(REQUEST, Response(200), error).message.endswith("Look here.")


def test_a_reply_of_another_service_is_said_to_be_one() -> None:
    rules = ErrorRules(
        service="s", advice_by_reply=lambda _reply, details: "Mistaken." if details.reason == "x" else ""
    )
    for reason, advice in (("x", "Mistaken."), ("y", "Correct what the request asks for.")):
        error = rules.refusal(REQUEST, Response(400, {}, json.dumps({"reason": reason}).encode()), START)
        assert error is not None
        assert error.message.endswith(advice)


def test_a_parsers_own_error_has_the_whole_path() -> None:
    own = NotFoundError("There is none.", service="s", method="GET", path="/thing", status=200)
    error = RULES.unusable(REQUEST, Response(200), own)
    assert (type(error), error.message, error.path) == (NotFoundError, "There is none.", WHOLE)
    assert RULES.unusable(REQUEST, Response(200), NotFoundError("None.")).path is None
