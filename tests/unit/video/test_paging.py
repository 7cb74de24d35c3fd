"""A listing over all pages: each record once, whether it is complete, and what a refused page token makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_mediaops.exceptions import BadRequestError, NotFoundError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Request, Response, Wait
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from airflow_provider_mediaops.video.errors import VIDEO_RULES
from airflow_provider_mediaops.video.paging import Listing, list_pages
from tests.unit.call_flows import items_of, pauses_of, replay, requests_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Step

QUERY = SubscriptionQuery(mine=True, max_results=50)


def refusal(reason: str) -> Response:
    return Response(400, {}, json.dumps({"error": {"errors": [{"reason": reason}]}}).encode())


REFUSED = refusal("invalidPageToken")


def page(*ids: str | None, token: str | None = None, total: int | None = None) -> Response:
    items = [{"id": each} if each else {"snippet": {"title": "same"}} for each in ids]
    following = {"nextPageToken": token} if token else {}
    info = {"pageInfo": {"totalResults": total}} if total is not None else {}
    return Response(200, {}, json.dumps({"items": items, **following, **info}).encode())


@dataclass
class Listed:
    """What a listing over canned pages did."""

    listing: Listing
    fresh: list[str | None] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)


def list_over(replies: list[Response], *, query: SubscriptionQuery = QUERY, token: str | None = None) -> Listed:
    steps: list[Step] = []
    warnings: list[str] = []
    listing = Listing(query, token, warnings.append)
    client = Client(("http://video",), VIDEO_RULES)
    try:
        replay(list_pages(client.ask, listing), replies, steps=steps)
    finally:
        listed = Listed(listing, warnings=warnings, pauses=pauses_of(steps))
        listed.fresh = [item.get("id") for each in items_of(steps) for item in each.fresh]
        sent = [dict(request.params) for request in requests_of(steps)]
        listed.tokens = [params.get("pageToken") for params in sent]
        listed.parts = {params["part"] for params in sent}
    return listed


@pytest.mark.parametrize(
    ("part", "asked"), [(("snippet",), "id,snippet"), (("snippet", "id"), "snippet,id"), (("id",), "id")]
)
def test_records_are_always_asked_for_with_their_id(part: tuple[str, ...], asked: str) -> None:
    listed = list_over([page("a", token="T1"), page("b")], query=SubscriptionQuery(mine=True, part=part))
    assert listed.parts == {asked}


PAIRS = SubscriptionQuery(mine=True, max_results=2)
#: Pages, the records that a listing of them gives, and why it is not complete; empty if it is.
LISTINGS: dict[str, tuple[list[Response], str, str]] = {
    "three pages": ([page("a", "b", token="T1"), page("c", token="T2"), page("d")], "abcd", ""),
    "empty pages between": ([page(token="T1"), page("a", token="T2"), page(token="T3"), page("b")], "ab", ""),
    "records that come again": ([page("a", "b", "a", token="T1"), page("b", "c")], "abc", ""),
    "two pages of known records": (
        [page("a", token="T1"), page("a", token="T2"), page("a", token="T3"), page("b", token="T4"), page("a")],
        "ab",
        "",
    ),
    "a token twice": (
        [page("a", token="T1"), page("b", token="T2"), page("c", token="T1")],
        "abc",
        "ends after 3 pages, because the service gave a page token for the second time.",
    ),
    "three pages of known records": (
        [page("a", "b", token="T1"), *(page("a", "b", token=f"T{turn}") for turn in range(2, 5))],
        "ab",
        "3 pages in a row held nothing new",
    ),
    "known records and empty pages in turns": (
        [page("a", token="T0"), *(page(*"a" * (turn % 2), token=f"T{turn}") for turn in range(1, 6))],
        "a",
        "held nothing new",
    ),
    "empty pages without end": (
        [page("a", token="T0"), *(page(token=f"T{turn}") for turn in range(1, 201))],
        "a",
        "200 pages in a row were empty",
    ),
    "a full last page of a far larger total": (
        [page("a", "b", token="T1", total=9), page("c", "d", total=9)],
        "abcd",
        "2 pages, because the last one is full and leads to no next one, and 4 of 9 announced records came",
    ),
    "twice what came": ([page("a", "b", token="T1", total=8), page("c", "d", total=8)], "abcd", ""),
    "a last page not full": ([page("a", "b", token="T1", total=900), page("c", total=900)], "abc", ""),
    "an empty last page": ([page("a", "b", token="T1", total=900), page(total=900)], "ab", ""),
    "a total of nothing": ([page("a", "b", total=0)], "ab", ""),
}


@pytest.mark.parametrize("case", LISTINGS)
def test_listing_gives_each_record_once_and_says_whether_it_is_complete(case: str) -> None:
    pages, records, why = LISTINGS[case]
    listed = list_over(pages, query=PAIRS)
    assert listed.fresh == list(records)
    assert listed.tokens == [None, *(json.loads(each.body)["nextPageToken"] for each in pages[:-1])]
    assert (listed.listing.ended, listed.listing.complete, listed.listing.pages) == (True, not why, len(pages))
    assert [why in warning for warning in listed.warnings] == [True] * bool(why)


def test_listing_that_begins_at_a_token_knows_nothing_of_the_pages_before() -> None:
    listed = list_over([page("y", "z", total=900)], query=PAIRS, token="T9")
    assert (listed.tokens, listed.listing.complete) == (["T9"], True)


def test_full_last_page_in_the_services_own_size_is_five_records() -> None:
    unsized = SubscriptionQuery(mine=True)
    assert not list_over([page(*"abcde", total=11)], query=unsized).listing.complete
    assert list_over([page(*"abcd", total=11)], query=unsized).listing.complete


def test_records_without_an_id_are_all_kept_and_still_cannot_circle() -> None:
    listed = list_over([page(None, None, token="T0"), *(page(None, None, token=f"T{turn}") for turn in range(1, 4))])
    assert listed.fresh == [None] * 8
    assert "held nothing new" in listed.warnings[0]


def test_resumed_listing_counts_the_records_of_earlier_attempts_beside_the_total() -> None:
    listing = Listing(PAIRS, token="T2", pages=2, restarts=1)
    listing.knows([{"id": "a"}, {"id": "b"}, {"id": "c"}])
    replay(list_pages(Client(("http://video",), VIDEO_RULES).ask, listing), [page("d", "e", total=10)])
    assert listing.complete


@pytest.mark.parametrize("times", [1, 2, 3])
def test_token_refused_for_a_while_is_tried_again(times: int) -> None:
    listed = list_over([page("a", token="T1"), *[REFUSED] * times, page("b")])
    assert listed.tokens == [None, *["T1"] * (times + 1)]
    assert listed.pauses == [1.0, 2.0, 4.0][:times]
    assert listed.fresh == ["a", "b"]
    assert listed.listing.restarts == 0


@pytest.mark.parametrize("start", [None, "T0"])
def test_token_refused_for_good_makes_the_listing_start_over_where_it_began(start: str | None) -> None:
    again = [page("a", token="N1"), page("b", "c", token="N2"), page("d")]
    listed = list_over([page("a", token="T1"), page("b", token="T2"), *[REFUSED] * 4, *again], token=start)
    assert listed.tokens[-3:] == [start, "N1", "N2"]
    assert listed.fresh == ["a", "b", "c", "d"]
    assert (listed.listing.restarts, listed.listing.duplicates) == (1, 2)
    assert "starts over" in listed.warnings[0]


def test_listing_that_starts_over_passes_more_known_pages_than_make_a_circle() -> None:
    before, again = ([page(each, token=f"{round_}{each}") for each in "abcd"] for round_ in "TN")
    listed = list_over([*before, *[REFUSED] * 4, *again, page("e")])
    assert (listed.fresh, listed.listing.complete) == (list("abcde"), True)


def test_resumed_listing_whose_token_is_refused_starts_over_at_its_start() -> None:
    listing = Listing(QUERY, token="T2", pages=2, duplicates=1)
    listing.knows([{"id": "a"}, {"id": "b"}])
    client = Client(("http://video",), VIDEO_RULES)
    steps: list[Step] = []
    again = [page("a", token="N1"), page("b", "c", token="N2"), page("d")]
    replay(list_pages(client.ask, listing), [*[REFUSED] * 4, *again], steps=steps)

    assert [dict(request.params).get("pageToken") for request in requests_of(steps)] == ["T2"] * 4 + [None, "N1", "N2"]
    assert [item["id"] for each in items_of(steps) for item in each.fresh] == ["c", "d"]
    assert (listing.pages, listing.duplicates, listing.restarts) == (5, 3, 1)


ONCE = [page("a", token="T1"), *[REFUSED] * 4]


@pytest.mark.parametrize(
    ("replies", "token", "why"),
    [
        ([REFUSED], None, "invalidPageToken"),
        ([REFUSED] * 4, "T0", "start from the first page"),
        ([*ONCE, *ONCE], None, "invalidPageToken"),
        ([page("a", token="T1"), refusal("subscriberNotFound")], None, "subscriberNotFound"),
        ([page("a", token="T1"), refusal("badRequest")], None, "badRequest"),
    ],
    ids=["first page", "token of the caller", "after it has started over", "no subscriber", "bad request"],
)
def test_refusal_for_good_ends_the_listing_with_an_error(replies: list[Response], token: str | None, why: str) -> None:
    with pytest.raises((BadRequestError, NotFoundError), match=why):
        list_over(replies, token=token)


def drive(listing: Listing, serve: Callable[[str | None], Response], most: int) -> list[str | None]:
    """Carry out a listing against a function from token to page; fail beyond a number of requests."""
    fresh: list[str | None] = []
    client = Client(("http://video",), VIDEO_RULES)
    flow = list_pages(client.ask, listing)
    sent = 0
    try:
        step: Any = next(flow)
        while True:
            if isinstance(step, Request):
                sent += 1
                assert sent <= most, "the listing does not end"
                step = flow.send(serve(dict(step.params).get("pageToken")))
                continue
            if not isinstance(step, Wait):
                fresh += [item.get("id") for item in step.item.fresh]
            step = next(flow)
    except StopIteration:
        return fresh


@settings(max_examples=100, deadline=None)
@given(
    script=st.lists(
        st.tuples(
            st.lists(st.sampled_from(["a", "b", "c", "d", "e", None]), max_size=4),
            st.sampled_from(["new", "new", "new", "old", "none", "refuse"]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_listing_ends_whatever_the_service_does(script: list[tuple[list[str | None], str]]) -> None:
    turn = 0

    def serve(_: str | None) -> Response:
        nonlocal turn
        ids, then = script[turn % len(script)]
        turn += 1
        if then == "refuse":
            return REFUSED
        return page(*ids, token={"new": f"T{turn}", "old": "T1", "none": None}[then])

    listing = Listing(QUERY)
    try:
        fresh = drive(listing, serve, most=5_000)
    except BadRequestError:
        return
    identified = [each for each in fresh if each]
    assert len(identified) == len(set(identified))
    assert listing.ended
