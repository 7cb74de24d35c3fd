"""Posting bulletins, listing subscriptions, and getting access tokens (RFC 6749, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.video import bulletins, subscriptions, tokens
from tests.unit.sandbox.credentials import BEARER, FORM, status_with

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox

TEXT = {"snippet": {"description": "Maintenance at noon"}}


def resource(kind: str, **ids: str) -> dict[str, Any]:
    return {"contentDetails": {"bulletin": {"resourceId": {"kind": kind, **ids}}}}


async def insert(sandbox: Sandbox, body: dict[str, Any], token: str = tokens.BEARER_TOKEN) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return await sandbox.post("/video/v3/activities", params={"part": ",".join(body)}, json=body, headers=headers)


async def ask(sandbox: Sandbox, **query: Any) -> httpx.Response:
    if not query.keys() & {"mine", "id", "channelId"}:
        query["channelId"] = subscriptions.FEW
    params = {"part": "id,snippet,contentDetails", **query}
    return await sandbox.get("/video/v3/subscriptions", params=params, headers=BEARER)


async def items(sandbox: Sandbox, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await ask(sandbox, **query)).json()["items"]
    return found


async def walk(sandbox: Sandbox, **query: Any) -> list[dict[str, Any]]:
    """Follow nextPageToken to the end."""
    pages = [(await ask(sandbox, **query)).json()]
    while token := pages[-1].get("nextPageToken"):
        pages.append((await ask(sandbox, pageToken=token, **query)).json())
    return pages


async def refresh(sandbox: Sandbox, **changes: str | None) -> httpx.Response:
    form = {name: value for name, value in {**FORM, **changes}.items() if value is not None}
    return await sandbox.post("/video/oauth2/token", data=form)


class TestBulletins:
    async def test_a_text_is_posted_and_kept(self, sandbox: Sandbox) -> None:
        activity = (await insert(sandbox, TEXT)).json()

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
            {"snippet": {}} | resource("svc#video", videoId=bulletins.VIDEOS[1]),
            TEXT | {"contentDetails": {}},
        ],
    )
    async def test_a_video_or_a_playlist_is_posted_with_or_without_text(
        self, sandbox: Sandbox, body: dict[str, Any]
    ) -> None:
        posted = (await insert(sandbox, body)).json()

        assert posted["contentDetails"] == body["contentDetails"]
        assert ("snippet" in posted) == ("snippet" in body)


class TestSubscriptions:
    async def test_a_reply_has_the_documented_fields(self, sandbox: Sandbox) -> None:
        reply = (await ask(sandbox, maxResults=3)).json()

        assert reply["kind"] == "svc#subscriptionListResponse"
        assert reply["pageInfo"] == {"totalResults": 7, "resultsPerPage": 3}
        assert reply["etag"]
        item = reply["items"][0]
        assert item["kind"] == "svc#subscription"
        assert item["snippet"]["title"]
        assert item["snippet"]["channelId"] == subscriptions.FEW
        assert item["snippet"]["resourceId"]["kind"] == "svc#channel"
        assert item["contentDetails"].keys() == {"totalItemCount", "newItemCount", "activityType"}

    async def test_the_previous_page_comes_back_by_its_token(self, sandbox: Sandbox) -> None:
        first, second, third = await walk(sandbox, maxResults=3)

        assert (await ask(sandbox, maxResults=3, pageToken=third["prevPageToken"])).json() == second
        assert (await ask(sandbox, maxResults=3, pageToken=second["prevPageToken"])).json() == first

    async def test_a_page_of_no_results_and_one_of_all_lead_nowhere(self, sandbox: Sandbox) -> None:
        reply, whole = [(await ask(sandbox, maxResults=size)).json() for size in (0, 7)]

        assert (reply["items"], reply["pageInfo"]) == ([], {"totalResults": 7, "resultsPerPage": 0})
        assert not {"nextPageToken", "prevPageToken"} & {*reply, *whole}

    async def test_a_page_token_is_good_for_its_own_question_only(self, sandbox: Sandbox) -> None:
        token = (await ask(sandbox, maxResults=3)).json()["nextPageToken"]

        assert (await ask(sandbox, maxResults=3, part="id", pageToken=token)).status_code == 200
        for changed in ({"maxResults": 2}, {"maxResults": 3, "order": "unread"}, {"maxResults": 3, "mine": "true"}):
            assert (await ask(sandbox, pageToken=token, **changed)).status_code == 400

    async def test_each_order_sorts_by_its_own_field(self, sandbox: Sandbox) -> None:
        by_title, by_news, *by_relevance = [
            await items(sandbox, maxResults=50, **({"order": order} if order else {}))
            for order in ("alphabetical", "unread", "", "relevance", "SUBSCRIPTION_ORDER_RELEVANCE")
        ]

        titles = [item["snippet"]["title"].casefold() for item in by_title]
        news = [item["contentDetails"]["newItemCount"] for item in by_news]
        assert titles == sorted(titles)
        assert news == sorted(news, reverse=True)
        assert len(set(news)) > 1
        assert by_relevance[0] == by_relevance[1] == by_relevance[2]

    async def test_filters_choose_by_topic_by_id_and_by_user(self, sandbox: Sandbox) -> None:
        few, mine = (await items(sandbox))[0], (await items(sandbox, mine="true"))[0]

        wanted = "UCtopic-000002,UCtopic-000005,UCtopic-999999"
        topics = await items(sandbox, forChannelId=wanted)
        by_id = (await ask(sandbox, id=f"{few['id']},unheard-of,{mine['id']},{few['id']}")).json()
        assert sorted(item["snippet"]["resourceId"]["channelId"] for item in topics) == wanted.split(",")[:2]
        assert {item["id"] for item in by_id["items"]} == {few["id"], mine["id"]}
        assert by_id["pageInfo"]["totalResults"] == 2
        assert mine["snippet"]["channelId"] == subscriptions.MINE
        assert await items(sandbox, channelId=subscriptions.NONE) == []


class TestTokens:
    async def test_each_token_is_good_until_it_runs_out(self, sandbox: Sandbox) -> None:
        first, second = [(await refresh(sandbox)).json() for _ in range(2)]
        issued = [reply["access_token"] for reply in (first, second)]

        assert (first["token_type"], first["expires_in"]) == ("Bearer", 3_599)
        assert "refresh_token" not in first
        assert issued[0] != issued[1]
        sandbox.clock.seconds += 3_598
        assert [await status_with(sandbox, token) for token in issued] == [200, 200]
        sandbox.clock.seconds += 1
        assert [await status_with(sandbox, token) for token in issued] == [401, 401]

    @pytest.mark.parametrize(
        ("changes", "status", "error"),
        [
            ({"refresh_token": "revoked"}, 400, "invalid_grant"),
            ({"client_secret": "wrong"}, 401, "invalid_client"),
            ({"client_id": "wrong"}, 401, "invalid_client"),
            ({"grant_type": "password"}, 400, "unsupported_grant_type"),
            ({"client_id": None}, 400, "invalid_request"),
            ({"scope": f"{tokens.WRITE_SCOPE} https://elsewhere.example/auth/all"}, 400, "invalid_scope"),
        ],
    )
    async def test_a_wrong_request_gets_no_token(
        self, sandbox: Sandbox, changes: dict[str, str | None], status: int, error: str
    ) -> None:
        reply = await refresh(sandbox, **changes)

        assert (reply.status_code, reply.json()["error"]) == (status, error)

    async def test_a_token_has_the_scopes_asked_for(self, sandbox: Sandbox) -> None:
        reply = (await refresh(sandbox, scope=tokens.READ_SCOPE)).json()
        refused = await insert(sandbox, TEXT, reply["access_token"])

        assert reply["scope"] == tokens.READ_SCOPE
        assert refused.json()["error"]["errors"][0]["reason"] == "insufficientPermissions"
