"""An export as a call flow: what it saves, when, and what it logs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Emit, Request, Response, Returned, advance
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from airflow_provider_mediaops.video.errors import VIDEO_RULES
from airflow_provider_mediaops.video.export import (
    Export,
    ExportAttempt,
    content_digest,
    end_line,
    start_line,
    state_of,
)
from airflow_provider_mediaops.video.paging import Listing
from tests.unit.call_flows import FakeClock, replay
from tests.unit.video_platform import page_reply, subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

QUERY = SubscriptionQuery(mine=True, max_results=50)
CLIENT = Client(("http://video",), VIDEO_RULES)


class Saved:
    """What an export has saved, in the place of a staging."""

    def __init__(self, records: Sequence[Mapping[str, Any]] = (), state: Any = None) -> None:
        self.kept: list[Mapping[str, Any]] = list(records)
        self.states: list[Mapping[str, Any]] = [state] if state else []
        self.resumed = bool(state)
        self.summary: dict[str, Any] = {}
        self.digest: str | None = None
        self.before_commit: Callable[[], None] = lambda: None

    @property
    def ids(self) -> list[str]:
        return [record["id"] for record in self.kept]

    @property
    def rows(self) -> int:
        return len(self.kept)

    @property
    def state(self) -> Any:
        return self.states[-1] if self.states else None

    def records(self) -> Iterator[Any]:
        return iter(self.kept)

    def commit(self, records: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> None:
        self.before_commit()
        self.kept += records
        self.states.append(json.loads(json.dumps(state)))


def attempt_at(saved: Saved, log: Callable[[str], None] = print, fake: FakeClock | None = None, **more: Any) -> Any:
    export = Export(owner={}, destination="/out/a.csv", query=asdict(QUERY), **more)
    staging: Any = saved
    return ExportAttempt(export, staging, log, log, clock=(fake or FakeClock()).clock.monotonic)


def export(saved: Saved, replies: list[Response], **more: Any) -> list[str]:
    """Export, and save each page as it comes; return what happened in which order."""
    attempt = attempt_at(saved, **more)
    done: list[str] = []
    left, pages = list(replies), attempt.pages(CLIENT)
    step = advance(pages)
    while not isinstance(step, Returned):
        if isinstance(step, Request):
            done.append("request")
            step = advance(pages, left.pop(0))
        elif isinstance(step, Emit):
            attempt.save(step.item)
            done.append("save")
            step = advance(pages)
    assert not left
    attempt.finish()
    return done


def test_each_page_is_saved_before_the_next_is_asked_for() -> None:
    saved = Saved()
    done = export(saved, [page_reply(1, 2, token="T2"), page_reply(2, 3, token="T3"), page_reply(4)])

    assert done == ["request", "save"] * 3
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


def test_page_of_nothing_new_is_saved_for_its_token() -> None:
    saved = Saved()
    export(saved, [page_reply(1, token="T2"), page_reply(1, token="T3"), page_reply(token="T4"), page_reply(2)])

    assert [state["token"] for state in saved.states] == ["T2", "T3", "T4", None]


@pytest.mark.parametrize("stop", range(4))
def test_attempt_after_any_saved_page_resumes_there(stop: int) -> None:
    pages = [page_reply(1, 2, token="T2"), page_reply(2, 3, token="T3"), page_reply(4)]
    whole, first = Saved(), Saved()
    export(whole, pages)

    listing = Listing(QUERY)
    for each in pages[:stop]:
        listed = replay(listing.next_page(CLIENT.ask), [each])
        assert listed
        first.commit(listed.fresh, state_of(listing))
    second = Saved(first.kept, first.state)
    done = export(second, pages[stop:])

    assert second.kept == whole.kept
    assert first.states[: stop - 1] + second.states == (whole.states if stop else second.states)
    assert second.summary == {**whole.summary, "resumed": stop > 0}
    assert done.count("request") == 3 - stop


@pytest.mark.parametrize("if_changed", [False, True])
def test_the_content_is_digested_if_the_file_may_stay(*, if_changed: bool) -> None:
    saved = Saved()
    export(saved, [page_reply(1, 2)], if_changed=if_changed)

    assert saved.digest == (content_digest([subscription(2), subscription(1)]) if if_changed else None)


def test_description_sent_to_a_triggerer_is_the_same_there() -> None:
    export = Export({"task": "t", "parameters": "p"}, "/a.csv", asdict(QUERY), if_changed=True)
    sent = json.loads(json.dumps(export.to_dict()))

    again = Export.from_dict(sent)
    assert again.listed() == QUERY
    assert again.owned_by() == Owner("t", "p")
    assert json.loads(json.dumps(again.to_dict())) == sent
    with pytest.raises(TypeError, match="destination"):
        Export.from_dict({"owner": {}, "query": {}})


def test_the_last_line_says_what_is_written() -> None:
    summary = {"rows": 3, "pages": 2}
    assert end_line(summary, "/a.csv") == "Wrote 3 subscriptions of 2 pages to /a.csv."
    same = end_line({**summary, "changed": False}, "/a.csv")
    assert same == "Nothing has changed in 3 subscriptions of 2 pages: /a.csv stays as it is."


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
    before = [subscription(number) for number in range(-2_000, 0)]
    saved = Saved(before, state_of(Listing(QUERY, token="T40", pages=40)))
    saved.before_commit = lambda: fake.wait(1.0)
    replies = [page_reply(*range(50 * page, 50 * page + 50), token=f"T{41 + page}") for page in range(124)]

    export(saved, [*replies, page_reply(6_200)], log=lines.append, fake=fake)

    assert lines[0].endswith(": pages of 50, no rate set, resumed after 2,000 subscriptions of 40 pages.")
    assert lines[1:] == [
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
