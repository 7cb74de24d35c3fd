"""Getting access tokens for a refresh token (RFC 6749 section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.sandbox.video import tokens
from tests.unit.sandbox.credentials import FORM, status_with

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox


async def refresh(sandbox: Sandbox, **changes: str | None) -> httpx.Response:
    form = {name: value for name, value in {**FORM, **changes}.items() if value is not None}
    return await sandbox.post("/video/oauth2/token", data=form)


async def test_a_token_is_good_until_it_runs_out(sandbox: Sandbox) -> None:
    reply = (await refresh(sandbox)).json()

    assert (reply["token_type"], reply["expires_in"]) == ("Bearer", 3_599)
    assert "refresh_token" not in reply
    sandbox.clock.seconds += 3_598
    assert await status_with(sandbox, reply["access_token"]) == 200
    sandbox.clock.seconds += 1
    assert await status_with(sandbox, reply["access_token"]) == 401


async def test_each_refresh_gives_another_token_and_leaves_the_first_good(sandbox: Sandbox) -> None:
    first, second = [(await refresh(sandbox)).json()["access_token"] for _ in range(2)]

    assert first != second
    assert [await status_with(sandbox, token) for token in (first, second)] == [200, 200]


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
    sandbox: Sandbox, changes: dict[str, str | None], status: int, error: str
) -> None:
    reply = await refresh(sandbox, **changes)

    assert (reply.status_code, reply.json()["error"]) == (status, error)


async def test_a_token_has_the_scopes_asked_for(sandbox: Sandbox) -> None:
    reply = (await refresh(sandbox, scope=tokens.READ_SCOPE)).json()
    refused = await sandbox.post(
        "/video/v3/activities",
        params={"part": "snippet"},
        json={"snippet": {"description": "x"}},
        headers={"Authorization": f"Bearer {reply['access_token']}"},
    )

    assert reply["scope"] == tokens.READ_SCOPE
    assert refused.json()["error"]["errors"][0]["reason"] == "insufficientPermissions"
