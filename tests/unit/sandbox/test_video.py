"""Every request that the video platform refuses, with the status, the name and the reason."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from airflow_provider_mediaops.sandbox import subscriptions, video
from tests.unit.sandbox.conftest import BEARER, FORM, Sandbox

FEW = subscriptions.FEW
TEXT = {"snippet": {"description": "x"}}
VIDEO, PLAYLIST = video.VIDEOS[0], video.PLAYLISTS[0]


def listing(headers: dict[str, str] = BEARER, **query: Any) -> dict[str, Any]:
    params = {"part": "id", **query}
    return {"method": "GET", "url": "/video/v3/subscriptions", "params": params, "headers": headers}


def posting(body: Any, part: str | None = None, headers: dict[str, str] = BEARER, **query: str) -> dict[str, Any]:
    params = {"part": ",".join(body) if part is None else part, **query}
    return {"method": "POST", "url": "/video/v3/activities", "params": params, "json": body, "headers": headers}


def attaching(kind: str | None, **ids: str) -> dict[str, Any]:
    return posting({"contentDetails": {"bulletin": {"resourceId": {"kind": kind, **ids}}}})


def by(token: str) -> dict[str, str]:
    return {"Authorization": token}


BAD, LIMIT = "badRequest", "userRateLimitExceeded"
REFUSED: dict[tuple[int, str, str], list[dict[str, Any]]] = {
    (400, BAD, "bulletinTextRequired"): [
        posting({"snippet": {}}),
        posting({"contentDetails": {}}),
    ],
    (400, BAD, "invalidMetadata"): [
        attaching("svc#video", playlistId=PLAYLIST),
        attaching("svc#video", videoId=VIDEO, playlistId=PLAYLIST),
        attaching("svc#channel", videoId=VIDEO),
        attaching("youtube#video", videoId=VIDEO),
    ],
    (400, BAD, "missingPart"): [
        posting(TEXT, "snippet,contentDetails"),
    ],
    (400, BAD, "unexpectedPart"): [posting(TEXT, "contentDetails"), posting(TEXT | {"contentDetails": {}}, "snippet")],
    (400, BAD, "unknownPart"): [
        *(posting(TEXT, part) for part in ("snippet,id", "", "snippet, contentDetails")),
        listing(part="id,statistics"),
    ],
    (400, BAD, "parseError"): [
        {
            **posting({}, "snippet"),
            "json": None,
            "content": "{",
            "headers": {**BEARER, "Content-Type": "application/json"},
        }
    ],
    (400, BAD, "invalid"): [
        posting({"snippet": {"description": 5}}),
        {
            **posting(TEXT, "snippet"),
            "json": None,
            "content": '{"snippet": {"description": "\\ud800"}}',
            "headers": {**BEARER, "Content-Type": "application/json"},
        },
        posting(TEXT | {"status": {}}, "snippet"),
        posting([], "snippet"),
    ],
    (400, BAD, "missingRequiredParameter"): [
        {**listing(), "params": {"mine": "true"}},
        listing(),
    ],
    (400, BAD, "incompatibleParameters"): [
        listing(mine="true", channelId=FEW),
    ],
    (400, BAD, "unexpectedParameter"): [listing(mine="true", channel_id=FEW)],
    (400, BAD, "invalidParameter"): [
        listing(mine="yes"),
        *(listing(mine="true", maxResults=size) for size in ("51", "-1")),
        listing(mine="true", order="date"),
    ],
    (400, BAD, "invalidPageToken"): [
        listing(mine="true", pageToken=token)
        for token in ("x", "é", "AAAA", base64.urlsafe_b64encode(bytes(9)).decode())
    ],
    (400, BAD, BAD): [listing(headers, channelId=FEW, key="unheard-of") for headers in ({}, BEARER)],
    (401, "unauthorized", "required"): [
        posting(TEXT, headers={}),
        posting(TEXT, headers={}, key=video.API_KEY),
        listing({}, channelId=FEW),
        listing({}, mine="true", key=video.API_KEY),
        # The credential is looked at before the request is.
        posting([], "nothing", headers={}),
    ],
    (401, "unauthorized", "authError"): [
        posting(TEXT, headers=by("Bearer unheard-of")),
    ],
    (403, "forbidden", "insufficientPermissions"): [
        posting(TEXT, headers=by(f"Bearer {video.READ_ONLY_TOKEN}")),
    ],
    **{(403, "forbidden", reason): [listing(channelId=name)] for name, reason in subscriptions.WITHHELD.items()},
    (404, "notFound", "videoNotFound"): [attaching("svc#video", videoId="x")],
    (404, "notFound", "playlistNotFound"): [attaching("svc#playlist", playlistId="x")],
    (404, "notFound", "subscriberNotFound"): [listing(channelId="UCunheard-of")],
    (404, "notFound", "notFound"): [{"method": "GET", "url": "/video/v3/channels"}],
    (405, "methodNotAllowed", "methodNotAllowed"): [{"method": "GET", "url": "/video/v3/activities"}],
}


@pytest.mark.parametrize(
    ("refusal", "number"), [(refusal, number) for refusal, asked in REFUSED.items() for number in range(len(asked))]
)
async def test_a_wrong_request_is_refused_with_its_reason(
    sandbox: Sandbox, refusal: tuple[int, str, str], number: int
) -> None:
    reply = await sandbox.request(**REFUSED[refusal][number])

    error = reply.json()["error"]
    (entry,) = error["errors"]
    assert (reply.status_code, entry["name"], entry["reason"]) == refusal
    assert (error["code"], error["message"]) == (reply.status_code, entry["message"])
    assert ("WWW-Authenticate" in reply.headers) is (reply.status_code == 401)
    assert sandbox.state.bulletins == []


async def test_a_wrong_api_key_is_named_as_google_names_it(sandbox: Sandbox) -> None:
    reply = await sandbox.request(**listing({}, mine="true", key="unheard-of"))

    assert reply.json()["error"]["details"][0]["reason"] == "API_KEY_INVALID"


async def test_a_spent_quota_is_refused_until_the_next_day() -> None:
    """A bulletin costs 50 units, and a page one, also if the request is wrong."""
    sandbox = Sandbox(video_daily_units=102)
    asked = [posting(TEXT), listing(mine="true", maxResults="51"), listing(mine="true"), posting(TEXT)]
    granted = [(await sandbox.request(**request)).status_code for request in asked]

    refused = [(await sandbox.request(**request)).json()["error"] for request in (listing(mine="true"), posting(TEXT))]
    assert granted == [200, 400, 200, 200]
    assert [(error["code"], error["errors"][0]["name"], error["errors"][0]["reason"]) for error in refused] == [
        (403, LIMIT, "rateLimitExceeded")
    ] * 2
    assert "per day" in refused[0]["message"]
    sandbox.clock.seconds += 12 * 3600
    assert (await sandbox.request(**posting(TEXT))).status_code == 200


async def test_a_page_token_is_good_for_its_own_question_only(sandbox: Sandbox) -> None:
    token = (await sandbox.request(**listing(channelId=FEW, maxResults=3))).json()["nextPageToken"]

    async def status(**changed: Any) -> int:
        reply = await sandbox.request(**listing(**{"channelId": FEW, "maxResults": 3, "pageToken": token, **changed}))
        return reply.status_code

    assert await status(part="id,snippet") == 200
    for changed in ({"maxResults": 2}, {"order": "unread"}, {"channelId": subscriptions.MINE}):
        assert await status(**changed) == 400


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"refresh_token": "revoked"}, 400, "invalid_grant"),
        ({"client_secret": "wrong"}, 401, "invalid_client"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"client_id": ""}, 400, "invalid_request"),
        ({"scope": "https://elsewhere.example/auth/all"}, 400, "invalid_scope"),
    ],
)
async def test_a_wrong_request_gets_no_token(
    sandbox: Sandbox, changes: dict[str, str], status: int, error: str
) -> None:
    reply = await sandbox.post("/video/oauth2/token", data={**FORM, **changes})

    assert (reply.status_code, reply.json()["error"]) == (status, error)
