"""An export as a conversation: what it saves, when, and what it logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Blocking, Request, Response
from airflow_provider_mediaops.progress import ProgressLog
from airflow_provider_mediaops.video.api import VIDEO_RULES, SubscriptionQuery
from airflow_provider_mediaops.video.export import (
    content_digest,
    export_pages,
    resumed_listing,
    start_line,
    state_of,
)
from airflow_provider_mediaops.video.paging import Listing
from tests.unit.conversations import FakeClock, replay, requests_of
from tests.unit.video_platform import page, subscription

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.http.exchange import Step

QUERY = SubscriptionQuery(mine=True, max_results=50)
CLIENT = Client(("http://video",), VIDEO_RULES)


def reply(*numbers: int, token: str | None = None) -> Response:
    return Response(200, {}, json.dumps(page(*numbers, next_token=token)).encode())


class Saved:
    """What an export has saved."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.states: list[Mapping[str, Any]] = []

    def commit(self, records: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> None:
        self.ids += [record["id"] for record in records]
        self.states.append(state)


def export(listing: Listing, saved: Saved, replies: list[Response]) -> list[Step]:
    steps: list[Step] = []
    replay(export_pages(CLIENT.ask, listing, saved.commit, ProgressLog(print)), replies, steps=steps)
    return steps


def test_each_page_is_saved_before_the_next_is_asked_for() -> None:
    saved = Saved()
    steps = export(Listing(QUERY), saved, [reply(1, 2, token="T2"), reply(2, 3, token="T3"), reply(4)])

    assert [type(step) for step in steps] == [Request, Blocking] * 3
    assert saved.ids == ["sub-1", "sub-2", "sub-3", "sub-4"]
    assert saved.states[1] == {
        "token": "T3",
        "pages": 2,
        "duplicates": 1,
        "restarts": 0,
        "ended": False,
        "complete": True,
    }
    assert saved.states[2]["ended"] is True


def test_a_page_of_nothing_new_is_saved_for_its_token() -> None:
    saved = Saved()
    export(Listing(QUERY), saved, [reply(1, token="T2"), reply(1, token="T3"), reply(token="T4"), reply(2)])

    assert [state["token"] for state in saved.states] == ["T2", "T3", "T4", None]


@pytest.mark.parametrize("stop", range(4))
def test_it_goes_on_from_what_was_saved_wherever_that_was(stop: int) -> None:
    pages = [reply(1, 2, token="T2"), reply(2, 3, token="T3"), reply(4)]
    whole, first, second = Saved(), Saved(), Saved()
    export(Listing(QUERY), whole, pages)

    listing = Listing(QUERY)
    for each in pages[:stop]:
        listed = replay(listing.next_page(CLIENT.ask), [each])
        assert listed
        first.commit(listed.fresh, json.loads(json.dumps(state_of(listing))))
    records = [{"id": each} for each in first.ids]
    listing = resumed_listing(QUERY, first.states[-1] if first.states else None, records, print)
    steps = export(listing, second, pages[stop:])

    assert first.ids + second.ids == whole.ids
    assert first.states + second.states == whole.states
    assert len(requests_of(steps)) == 3 - stop


def test_what_cannot_be_saved_ends_the_export() -> None:
    def refuse(*_: Any) -> None:
        raise OSError("the disk is full")

    listing = Listing(QUERY)
    with pytest.raises(OSError, match="the disk is full"):
        replay(export_pages(CLIENT.ask, listing, refuse, ProgressLog(print)), [reply(1, token="T2")])


@pytest.mark.parametrize(
    ("query", "whose"),
    [
        (SubscriptionQuery(channel_id="UC1", max_results=7), "the subscriptions of channel UC1"),
        (SubscriptionQuery(ids="a,b", max_results=7), "2 subscriptions by their ids"),
        (SubscriptionQuery(mine=True, max_results=7), "the subscriptions of the authorised user"),
    ],
)
def test_the_first_line_says_what_is_exported_how_and_from_where(query: SubscriptionQuery, whose: str) -> None:
    line = start_line(Listing(query), "/out/a.csv", 5.0, 0)
    assert line == f"Exporting {whose} to /out/a.csv: pages of 7, 5 requests a second, shared, from the start."
    resumed = start_line(Listing(query, pages=20), "/out/a.csv", None, 1_000)
    assert resumed.endswith(": pages of 7, no rate set, resumed after 1,000 subscriptions of 20 pages.")


def test_progress_is_logged_every_30_seconds() -> None:
    fake, lines = FakeClock(), list[str]()
    listing = Listing(QUERY, token="T40", pages=40)
    progress = ProgressLog(lines.append, fake.clock.monotonic)
    replies = [reply(*range(50 * page, 50 * page + 50), token=f"T{41 + page}") for page in range(124)]
    commit = Saved().commit

    def slow(*page: Any) -> None:
        fake.wait(1.0)
        commit(*page)

    export = export_pages(CLIENT.ask, listing, slow, progress, saved_before=2_000)
    replay(export, [*replies, reply(6_200)])

    assert lines == [
        "3,500 subscriptions of 70 pages so far; 50 a second.",
        "5,000 subscriptions of 100 pages so far; 50 a second.",
        "6,500 subscriptions of 130 pages so far; 50 a second.",
        "8,000 subscriptions of 160 pages so far; 50 a second.",
    ]


class TestDigest:
    def item(self, number: int, etag: str = "e", **more: Any) -> dict[str, Any]:
        return subscription(number, etag=etag, **more)

    @given(st.lists(st.integers(0, 30), max_size=8), st.randoms())
    def test_the_order_does_not_matter(self, numbers: list[int], chance: Any) -> None:
        items = [self.item(number) for number in numbers]
        shuffled = list(items)
        chance.shuffle(shuffled)

        assert content_digest(shuffled) == content_digest(items)

    @given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ef")), max_size=4), st.data())
    def test_everything_else_does(self, pairs: list[tuple[int, str]], data: st.DataObject) -> None:
        other = data.draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ef")), max_size=4))
        same = content_digest(self.item(*pair) for pair in pairs) == content_digest(self.item(*pair) for pair in other)

        assert same is (sorted(pairs) == sorted(other))

    def test_other_fields_count_only_where_there_is_no_etag(self) -> None:
        assert content_digest([self.item(1)]) == content_digest([self.item(1, more=1)])
        assert content_digest([subscription(1)]) != content_digest([subscription(1, more=1)])
        assert content_digest([{"etag": "e", "n": 1}]) != content_digest([{"etag": "e", "n": 2}])
