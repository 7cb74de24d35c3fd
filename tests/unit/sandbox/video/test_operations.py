"""Posting bulletins, listing subscriptions, and getting access tokens (RFC 6749, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.video import subscriptions, tokens
from tests.unit.sandbox.credentials import BEARER, FORM, status_with

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox

TEXT = {"snippet": {"description": "Maintenance at noon"}}


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


async def refresh(sandbox: Sandbox, **changes: str | None) -> httpx.Response:
    form = {name: value for name, value in {**FORM, **changes}.items() if value is not None}
    return await sandbox.post("/video/oauth2/token", data=form)


class TestSubscriptions:
    async def test_a_page_token_is_good_for_its_own_question_only(self, sandbox: Sandbox) -> None:
        token = (await ask(sandbox, maxResults=3)).json()["nextPageToken"]

        assert (await ask(sandbox, maxResults=3, part="id", pageToken=token)).status_code == 200
        for changed in ({"maxResults": 2}, {"maxResults": 3, "order": "unread"}, {"maxResults": 3, "mine": "true"}):
            assert (await ask(sandbox, pageToken=token, **changed)).status_code == 400

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
