"""Every refusal of the video platform, with its status, its name and its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.video import subscriptions, tokens

if TYPE_CHECKING:
    from tests.unit.sandbox.conftest import Sandbox

#: The status and the name that go with each reason.
LISTED = [
    (400, "badRequest", "bulletinTextRequired"),
    (400, "badRequest", "invalidMetadata"),
    (400, "badRequest", "missingPart"),
    (400, "badRequest", "unexpectedPart"),
    (400, "badRequest", "unknownPart"),
    (400, "badRequest", "parseError"),
    (400, "badRequest", "invalid"),
    (400, "badRequest", "missingRequiredParameter"),
    (400, "badRequest", "incompatibleParameters"),
    (400, "badRequest", "unexpectedParameter"),
    (400, "badRequest", "invalidParameter"),
    (400, "badRequest", "invalidPageToken"),
    (400, "badRequest", "badRequest"),
    (401, "unauthorized", "required"),
    (401, "unauthorized", "authError"),
    (403, "forbidden", "insufficientPermissions"),
    (403, "forbidden", "subscriptionForbidden"),
    (403, "forbidden", "accountSuspended"),
    (403, "forbidden", "accountClosed"),
    (403, "userRateLimitExceeded", "rateLimitExceeded"),
    (404, "notFound", "videoNotFound"),
    (404, "notFound", "playlistNotFound"),
    (404, "notFound", "subscriberNotFound"),
    (404, "notFound", "notFound"),
    (405, "methodNotAllowed", "methodNotAllowed"),
]
TEXT = {"snippet": {"description": "x"}}


def listing(**query: Any) -> dict[str, Any]:
    return {"url": "/video/v3/subscriptions", "params": {"part": "id", "mine": "true", **query}}


def of_channel(channel: str) -> dict[str, Any]:
    return {"url": "/video/v3/subscriptions", "params": {"part": "id", "channelId": channel}}


def posting(body: Any, part: str = "snippet", **options: Any) -> dict[str, Any]:
    return {"method": "POST", "url": "/video/v3/activities", "params": {"part": part}, "json": body, **options}


def attaching(kind: str, **ids: str) -> dict[str, Any]:
    return posting({"contentDetails": {"bulletin": {"resourceId": {"kind": kind, **ids}}}}, "contentDetails")


def by(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


#: A request that is refused for each reason, with a token that may do everything unless it says otherwise.
REFUSED: dict[str, dict[str, Any]] = {
    "bulletinTextRequired": posting({"snippet": {}}),
    "invalidMetadata": attaching("svc#video", playlistId="x"),
    "missingPart": posting(TEXT, "snippet,contentDetails"),
    "unexpectedPart": posting(TEXT, "contentDetails"),
    "unknownPart": posting(TEXT, "id"),
    "parseError": {
        "method": "POST",
        "url": "/video/v3/activities",
        "params": {"part": "snippet"},
        "content": "{",
        "headers": {**by(tokens.BEARER_TOKEN), "Content-Type": "application/json"},
    },
    "invalid": posting([]),
    "missingRequiredParameter": {"url": "/video/v3/subscriptions"},
    "incompatibleParameters": listing(id="x"),
    "unexpectedParameter": listing(colour="red"),
    "invalidParameter": listing(maxResults="51"),
    "invalidPageToken": listing(pageToken="x"),
    "badRequest": listing(key="unheard-of"),
    "required": posting(TEXT, headers={}),
    "authError": posting(TEXT, headers=by("unheard-of")),
    "insufficientPermissions": posting(TEXT, headers=by(tokens.READ_ONLY_TOKEN)),
    **{reason: of_channel(channel) for channel, reason in subscriptions.WITHHELD.items()},
    "rateLimitExceeded": posting(TEXT),
    "videoNotFound": attaching("svc#video", videoId="x"),
    "playlistNotFound": attaching("svc#playlist", playlistId="x"),
    "subscriberNotFound": of_channel("UCunheard-of"),
    "notFound": {"url": "/video/v3/channels"},
    "methodNotAllowed": {"url": "/video/v3/activities"},
}


def test_every_reason_is_provoked_here() -> None:
    assert {reason for _, _, reason in LISTED} == REFUSED.keys()


@pytest.mark.parametrize(("status", "name", "reason"), LISTED)
async def test_a_refusal_is_as_listed(make_sandbox: type[Sandbox], status: int, name: str, reason: str) -> None:
    sandbox = make_sandbox(video_daily_units=0 if reason == "rateLimitExceeded" else 50)

    reply = await sandbox.request(**{"method": "GET", "headers": by(tokens.BEARER_TOKEN), **REFUSED[reason]})
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (status, status)
    assert [(entry["name"], entry["reason"]) for entry in error["errors"]] == [(name, reason)]
    assert ("per day" in error["message"]) is (reason == "rateLimitExceeded")


def test_the_refusals_that_the_platform_documents_are_among_them() -> None:
    assert {(name, reason) for _, name, reason in LISTED} >= {
        ("notFound", "playlistNotFound"),
        ("notFound", "videoNotFound"),
        ("userRateLimitExceeded", "rateLimitExceeded"),
        ("badRequest", "bulletinTextRequired"),
    }
