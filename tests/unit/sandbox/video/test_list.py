"""Listing subscriptions: filters, orders, pages, credentials, quota."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.video import subscriptions, tokens
from tests.unit.sandbox.credentials import BEARER
from tests.unit.sandbox.video.refusals import reason_of

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox

ALL_PARTS = "id,snippet,contentDetails"


async def ask(sandbox: Sandbox, headers: dict[str, str] | None = None, **query: Any) -> httpx.Response:
    parameters = {"part": ALL_PARTS, **query}
    if not parameters.keys() & {"mine", "id", "channelId"}:
        parameters["channelId"] = subscriptions.FEW
    return await sandbox.get(
        "/video/v3/subscriptions",
        params={name: value for name, value in parameters.items() if value is not None},
        headers=BEARER if headers is None else headers,
    )


async def walk(sandbox: Sandbox, **query: Any) -> list[dict[str, Any]]:
    """Follow nextPageToken to the end."""
    pages, token = [], None
    while True:
        reply = await ask(sandbox, pageToken=token, **query)
        assert reply.status_code == 200
        pages.append(reply.json())
        token = pages[-1].get("nextPageToken")
        if token is None:
            return pages
        sandbox.clock.seconds += 1


async def test_a_reply_has_the_documented_fields(sandbox: Sandbox) -> None:
    reply = (await ask(sandbox, maxResults=3)).json()

    assert reply["kind"] == "svc#subscriptionListResponse"
    assert reply["pageInfo"] == {"totalResults": 7, "resultsPerPage": 3}
    assert reply["etag"]
    assert len(reply["items"]) == 3
    item = reply["items"][0]
    assert item["kind"] == "svc#subscription"
    assert item["snippet"]["title"]
    assert item["snippet"]["channelId"] == subscriptions.FEW
    assert item["snippet"]["resourceId"]["kind"] == "svc#channel"
    assert item["contentDetails"].keys() == {"totalItemCount", "newItemCount", "activityType"}


@pytest.mark.parametrize(
    ("part", "shown"),
    [("id", {"id"}), ("snippet", {"snippet"}), ("id,contentDetails", {"id", "contentDetails"})],
)
async def test_an_item_shows_the_parts_asked_for(sandbox: Sandbox, part: str, shown: set[str]) -> None:
    item = (await ask(sandbox, part=part)).json()["items"][0]

    assert item.keys() == {"kind", "etag"} | shown


async def test_five_come_where_no_number_is_asked_for(sandbox: Sandbox) -> None:
    assert len((await ask(sandbox)).json()["items"]) == 5


@pytest.mark.parametrize("size", [1, 50])
async def test_pages_hold_every_subscription_once(make_sandbox: type[Sandbox], size: int) -> None:
    sandbox = make_sandbox(subscriptions=124)
    pages = await walk(sandbox, channelId=subscriptions.MINE, maxResults=size)

    ids = [item["id"] for page in pages for item in page["items"]]
    assert len(ids) == len(set(ids)) == 124
    assert {page["pageInfo"]["totalResults"] for page in pages} == {124}
    assert len(pages) == -(-124 // size)
    assert "prevPageToken" not in pages[0]


async def test_the_user_s_own_channel_has_more_than_a_thousand_by_default(sandbox: Sandbox) -> None:
    pages = await walk(sandbox, channelId=subscriptions.MINE, maxResults=50)

    assert sum(len(page["items"]) for page in pages) == 1_234


async def test_the_previous_page_comes_back_by_its_token(sandbox: Sandbox) -> None:
    first, second, third = await walk(sandbox, maxResults=3)

    assert (await ask(sandbox, maxResults=3, pageToken=third["prevPageToken"])).json() == second
    assert (await ask(sandbox, maxResults=3, pageToken=second["prevPageToken"])).json() == first


async def test_a_page_of_no_results_leads_nowhere(sandbox: Sandbox) -> None:
    reply = (await ask(sandbox, maxResults=0)).json()

    assert reply["items"] == []
    assert reply["pageInfo"] == {"totalResults": 7, "resultsPerPage": 0}
    assert "nextPageToken" not in reply


async def test_a_page_token_is_good_for_its_own_question_only(sandbox: Sandbox) -> None:
    token = (await ask(sandbox, maxResults=3)).json()["nextPageToken"]

    assert (await ask(sandbox, maxResults=3, part="id", pageToken=token)).status_code == 200
    for changed in ({"maxResults": 2}, {"maxResults": 3, "order": "unread"}, {"maxResults": 3, "mine": "true"}):
        assert reason_of(await ask(sandbox, pageToken=token, **changed)) == (400, "invalidPageToken")


@pytest.mark.parametrize("token", ["x", "é", "AAAA", base64.urlsafe_b64encode(bytes(9)).decode()])
async def test_an_invented_page_token_is_refused(sandbox: Sandbox, token: str) -> None:
    assert reason_of(await ask(sandbox, pageToken=token)) == (400, "invalidPageToken")


async def test_alphabetical_order_is_by_title(sandbox: Sandbox) -> None:
    pages = await walk(sandbox, order="alphabetical", maxResults=2)

    titles = [item["snippet"]["title"].casefold() for page in pages for item in page["items"]]
    assert titles == sorted(titles)


async def test_unread_order_is_by_activity(sandbox: Sandbox) -> None:
    items = (await ask(sandbox, order="unread", maxResults=50)).json()["items"]

    news = [item["contentDetails"]["newItemCount"] for item in items]
    assert news == sorted(news, reverse=True)
    assert len(set(news)) > 1


async def test_relevance_is_the_default_order_under_either_name(sandbox: Sandbox) -> None:
    replies = [await ask(sandbox, order=order) for order in (None, "relevance", "SUBSCRIPTION_ORDER_RELEVANCE")]

    items = [reply.json()["items"] for reply in replies]
    assert items[0] == items[1] == items[2]


async def test_for_channel_id_keeps_subscriptions_to_those_channels(sandbox: Sandbox) -> None:
    items = (await ask(sandbox, forChannelId="UCtopic-000002,UCtopic-000005,UCtopic-999999")).json()["items"]

    assert {item["snippet"]["resourceId"]["channelId"] for item in items} == {"UCtopic-000002", "UCtopic-000005"}


async def test_ids_are_looked_up_over_all_channels(sandbox: Sandbox) -> None:
    mine = (await ask(sandbox, mine="true")).json()["items"][0]
    few = (await ask(sandbox)).json()["items"][0]

    found = (await ask(sandbox, id=f"{few['id']},unheard-of,{mine['id']},{few['id']}")).json()
    assert {item["id"] for item in found["items"]} == {few["id"], mine["id"]}
    assert found["pageInfo"]["totalResults"] == 2


async def test_mine_gives_the_token_s_own(sandbox: Sandbox) -> None:
    items = (await ask(sandbox, mine="true")).json()["items"]

    assert {item["snippet"]["channelId"] for item in items} == {subscriptions.MINE}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"part": None}, "missingRequiredParameter"),
        ({"part": "id,statistics"}, "unknownPart"),
        ({"mine": "true", "channelId": subscriptions.FEW}, "incompatibleParameters"),
        ({"mine": "false", "id": "SUB-few-000001"}, "incompatibleParameters"),
        ({"mine": "false"}, "missingRequiredParameter"),
        ({"mine": "yes"}, "invalidParameter"),
        ({"channelId": ""}, "invalidParameter"),
        ({"maxResults": 51}, "invalidParameter"),
        ({"maxResults": -1}, "invalidParameter"),
        ({"order": "date"}, "invalidParameter"),
        ({"pageToken": ""}, "invalidParameter"),
        ({"channel_id": subscriptions.FEW}, "unexpectedParameter"),
    ],
)
async def test_a_wrong_request_is_refused(sandbox: Sandbox, query: dict[str, Any], reason: str) -> None:
    assert reason_of(await ask(sandbox, **query)) == (400, reason)


async def test_one_filter_is_needed(sandbox: Sandbox) -> None:
    reply = await sandbox.get("/video/v3/subscriptions", params={"part": "id"}, headers=BEARER)

    assert reason_of(reply) == (400, "missingRequiredParameter")


async def test_a_channel_without_subscriptions_has_an_empty_list(sandbox: Sandbox) -> None:
    reply = (await ask(sandbox, channelId=subscriptions.NONE)).json()

    assert reply["items"] == []
    assert reply["pageInfo"]["totalResults"] == 0


async def test_an_api_key_reads_public_data_only(sandbox: Sandbox) -> None:
    assert (await ask(sandbox, headers={}, key=tokens.API_KEY)).status_code == 200
    assert reason_of(await ask(sandbox, headers={}, key=tokens.API_KEY, mine="true")) == (401, "required")


async def test_a_wrong_api_key_is_refused(sandbox: Sandbox) -> None:
    reply = await ask(sandbox, headers={}, key="unheard-of")

    assert reason_of(reply) == (400, "badRequest")
    assert reply.json()["error"]["details"][0]["reason"] == "API_KEY_INVALID"


async def test_nobody_reads_without_a_credential(sandbox: Sandbox) -> None:
    reply = await ask(sandbox, headers={})

    assert reason_of(reply) == (401, "required")
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")


async def test_wrong_requests_cost_a_unit_too(make_sandbox: type[Sandbox]) -> None:
    sandbox = make_sandbox(video_daily_units=2)
    await ask(sandbox, maxResults=51)
    await ask(sandbox)

    assert reason_of(await ask(sandbox)) == (403, "rateLimitExceeded")
