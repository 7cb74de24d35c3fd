from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    ServiceUnavailableError,
    TemporaryError,
)
from airflow_provider_mediaops.http.exchange import Request, Response
from airflow_provider_mediaops.video.errors import TOKEN_RULES, VIDEO_RULES
from tests.unit.call_flows import START

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.errors import ErrorRules

MEANS: dict[str, type[MediaOpsError]] = {
    "quota": QuotaExceededError,
    "rate_limit": RateLimitedError,
    "authentication": AuthenticationError,
    "permission": PermissionDeniedError,
    "bad_request": BadRequestError,
    "not_found": NotFoundError,
    "temporary": TemporaryError,
}


def refusal(status: int, body: object, now: datetime = START, *, rules: ErrorRules = VIDEO_RULES) -> MediaOpsError:
    reply = Response(status, {"content-type": "application/json"}, json.dumps(body).encode())
    error = rules.refusal(Request("GET", "/v3/subscriptions", base="https://video.example"), reply, now)
    assert error
    return error


def reason(word: str, message: str = "No.", **more: Any) -> dict[str, Any]:
    return {"error": {"errors": [{"reason": word}], "message": message, **more}}


def test_every_recorded_refusal_means_what_it_should(data: Path) -> None:
    lines = (data / "video" / "errors.jsonl").read_text(encoding="utf-8").splitlines()
    recorded = [json.loads(line) for line in lines if line.strip()]
    assert len(recorded) >= 10
    for entry in recorded:
        from_token_address = isinstance(entry["body"].get("error"), str)
        rules = TOKEN_RULES if from_token_address else VIDEO_RULES
        error = refusal(entry["status"], entry["body"], rules=rules)
        assert isinstance(error, MEANS[entry["means"]]), entry
        assert "<" not in error.message
        assert error.status == entry["status"]


@pytest.mark.parametrize(
    ("status", "body", "cls"),
    [
        (404, reason("playlistNotFound"), NotFoundError),
        (404, reason("videoNotFound"), NotFoundError),
        (400, reason("bulletinTextRequired"), BadRequestError),
        (403, reason("rateLimitExceeded"), RateLimitedError),
        (429, reason("RATELIMITEXCEEDED"), RateLimitedError),
        (403, reason("userRateLimitExceeded", "1,000 queries per 100 seconds per user"), RateLimitedError),
        (403, reason("dailyLimitExceeded"), QuotaExceededError),
        (429, reason("rateLimitExceeded", "Queries per day"), QuotaExceededError),
        (
            429,
            reason("rateLimitExceeded", details=[{"metadata": {"quota_limit": "defaultPerDayPerProject"}}]),
            QuotaExceededError,
        ),
        (429, {}, RateLimitedError),
        (401, reason("authError"), AuthenticationError),
        (401, reason("youtubeSignupRequired"), PermissionDeniedError),
        (
            400,
            reason("badRequest", "API key not valid.", details=[{"reason": "API_KEY_INVALID"}]),
            AuthenticationError,
        ),
        (400, reason("keyInvalid"), AuthenticationError),
        (403, reason("neverHeardOf"), PermissionDeniedError),
        # The document shows names and reasons, and no form of the body (section 7).
        (403, {"error": {"name": "userRateLimitExceeded", "reason": "rateLimitExceeded"}}, RateLimitedError),
        (403, {"errors": [{"name": "userRateLimitExceeded", "reason": "rateLimitExceeded"}]}, RateLimitedError),
        (403, {"error": {"name": "userRateLimitExceeded"}}, RateLimitedError),
        (404, {"errors": [{"name": "notFound", "reason": "videoNotFound"}]}, NotFoundError),
        (400, {"name": "notFound", "reason": "playlistNotFound"}, NotFoundError),
        (400, {"error": {"name": "badRequest", "reason": "bulletinTextRequired"}}, BadRequestError),
        # `required` is a missing login with 401, and a missing parameter with 400.
        (401, reason("required"), AuthenticationError),
        (400, reason("required"), BadRequestError),
        (503, reason("forbidden"), ServiceUnavailableError),
    ],
)
def test_documented_refusal_has_its_class(status: int, body: object, cls: type[MediaOpsError]) -> None:
    assert type(refusal(status, body)) is cls


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (404, reason("videoNotFound"), "Check video_id."),
        (404, reason("playlistNotFound"), "Check playlist_id."),
        (403, reason("insufficientPermissions"), "lacks the scope"),
        (401, {}, "auth=refresh_token"),
        (401, reason("required"), "need an authorised user, which no API key is: use auth=bearer"),
        (401, reason("authorizationRequired"), "need an authorised user"),
        (403, reason("accessNotConfigured"), "not enabled in the project of this credential: enable it there"),
        (403, reason("forbidden", details=[{"reason": "SERVICE_DISABLED"}]), "not enabled in the project"),
        (403, {"error": {"status": "PERMISSION_DENIED", "details": [{"reason": "SERVICE_DISABLED"}]}}, "not enabled"),
        (400, reason("invalidMetadata"), "kind_prefix"),
        (404, {}, "base address in the connection: it ends before /v3"),
        (400, reason("required", "Missing: part"), "Missing: part. Correct what the request asks for."),
        (404, {"error": {"errors": [{"message": "Only here."}]}}, "with 404: Only here. Check"),
        (404, {"error": {"type": "index_not_found_exception", "reason": "no such index [v3]"}}, "A search cluster"),
        (400, {"error": "no handler found for uri [/v3/subscriptions] and method [GET]"}, "A search cluster answers"),
        (401, {"error": {"type": "security_exception", "reason": "missing"}}, "A search cluster answers there"),
    ],
)
def test_refusal_says_what_to_do(status: int, body: object, advice: str) -> None:
    assert advice in refusal(status, body).message


@pytest.mark.parametrize(
    ("now", "hours"),
    [
        # Midnight Pacific time is 7 or 8 o'clock in UTC; in the night to 8 March 2026 an hour is left out.
        (datetime(2026, 7, 1, 12, 0, tzinfo=timezone.utc), 19.0),
        (datetime(2026, 1, 15, 7, 30, tzinfo=timezone.utc), 0.5),
        (datetime(2026, 3, 8, 8, 0, tzinfo=timezone.utc), 23.0),
    ],
)
def test_spent_quota_comes_back_at_midnight_pacific_time(now: datetime, hours: float) -> None:
    error = refusal(403, reason("quotaExceeded"), now)
    assert error.retry_after == hours * 3_600
    assert "nothing succeeds until midnight Pacific time" in error.message


@pytest.mark.parametrize(
    ("status", "body", "cls", "advice"),
    [
        (400, {"error": "invalid_grant"}, AuthenticationError, "grant access again"),
        (400, {"error": "invalid_grant"}, AuthenticationError, "in testing, each refresh token ends after 7 days"),
        (401, {"error": "invalid_client"}, AuthenticationError, "client id (Login) and client secret (Password)"),
        (401, {"error": "unauthorized_client"}, AuthenticationError, "belongs to another client: check the client id"),
        (400, {"error": "unauthorized_client"}, AuthenticationError, "belongs to another client: check the client id"),
        (401, {"error": "deleted_client"}, AuthenticationError, "client id (Login), scopes and token_url"),
        (400, {"error": "invalid_scope"}, BadRequestError, "Check scopes in the connection"),
        (400, {"error": "unsupported_grant_type"}, BadRequestError, "client id (Login), scopes and token_url"),
        (403, {"error": "access_denied"}, PermissionDeniedError, "client id (Login), scopes and token_url"),
        (404, {}, NotFoundError, "Check token_url in the connection"),
        (302, {}, InvalidReplyError, "Correct token_url in the connection."),
        (503, {}, ServiceUnavailableError, "the service's side"),
    ],
)
def test_refusal_of_the_token_address_says_what_to_do_there(
    status: int, body: object, cls: type[MediaOpsError], advice: str
) -> None:
    error = refusal(status, body, rules=TOKEN_RULES)
    assert type(error) is cls
    assert advice in error.message
    for of_the_platform in ("API key", "before /v3", "base address"):
        assert of_the_platform not in error.message
