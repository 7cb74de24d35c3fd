"""The calls of the video platform: what is sent for bulletins and listings, and which replies are believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.http.exchange import Response
from airflow_provider_mediaops.video.arguments import Bulletin, SubscriptionQuery
from airflow_provider_mediaops.video.models import Subscription, SubscriptionPage


@pytest.mark.parametrize(
    ("bulletin", "part", "body"),
    [
        (Bulletin("Hello ✓"), "snippet", {"snippet": {"description": "Hello ✓"}}),
        (
            Bulletin("  ", playlist_id="p1"),
            "contentDetails",
            {"contentDetails": {"bulletin": {"resourceId": {"kind": "svc#playlist", "playlistId": "p1"}}}},
        ),
    ],
)
def test_the_part_of_a_bulletin_names_what_its_body_holds(bulletin: Bulletin, part: str, body: object) -> None:
    request = bulletin.post("svc").request
    assert (request.method, request.path) == ("POST", "/v3/activities")
    assert request.params == (("part", part),)
    assert json.loads(request.body or b"") == body
    assert request.headers["Content-Type"].startswith("application/json")
    assert not request.idempotent


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "bulletinTextRequired"),
        ({"text": " \n"}, "bulletinTextRequired"),
        ({"video_id": "", "playlist_id": ""}, "bulletinTextRequired"),
        ({"text": "Hello", "video_id": "v1", "playlist_id": "p1"}, "not both"),
        ({"text": "Hello", "video_id": " "}, "video_id is empty"),
        ({"text": "Hello", "playlist_id": "\t"}, "playlist_id is empty"),
        ({"text": 1.5}, "text is a text; not 1.5. A template with native objects needs quotes inside"),
        ({"text": "Hello", "video_id": ["v1"]}, "video_id is a text"),
        ({"video_id": "https://video.example/watch?v=v1"}, "video_id holds an address"),
        ({"playlist_id": "video.example/playlist?list=p1"}, "playlist_id holds an address"),
    ],
)
def test_bulletin_that_breaks_the_rules_raises(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Bulletin(**arguments)


def test_bulletin_of_integers_that_native_templates_made_has_texts() -> None:
    assert Bulletin(5, 6) == Bulletin("5", " 6 ")  # type: ignore[arg-type]
    assert Bulletin("Hello", "", None) == Bulletin("Hello")


def test_reply_with_an_activity_is_read() -> None:
    parse = Bulletin("Hello").post("svc").parse
    assert parse(Response(200, {}, b'{"id": "a1", "snippet": {"description": "Hello"}}')).id == "a1"
    assert parse(Response(200, {}, b'{"id": "a1", "snippet": null, "contentDetails": null}')).text is None
    # The document does not show that an activity has an id.
    assert parse(Response(200, {}, b'{"kind": "svc#Activity", "snippet": {"description": "Hello"}}')).text == "Hello"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"id": ["a1"]}',
        b'{"snippet": "text"}',
        b"{}",
        b'{"id": ""}',
        b'{"error": {"code": 500}}',
        b'{"id": "a1", "error": {"code": 500}}',
        b'{"kind": "svc#subscription", "id": "s1"}',
        b'{"snippet": {"description": "Hello"}}',
        b'{"kind": "' + b"x" * 10_000_000 + b'"}',
    ],
)
def test_reply_that_is_no_activity_raises(body: bytes) -> None:
    with pytest.raises(InvalidReplyError, match="The reply is") as caught:
        Bulletin("Hello").post("svc").parse(Response(200, {}, body))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("query", "token", "params"),
    [
        (SubscriptionQuery(mine=True), None, {"part": "id,snippet,contentDetails", "mine": "true"}),
        (
            SubscriptionQuery(
                channel_id="UC1",
                part=["snippet"],
                for_channel_ids=["UCa", "UCb"],
                order="SUBSCRIPTION_ORDER_RELEVANCE",
                max_results=0,
            ),
            "T1",
            {
                "part": "snippet",
                "channelId": "UC1",
                "forChannelId": "UCa,UCb",
                "maxResults": "0",
                "order": "SUBSCRIPTION_ORDER_RELEVANCE",
                "pageToken": "T1",
            },
        ),
        (
            SubscriptionQuery(ids=("s1", "s2"), max_results=50),
            "",
            {"part": "id,snippet,contentDetails", "id": "s1,s2", "maxResults": "50"},
        ),
    ],
)
def test_query_sends_every_parameter(query: SubscriptionQuery, token: str | None, params: dict[str, str]) -> None:
    request = query.page(token).request
    assert (request.method, request.path, request.idempotent) == ("GET", "/v3/subscriptions", True)
    assert dict(request.params) == params
    assert len(request.params) == len(params)


def test_query_of_rendered_templates_has_the_values_that_were_meant() -> None:
    query = SubscriptionQuery(ids="s1, s2", part="id,snippet", for_channel_ids=7, mine="no", max_results="5")  # type: ignore[arg-type]
    assert query == SubscriptionQuery(ids=["s1", "s2"], part=["id", "snippet"], for_channel_ids=["7"], max_results=5)
    assert SubscriptionQuery(mine="True").mine is True  # type: ignore[arg-type]
    assert SubscriptionQuery(channel_id=123).channel_id == "123"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "exactly one of channel_id, ids and mine=True, not none"),
        ({"channel_id": "UC1", "mine": True}, "not channel_id and mine"),
        ({"mine": "false"}, "none of them"),
        ({"mine": "perhaps"}, "mine is True or False; not 'perhaps'"),
        ({"mine": "{{ x }}"}, "Templates are not rendered in this argument"),
        ({"channel_id": " "}, "channel_id is empty"),
        ({"ids": []}, "ids needs at least one"),
        ({"ids": "s1,"}, "ids needs"),
        ({"ids": "['s1']"}, r"join\(','\)"),
        ({"ids": {"s1": 1}}, "ids is a list of texts, or one text with commas"),
        ({"mine": True, "part": []}, "part needs"),
        ({"mine": True, "part": ["id", "status"]}, "not 'status'"),
        ({"mine": True, "for_channel_ids": []}, "for_channel_ids needs"),
        ({"mine": True, "order": "Alphabetical"}, "not 'Alphabetical'"),
        ({"channel_id": "@Google"}, "channel_id holds a handle, .* '@Google'; write the identifier itself"),
        ({"channel_id": "https://video.example/@Google"}, "channel_id holds an address, .*; write the identifier"),
        ({"channel_id": "https://video.example/channel/UC1/"}, "channel_id holds an address, .*; write 'UC1'"),
        ({"mine": True, "for_channel_ids": "UC1,@Google"}, "an entry of for_channel_ids holds a handle"),
        ({"mine": True, "max_results": -1}, "0 to 50; not -1"),
        ({"mine": True, "max_results": "51"}, "0 to 50; not '51'"),
        ({"mine": True, "max_results": True}, "not True"),
    ],
)
def test_query_that_breaks_the_rules_raises(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SubscriptionQuery(**arguments)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "svc#subscriptionListResponse", "items": [{"id": "s1"}]},
        {"kind": "youtube#SubscriptionListResponse", "items": [{"id": "s1"}]},
        {"items": [{"id": "s1"}], "unknown": 1},
    ],
)
def test_page_of_any_prefix_and_case_is_read(body: object) -> None:
    page = SubscriptionQuery(mine=True).page().parse(Response(200, {}, json.dumps(body).encode()))
    assert [item["id"] for item in page.items] == ["s1"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b"<!doctype html><p>Sign in", "a web page"),
        (b'{"items": [{"id"', "not valid JSON"),
        (b"{}", "not a subscription list"),
        (b'{"kind": "svc#channelListResponse", "items": []}', "its kind is 'svc#channelListResponse'"),
        (b'{"items": {"0": {}}}', "items: "),
        (b'{"items": ["s1"]}', "items.0: "),
        (b'{"items": [' + b'"",' * 300_000 + b'""]}', "items.0: "),
        (b'{"items": [], "pageInfo": {"totalResults": 1e999}}', "a number that is too large"),
        (b'{"items": [], "kind": "&#' + b"9" * 5_000 + b';"}', "not a subscription list"),
    ],
)
def test_reply_that_is_no_page_raises(body: bytes, why: str) -> None:
    with pytest.raises(InvalidReplyError, match=why) as caught:
        SubscriptionQuery(mine=True).page().parse(Response(200, {}, body))
    assert len(str(caught.value)) < 400


def test_recorded_page_is_read_and_given_back_as_it_came(data: Path) -> None:
    recorded = json.loads((data / "video" / "subscription_page.json").read_text(encoding="utf-8"))
    page = SubscriptionPage.model_validate(recorded)
    assert page.to_dict() == recorded
    assert (page.next_page_token, page.prev_page_token) == ("CAIQAA", None)
    assert (page.page_info.total_results, page.page_info.results_per_page) == (120, 2)
    assert [subscription.title for subscription in page.subscriptions] == ["Lighthouse keepers", "Ærø by bike ✓"]
    assert [subscription.channel_id for subscription in page.subscriptions] == ["UClamp", "UCbike"]
    # What the service adds tomorrow is not lost today.
    assert page.subscriptions[1].to_dict()["statistics"] == {"rank": "9"}


@pytest.mark.parametrize("snippet", [None, {}, {"title": None}, {"title": 5}, {"resourceId": "x"}, {"resourceId": {}}])
def test_properties_of_any_shape_are_kept_and_titles_are_texts(snippet: object) -> None:
    subscription = Subscription.model_validate({"id": "s", "snippet": snippet})
    assert (subscription.title, subscription.channel_id) == (None, None)
    assert subscription.snippet == (snippet or {})


@pytest.mark.parametrize("strange", [{"id": 5}, {"id": ["s3cr3t"]}, {"snippet": "s3cr3t"}, {"contentDetails": [1]}])
def test_record_with_a_field_of_another_type_is_a_typed_error_of_its_page(strange: dict[str, object]) -> None:
    page = SubscriptionPage.model_validate({"items": [strange]})
    with pytest.raises(
        InvalidReplyError, match=f"not a subscription: {next(iter(strange))}: Input should be"
    ) as caught:
        _ = page.subscriptions
    assert "s3cr3t" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    # Whoever reads the records as they came gets this one, too.
    assert page.items == [strange]
