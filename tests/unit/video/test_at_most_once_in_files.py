"""
Tasks that post by one key of a journal: deaths, lost replies and refusals, and another task at the same time.

Thousands of orders of two tasks' requests are in ``tests/models``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    BadRequestError,
    DestinationInUseError,
    MediaOpsError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.http.exchange import Clock, Wait
from airflow_provider_mediaops.http.runner import run
from airflow_provider_mediaops.video.at_most_once import (
    UNCERTAIN_AFTER_SECONDS,
    Author,
    Delivery,
    folder_name,
    journal_record,
)
from tests.unit.storage.dying import DeathError
from tests.unit.storage.fake_store import FakeStore, attached
from tests.unit.video.delivering import ACTIVITY, posting, reply
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response

KEY = {"once_per": "2026-11-23", "connection": "video"}
FOLDER = f"/bucket/journal/{folder_name(KEY)}"
START = 1_773_518_400.0
TASK = "dag/run/post/-1"
REFUSAL = reply(error(400, "bulletinTextRequired"), 400)


class Channel:
    """A channel, and a journal in a store."""

    def __init__(self, store: FakeStore) -> None:
        #: Who has posted, in order.
        self.posts: list[str] = []
        self.warnings: list[str] = []
        self.now = START
        self.store = store

    def post(
        self,
        name: str,
        *,
        task: str | None = None,
        number: int = 1,
        max_tries: int = 3,
        answer: Callable[[], Response] | None = None,
        in_pauses: Callable[[], object] = lambda: None,
        **rules: Any,
    ) -> str:
        """
        Run one try of a task to its end, and return the id of the bulletin.

        :param task: its task instance; None for one of its own.
        :param answer: what happens when it sends; None for a bulletin that is posted.
        """
        by = Author(task=task or f"dag/run/{name}/-1", attempt=number, max_tries=max_tries, contents="contents")
        clock = Clock(now=lambda: datetime.fromtimestamp(self.now, timezone.utc))
        record = journal_record("memory://journal@bucket/journal", KEY, self.warnings.append)
        delivery = Delivery(record, KEY, by, self.warnings.append, clock=clock, **rules)
        delivery.begin()
        if delivery.already_posted:
            return str(delivery.already_posted.activity["id"])
        send = answer or (lambda: self.accept(name))

        def pause(_: Wait) -> None:
            in_pauses()

        return str(run(posting(delivery), lambda _: send(), pause).id)

    def accept(self, name: str) -> Response:
        """Post a task's bulletin."""
        self.posts.append(name)
        return reply({**ACTIVITY, "id": f"act-{name}"})

    def entry(self) -> Any:
        """Return the plain values of the record's newest version."""
        return json.loads(self.store.store[max(self.store.names)].getvalue())

    def damage(self, content: bytes = b"{") -> None:
        """Write a version that nobody understands."""
        self.store.pipe_file(f"{FOLDER}/{len(self.store.names) + 1:04}.json", content)


@pytest.fixture
def channel() -> Iterator[Channel]:
    store = FakeStore()
    with attached(store, "journal"):
        yield Channel(store)


def dies(*_: object) -> Response:
    raise DeathError


def intend_and_die(channel: Channel, name: str = "intending", **rules: Any) -> None:
    with pytest.raises(DeathError):
        channel.post(name, answer=dies, **rules)


def test_name_of_a_folder_stays() -> None:
    """Or a bulletin with a folder of another name would be posted again."""
    assert folder_name(KEY) == "2026-11-23-b46b74cdef5a751b"
    assert folder_name({"task": "dag/run/post/-1"}) == "dag-run-post--1-23740f4466caeda8"


@pytest.mark.parametrize("before", ["an intent", "a damaged file"])
def test_refusal_restores_the_value_that_was_there_before(channel: Channel, before: str) -> None:
    if before == "an intent":
        intend_and_die(channel, task=TASK)
    else:
        channel.damage()
    with pytest.raises(BadRequestError):
        channel.post("second", task=TASK, number=2, on_uncertain="retry", answer=lambda: REFUSAL)
    assert ["perhaps for the second time" in line for line in channel.warnings] == [True]

    with pytest.raises(UncertainDeliveryError):
        channel.post("third", task=TASK, number=3)


def test_young_intent_says_who_posts_and_until_when_to_wait(channel: Channel) -> None:
    def meanwhile() -> Response:
        with pytest.raises(DestinationInUseError, match="dag/run/first/-1, try 1, has been posting") as caught:
            channel.post("second", on_uncertain="retry", post_again_on_clear=True)
        assert caught.value.retry_after == UNCERTAIN_AFTER_SECONDS
        return channel.accept("first")

    channel.post("first", answer=meanwhile)
    assert channel.posts == ["first"]


def test_intent_dated_years_ahead_is_uncertain_today(channel: Channel) -> None:
    intend_and_die(channel)
    # The clock of the worker was wrong when it was written.
    channel.now -= 100_000 * UNCERTAIN_AFTER_SECONDS
    with pytest.raises(UncertainDeliveryError):
        channel.post("second")
    assert channel.post("third", on_uncertain="retry") == "act-third"


def test_cleared_task_posts_once_and_another_that_runs_meanwhile_does_not(channel: Channel) -> None:
    again: dict[str, Any] = {"max_tries": 9, "post_again_on_clear": True}

    def meanwhile() -> Response:
        with pytest.raises(DestinationInUseError):
            channel.post("other", on_uncertain="retry", **again)
        return channel.accept("cleared")

    channel.post("first", task=TASK)
    assert channel.post("other", **again) == "act-first"
    assert channel.post("cleared", task=TASK, number=2, answer=meanwhile, **again) == "act-cleared"
    assert channel.post("other", **again) == "act-cleared"
    assert channel.posts == ["first", "cleared"]


def test_try_from_before_a_clear_leaves_the_intent_of_the_try_that_posts_again(channel: Channel) -> None:
    """Else the next try would take the bulletin of the clear for one that was never posted."""
    again: dict[str, Any] = {"task": TASK, "max_tries": 9, "post_again_on_clear": True}

    def accepted_and_dead() -> Response:
        channel.accept("cleared")
        raise DeathError

    def late() -> Response:
        with pytest.raises(DeathError):
            channel.post("cleared", number=2, answer=accepted_and_dead, **again)
        return channel.accept("first")

    assert channel.post("first", task=TASK, answer=late, post_again_on_clear=True) == "act-first"
    with pytest.raises(UncertainDeliveryError, match="Try 2 of this task was about to post"):
        channel.post("next", number=3, **again)
    assert channel.posts == ["cleared", "first"]


@pytest.mark.parametrize("is_refused", [False, True])
def test_task_that_paused_at_the_post_leaves_the_entry_of_the_other(channel: Channel, *, is_refused: bool) -> None:
    """The window that is left: the platform cannot ask the journal."""

    def late() -> Response:
        channel.now += UNCERTAIN_AFTER_SECONDS
        channel.post("second", on_uncertain="retry")
        return REFUSAL if is_refused else channel.accept("frozen")

    if is_refused:
        with pytest.raises(BadRequestError):
            channel.post("frozen", answer=late)
    else:
        channel.post("frozen", answer=late, post_again_on_clear=True)
        assert "dag/run/second/-1 has posted one by the same key" in channel.warnings[-1]
    assert channel.posts == ["second", "frozen"][: 1 if is_refused else 2]
    assert (channel.entry()["state"], channel.entry()["by"]["task"]) == ("posted", "dag/run/second/-1")


def killed_at_the_post(channel: Channel) -> None:
    intend_and_die(channel, "first")


def refused(channel: Channel) -> None:
    with pytest.raises(BadRequestError):
        channel.post("first", answer=lambda: REFUSAL)


def posted(channel: Channel) -> None:
    channel.post("first")


YOUNG, OLD = UNCERTAIN_AFTER_SECONDS / 2, UNCERTAIN_AFTER_SECONDS


@pytest.mark.parametrize(
    ("happen", "later", "on_uncertain", "outcome"),
    [
        pytest.param(refused, 0, "fail", "posts", id="refusal"),
        pytest.param(posted, 0, "fail", "returns the same activity", id="activity"),
        pytest.param(killed_at_the_post, YOUNG, "fail", "DestinationInUseError", id="young intent"),
        pytest.param(killed_at_the_post, OLD, "fail", "UncertainDeliveryError", id="old intent"),
        pytest.param(killed_at_the_post, OLD, "retry", "posts", id="old intent, to be tried again"),
        pytest.param(Channel.damage, 0, "fail", "UncertainDeliveryError", id="damaged record"),
        pytest.param(Channel.damage, 0, "retry", "posts", id="damaged record, to be tried again"),
    ],
)
def test_another_task_posts_or_waits_or_returns_by_what_it_finds(
    channel: Channel, happen: Callable[[Channel], None], later: float, on_uncertain: str, outcome: str
) -> None:
    happen(channel)
    before = len(channel.posts)
    channel.now += later

    def outcome_of() -> str:
        try:
            channel.post("next", on_uncertain=on_uncertain)
        except MediaOpsError as failure:
            return type(failure).__name__
        return "posts" if len(channel.posts) > before else "returns the same activity"

    assert outcome_of() == outcome
