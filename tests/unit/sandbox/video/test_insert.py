"""Posting bulletins: parts and body, credentials, quota."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.video import bulletins, tokens
from tests.unit.sandbox.credentials import BEARER
from tests.unit.sandbox.video.refusals import reason_of

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox

TEXT = {"snippet": {"description": "Maintenance at noon"}}


def resource(kind: str, **ids: str) -> dict[str, Any]:
    return {"contentDetails": {"bulletin": {"resourceId": {"kind": kind, **ids}}}}


async def insert(
    sandbox: Sandbox, body: Any, part: str | None = None, headers: dict[str, str] | None = None
) -> httpx.Response:
    part = ",".join(body) if part is None else part
    return await sandbox.post(
        "/video/v3/activities", params={"part": part}, json=body, headers=BEARER if headers is None else headers
    )


async def test_a_text_is_posted_and_kept(sandbox: Sandbox) -> None:
    reply = await insert(sandbox, TEXT)

    assert reply.status_code == 200
    activity = reply.json()
    assert activity["kind"] == "svc#activity"
    assert activity["snippet"]["description"] == "Maintenance at noon"
    assert activity["snippet"]["publishedAt"] == "2025-03-01T12:00:00.000Z"
    assert "contentDetails" not in activity
    assert (await sandbox.get("/_sandbox/bulletins")).json() == [activity]


@pytest.mark.parametrize(
    "body",
    [
        resource("svc#video", videoId=bulletins.VIDEOS[0]),
        resource("svc#playlist", playlistId=bulletins.PLAYLISTS[0]),
        TEXT | resource("svc#video", videoId=bulletins.VIDEOS[1]),
        {"snippet": {}} | resource("svc#video", videoId=bulletins.VIDEOS[1]),
        TEXT | {"contentDetails": {}},
    ],
)
async def test_a_video_or_a_playlist_is_posted_with_or_without_text(sandbox: Sandbox, body: dict[str, Any]) -> None:
    reply = await insert(sandbox, body)

    assert reply.status_code == 200
    assert reply.json()["contentDetails"] == body["contentDetails"]
    assert ("snippet" in reply.json()) == ("snippet" in body)


async def test_two_bulletins_have_two_ids(sandbox: Sandbox) -> None:
    first, second = [(await insert(sandbox, TEXT)).json() for _ in range(2)]

    assert first["id"] != second["id"]
    assert first["etag"] != second["etag"]


@pytest.mark.parametrize(
    "body",
    [
        {"snippet": {}},
        {"snippet": {"description": " \n"}},
        {"snippet": {"description": None}},
        {"contentDetails": {}},
        {"contentDetails": {"bulletin": {}}, "snippet": {}},
    ],
)
async def test_a_bulletin_that_carries_nothing_needs_a_text(sandbox: Sandbox, body: dict[str, Any]) -> None:
    assert reason_of(await insert(sandbox, body)) == (400, "bulletinTextRequired")
    assert sandbox.state.bulletins == []


@pytest.mark.parametrize(
    "body",
    [
        resource("svc#video", playlistId=bulletins.PLAYLISTS[0]),
        resource("svc#playlist", videoId=bulletins.VIDEOS[0]),
        resource("svc#video", videoId=bulletins.VIDEOS[0], playlistId=bulletins.PLAYLISTS[0]),
        resource("svc#video"),
        {"contentDetails": {"bulletin": {"resourceId": {"videoId": bulletins.VIDEOS[0]}}}},
        resource("svc#channel", videoId=bulletins.VIDEOS[0]),
        resource("youtube#video", videoId=bulletins.VIDEOS[0]),
    ],
)
async def test_the_kind_must_match_the_one_id(sandbox: Sandbox, body: dict[str, Any]) -> None:
    assert reason_of(await insert(sandbox, body)) == (400, "invalidMetadata")


@pytest.mark.parametrize(
    ("body", "part", "reason"),
    [
        (TEXT, "snippet,contentDetails", "missingPart"),
        (TEXT | {"contentDetails": None}, "snippet,contentDetails", "missingPart"),
        (TEXT | resource("svc#video", videoId=bulletins.VIDEOS[0]), "snippet", "unexpectedPart"),
        (TEXT, "snippet,id", "unknownPart"),
        (TEXT, "", "unknownPart"),
        (TEXT, "snippet, contentDetails", "unknownPart"),
    ],
)
async def test_part_names_exactly_the_properties_of_the_body(
    sandbox: Sandbox, body: dict[str, Any], part: str, reason: str
) -> None:
    assert reason_of(await insert(sandbox, body, part)) == (400, reason)


async def test_part_is_required(sandbox: Sandbox) -> None:
    reply = await sandbox.post("/video/v3/activities", json=TEXT, headers=BEARER)

    assert reason_of(reply) == (400, "missingRequiredParameter")
    assert reply.json()["error"]["errors"][0]["location"] == "part"


@pytest.mark.parametrize(
    "body",
    [
        {"snippet": {"description": 5}},
        {"snippet": {"title": "no such field"}},
        TEXT | {"status": {}},
        {"contentDetails": []},
        [],
    ],
)
async def test_a_body_of_another_shape_is_refused(sandbox: Sandbox, body: Any) -> None:
    assert reason_of(await insert(sandbox, body, "snippet")) == (400, "invalid")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (401, "required")),
        ({"Authorization": "Bearer unheard-of"}, (401, "authError")),
        ({"Authorization": f"Basic {tokens.BEARER_TOKEN}"}, (401, "authError")),
        ({"Authorization": f"Bearer {tokens.READ_ONLY_TOKEN}"}, (403, "insufficientPermissions")),
    ],
)
async def test_posting_needs_a_good_token_with_the_scope(
    sandbox: Sandbox, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    assert reason_of(await insert(sandbox, TEXT, headers=headers)) == expected
    # The credential is looked at before the request is: a wrong request gets the same answer.
    assert reason_of(await insert(sandbox, [], part="nothing", headers=headers)) == expected


async def test_an_api_key_cannot_post(sandbox: Sandbox) -> None:
    reply = await sandbox.post("/video/v3/activities", params={"part": "snippet", "key": tokens.API_KEY}, json=TEXT)

    assert reason_of(reply) == (401, "required")


async def test_a_bulletin_costs_fifty_units_of_the_day(make_sandbox: type[Sandbox]) -> None:
    sandbox = make_sandbox(video_daily_units=120)

    replies = [await insert(sandbox, TEXT) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 403]
    assert reason_of(replies[2]) == (403, "rateLimitExceeded")
    assert "per day" in replies[2].json()["error"]["message"]

    sandbox.clock.seconds += 12 * 3600
    assert (await insert(sandbox, TEXT)).status_code == 200


async def test_the_prefix_of_kinds_is_a_setting(make_sandbox: type[Sandbox]) -> None:
    sandbox = make_sandbox(kind_prefix="youtube")

    reply = await insert(sandbox, resource("youtube#video", videoId=bulletins.VIDEOS[0]))
    assert reply.json()["kind"] == "youtube#activity"
    refused = await insert(sandbox, resource("svc#video", videoId=bulletins.VIDEOS[0]))
    assert reason_of(refused) == (400, "invalidMetadata")
