"""The parameters that every operation of a Google-like API takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.video import subscriptions, tokens
from tests.unit.sandbox.credentials import BEARER
from tests.unit.sandbox.video.refusals import reason_of

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox

OPERATIONS = ["list", "insert"]


async def ask(
    sandbox: Sandbox, operation: str, *, headers: dict[str, str] | None = None, **common: Any
) -> httpx.Response:
    headers = BEARER if headers is None else headers
    if operation == "list":
        query = {"part": "snippet", "channelId": subscriptions.FEW, **common}
        return await sandbox.get("/video/v3/subscriptions", params=query, headers=headers)
    return await sandbox.post(
        "/video/v3/activities",
        params={"part": "snippet", **common},
        json={"snippet": {"description": "x"}},
        headers=headers,
    )


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "common",
    [{"alt": "json"}, {"quotaUser": "somebody"}, {"key": tokens.API_KEY}, {"$.xgafv": "1"}, {"prettyPrint": "true"}],
)
async def test_they_change_nothing_in_the_reply(
    make_sandbox: type[Sandbox], operation: str, common: dict[str, Any]
) -> None:
    plain, marked = [await ask(make_sandbox(), operation, **query) for query in ({}, common)]

    assert (marked.status_code, marked.text) == (200, plain.text)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("common", "said"),
    [
        ({"alt": "media"}, "alt: "),
        ({"alt": "proto"}, "alt: "),
        ({"prettyPrint": "yes"}, "prettyPrint: "),
        ({"$.xgafv": "2"}, "$.xgafv: "),
        ({"callback": "read"}, "callback: Replies are not wrapped in a call (JSONP)"),
        ({"fields": ""}, "fields: "),
        ({"fields": "nothing"}, "Request contains an invalid argument."),
        ({"alt": ["json", "json"]}, "'alt' may be given once only."),
    ],
)
async def test_a_wrong_value_is_refused_before_anything_is_done(
    sandbox: Sandbox, operation: str, common: dict[str, Any], said: str
) -> None:
    reply = await ask(sandbox, operation, **common)

    assert reason_of(reply) == (400, "invalidParameter")
    assert reply.json()["error"]["message"].startswith(said)
    assert sandbox.state.bulletins == []


async def test_a_reply_is_indented_unless_it_is_asked_for_in_one_line(sandbox: Sandbox) -> None:
    replies = [await ask(sandbox, "list", prettyPrint=pretty) for pretty in ("true", "false")]

    assert [reply.text.count("\n") for reply in replies] == [len(replies[0].text.splitlines()), 1]
    assert '\n  "items": [' in replies[0].text
    assert replies[0].json() == replies[1].json()
    assert {reply.headers["Content-Type"] for reply in replies} == {"application/json; charset=UTF-8"}


async def test_a_reply_has_the_selected_fields_only(sandbox: Sandbox) -> None:
    listed = (await ask(sandbox, "list", fields="pageInfo/totalResults,items/snippet(title,channelId)")).json()
    posted = (await ask(sandbox, "insert", fields="id,snippet/description")).json()

    assert listed.keys() == {"pageInfo", "items"}
    assert listed["pageInfo"] == {"totalResults": 7}
    assert {frozenset(item["snippet"]) for item in listed["items"]} == {frozenset({"title", "channelId"})}
    assert posted == {"id": "BULLETIN-000001", "snippet": {"description": "x"}}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_field_of_a_reply_can_be_selected(make_sandbox: type[Sandbox], operation: str) -> None:
    whole = (await ask(make_sandbox(), operation)).json()

    def paths(value: Any) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(paths, value))
        if not isinstance(value, dict):
            return {""}
        return {f"{name}/{below}".rstrip("/") for name, each in value.items() for below in paths(each)}

    selected = await ask(make_sandbox(), operation, fields=",".join(paths(whole)))
    assert selected.json() == whole


async def test_a_field_that_does_not_exist_is_named_as_google_does_it(sandbox: Sandbox) -> None:
    (details,) = (await ask(sandbox, "list", fields="kind,items/nothing")).json()["error"]["details"]

    assert details["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert details["fieldViolations"] == [
        {
            "field": "kind,items/nothing",
            "description": "Error expanding 'fields' parameter. Cannot find matching fields for path 'items/nothing'.",
        }
    ]


@pytest.mark.parametrize("name", ["access_token", "oauth_token"])
async def test_an_access_token_can_come_as_a_parameter(sandbox: Sandbox, name: str) -> None:
    right: dict[str, Any] = {name: tokens.BEARER_TOKEN}
    other: dict[str, Any] = {name: "unheard-of"}
    good = await ask(sandbox, "insert", headers={}, **right)
    wrong = await ask(sandbox, "insert", headers={}, **other)
    twice = await ask(sandbox, "insert", **right)

    assert good.status_code == 200
    assert reason_of(wrong) == (401, "authError")
    assert reason_of(twice) == (400, "badRequest")
    assert tokens.BEARER_TOKEN not in (await sandbox.get("/_sandbox/requests")).text


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_wrong_key_is_refused_beside_a_good_token_too(sandbox: Sandbox, operation: str) -> None:
    reply = await ask(sandbox, operation, key="unheard-of")

    assert reason_of(reply) == (400, "badRequest")
    assert reply.json()["error"]["details"][0]["reason"] == "API_KEY_INVALID"


async def test_each_user_of_a_credential_has_a_rate_of_its_own(make_sandbox: type[Sandbox]) -> None:
    sandbox = make_sandbox(video_requests_per_second=1)

    users = ("a", "b", "a")
    assert [(await ask(sandbox, "list", quotaUser=user)).status_code for user in users] == [200, 200, 403]
