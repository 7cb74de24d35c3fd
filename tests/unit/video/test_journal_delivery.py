"""Tasks that post by one key of a journal: two at a time with a switch after any request, deaths, and lost replies."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from airflow_provider_mediaops.video.at_most_once import Intended, Posted
from tests.unit.video.delivering import reply
from tests.unit.video.journal_turns import Channel, CreationChannel, DiskChannel, Poster, channel_of, refusing
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    New = Callable[[], Channel]

TASK = "dag/run/post/-1"


@pytest.fixture(params=["disk", "store", "store that checks creation"])
def new(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> New:
    """Return what makes a channel with an empty journal of each kind."""
    # No power fails here, and these take most of the time.
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _: None)
    numbers = itertools.count()
    return lambda: channel_of(request.param, tmp_path / str(next(numbers)))


def steps_of(channel: Channel) -> int:
    """Count the requests of a task that nobody disturbs."""
    poster, steps = Poster(channel, "alone"), 0
    while not poster.ended:
        poster.step()
        steps += 1
    assert poster.returned == "act-alone"
    return steps


def intending(channel: Channel, **rules: Any) -> Poster:
    """Let a task come to the point at which its intent is written and it is about to send."""
    poster = Poster(channel, "intending", **rules)
    while not poster.sending:
        poster.step()
    assert isinstance(channel.entry().record, Intended)
    return poster


class TestOneAfterTheOther:
    def test_the_first_posts_and_the_second_returns_its_activity(self, new: New) -> None:
        channel = new()
        first, second = Poster(channel, "first"), Poster(channel, "second")
        first.finish()
        second.finish()

        entry = channel.entry()
        assert isinstance(entry.record, Posted)
        assert (channel.posts, entry.task, entry.record.activity["id"]) == (["first"], "dag/run/first/-1", "act-first")
        assert (first.returned, second.returned, channel.warnings) == ("act-first", "act-first", [])

    def test_the_text_is_not_in_an_intent(self, new: New) -> None:
        channel = new()
        poster = intending(channel)
        assert b"Hi" not in (channel.record() or b"")

        poster.finish()
        assert b"Hi" in (channel.record() or b"")

    def test_after_a_refusal_there_is_no_file_and_the_next_one_posts(self, new: New) -> None:
        channel = new()
        first = Poster(channel, "first", answer=refusing)
        first.finish()
        assert (first.failure, channel.record()) == ("BadRequestError", None)

        Poster(channel, "second").finish()
        assert channel.posts == ["second"]

    def test_after_a_refusal_what_was_there_before_is_restored(self, new: New) -> None:
        channel = new()
        intending(channel, task=TASK).die()
        before = channel.record()
        second = Poster(channel, "second", task=TASK, number=2, on_uncertain="retry", answer=refusing)
        second.finish()

        assert (second.failure, channel.record()) == ("BadRequestError", before)
        assert ["perhaps for the second time" in line for line in channel.warnings] == [True]

    def test_while_the_service_asks_to_wait_another_task_may_post(self, new: New) -> None:
        channel = new()
        answers = iter([reply(error(429, "rateLimitExceeded"), 429), reply()])
        waiting = intending(channel, answer=lambda: next(answers))
        while channel.record() is not None:
            assert not waiting.ended
            waiting.step()
        Poster(channel, "second").finish()
        waiting.finish()

        assert (channel.posts, waiting.returned) == (["second"], "act-second")

    def test_a_fresh_intent_says_who_has_it_and_for_how_long(self, new: New) -> None:
        channel = new()
        first = intending(channel)
        second = Poster(channel, "second")
        second.finish()

        outcome: Any = second.outcome
        assert second.failure == "DestinationInUseError"
        assert "dag/run/intending/-1, try 1, is posting this bulletin since 20" in str(outcome)
        assert STALE_AFTER_SECONDS - 60 < outcome.retry_after <= STALE_AFTER_SECONDS
        first.finish()
        assert channel.posts == ["intending"]

    @pytest.mark.parametrize("own", [False, True])
    def test_an_intent_that_is_stale_or_of_an_earlier_try_is_uncertain(self, new: New, own: bool) -> None:  # noqa: FBT001
        channel = new()
        intending(channel, task=TASK).die()
        channel.now += 0 if own else STALE_AFTER_SECONDS
        second = Poster(channel, "second", number=2, task=TASK if own else None)
        second.finish()
        author = "this task" if own else TASK

        assert second.failure == "UncertainDeliveryError"
        assert f"Try 1 of {author} was about to post its bulletin at 20" in str(second.outcome)
        assert channel.posts == []

    @pytest.mark.parametrize("own", [False, True])
    def test_it_is_posted_where_that_is_asked_for(self, new: New, own: bool) -> None:  # noqa: FBT001
        channel = new()
        intending(channel, task=TASK).die()
        channel.now += 0 if own else STALE_AFTER_SECONDS
        Poster(channel, "second", number=2, task=TASK if own else None, on_uncertain="retry").finish()

        assert channel.posts == ["second"]
        assert isinstance(channel.entry().record, Posted)

    def test_an_intent_of_the_near_future_is_fresh_for_no_longer_than_any(self, new: New) -> None:
        channel = new()
        intending(channel).die()
        channel.now -= STALE_AFTER_SECONDS / 2
        second = Poster(channel, "second")
        second.finish()

        outcome: Any = second.outcome
        assert (second.failure, outcome.retry_after) == ("DestinationInUseError", STALE_AFTER_SECONDS)

    @pytest.mark.parametrize("rules", [{}, {"on_uncertain": "retry"}])
    def test_an_intent_of_the_far_future_is_not_fresh_until_then(self, new: New, rules: dict[str, Any]) -> None:
        channel = new()
        intending(channel).die()
        # The clock of the storage was years ahead when it was written.
        channel.now -= 100_000 * STALE_AFTER_SECONDS
        second = Poster(channel, "second", **rules)
        second.finish()

        assert second.failure == ("" if rules else "UncertainDeliveryError")
        assert channel.posts == (["second"] if rules else [])


#: For each pair of tasks: the rules of the second, the seconds that pass at the switch, and the errors it may meet.
PAIRS: dict[str, tuple[dict[str, Any], float, set[str]]] = {
    "another task": ({}, 0, {"", "DestinationInUseError"}),
    "another task, when the first is stale": ({}, STALE_AFTER_SECONDS, {"", "UncertainDeliveryError"}),
    "the next try": ({"task": TASK, "number": 2}, 0, {"", "UncertainDeliveryError"}),
    "the next try, which retries": ({"task": TASK, "number": 2, "on_uncertain": "retry"}, 0, {""}),
    "another task, which retries": ({"on_uncertain": "retry"}, STALE_AFTER_SECONDS, {""}),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_of_two_at_a_time_one_posts(new: New, pair: str) -> None:
    for before in itertools.count():
        for between in itertools.count():
            is_first_done, is_second_done = _switched(new(), pair, before, between)
            if is_second_done:
                # It makes no more requests before the switch back.
                break
        if is_first_done:
            return


def _switched(channel: Channel, pair: str, before: int, between: int) -> tuple[bool, bool]:
    """
    Check two tasks of which the first makes some requests, then the second, then the first the rest of its own.

    :param channel: the channel.
    :param pair: the second task, a key of :data:`PAIRS`.
    :param before: the number of the requests that the first makes before the switch.
    :param between: the number of those that the second makes before the switch back.
    :returns: whether the first had ended at the switch, and the second at the switch back.
    """
    rules, seconds, failures = PAIRS[pair]
    fails_too = {*failures, "DestinationInUseError", "UncertainDeliveryError"}
    first, second = Poster(channel, "first", task=TASK), Poster(channel, "second", **rules)
    first.step(before)
    channel.now += seconds
    # The second may take over what the first is about to send, or has sent: nobody can hold it back any more.
    too_late = first.sending and not isinstance(_record(channel), Posted)
    is_first_done = first.ended
    second.step(between)
    second_too_late, is_second_done = second.sending, second.ended
    first.finish()
    second.finish()

    case = f"{pair}: {before}, {between}: {channel.posts}, {first.failure}, {second.failure}"
    # A store that checks creation alone lets the second replace a result that was written since it looked.
    unchecked = isinstance(channel, CreationChannel)
    if rules.get("on_uncertain") == "retry" and (too_late or second_too_late or unchecked):
        assert 1 <= len(channel.posts) <= 2, case
    else:
        assert len(channel.posts) == 1, case
    if len(channel.posts) == 2:
        assert [line for line in channel.warnings if "second time" in line or "delete one of them" in line], case
    assert {first.failure, second.failure} <= fails_too, case
    assert isinstance(_record(channel), Posted), case
    for poster in (first, second):
        assert poster.failure or poster.returned in {f"act-{name}" for name in channel.posts}, case
    return is_first_done, is_second_done


def _record(channel: Channel) -> object:
    return channel.entry().record if channel.record() else None


@pytest.mark.parametrize("next_try", ["the next try", "another task"])
def test_a_task_that_dies_at_any_request_posts_at_most_once(new: New, next_try: str) -> None:
    found: list[tuple[int, str]] = []
    for steps in range(steps_of(new()) + 1):
        channel = new()
        dead = Poster(channel, "dead", task=TASK)
        dead.step(steps)
        dead.die()
        channel.now += STALE_AFTER_SECONDS
        after = Poster(channel, "after", number=2, task=TASK if next_try == "the next try" else None)
        after.finish()
        posted = "posts" if after.name in channel.posts else "returns"
        found.append((len(channel.posts), after.failure or posted))

    # It posts; then it is uncertain, with no bulletin and with one; then it returns what is posted.
    assert [outcome for outcome, _ in itertools.groupby(found)] == [
        (1, "posts"),
        (0, "UncertainDeliveryError"),
        (1, "UncertainDeliveryError"),
        (1, "returns"),
    ]


@pytest.mark.parametrize("fault", ["reply lost", "refused"])
def test_a_request_that_fails_costs_no_second_bulletin(new: New, fault: str) -> None:
    for steps in range(steps_of(new())):
        channel = new()
        first = Poster(channel, "first", task=TASK)
        first.step(steps)
        first.fault = fault if not first.sending or channel.posts else ""
        first.finish()
        again = Poster(channel, "again", task=TASK, number=2)
        again.finish()

        case = f"{steps}: {channel.posts}, {first.failure}, {again.failure}, {channel.warnings}"
        assert len(channel.posts) <= 1, case
        assert first.failure in ("", "TemporaryError"), case
        assert again.failure in ("", "UncertainDeliveryError"), case
        if again.failure:
            # That the result, or the withdrawal, could not be written is in the log of the first.
            assert [line for line in channel.warnings if "could not be written to the journal" in line], case
        else:
            assert len(channel.posts) == 1, case


def test_a_reply_that_is_lost_leaves_the_intent(new: New) -> None:
    channel = new()
    first = intending(channel, task=TASK)
    first.fault = "reply lost"
    first.finish()
    again = Poster(channel, "again", task=TASK, number=2)
    again.finish()

    assert (first.failure, again.failure) == ("UncertainDeliveryError", "UncertainDeliveryError")
    assert channel.posts == ["intending"]


def test_one_that_paused_for_too_long_when_it_was_about_to_send_is_told_of_the_other(new: New) -> None:
    """The window that is left: nothing can be asked of the journal between the last look and the post."""
    channel = new()
    frozen = intending(channel)
    channel.now += STALE_AFTER_SECONDS
    Poster(channel, "second", on_uncertain="retry").finish()
    frozen.finish()

    assert channel.posts == ["second", "intending"]
    assert "dag/run/second/-1 has posted one by the same key" in channel.warnings[-1]
    assert channel.entry().task == "dag/run/second/-1"


def test_one_that_paused_before_its_last_look_does_not_send(new: New) -> None:
    channel = new()
    frozen = Poster(channel, "frozen")
    while channel.record() is None:
        frozen.step()
    channel.now += STALE_AFTER_SECONDS
    Poster(channel, "second", on_uncertain="retry").finish()
    frozen.finish()

    assert (channel.posts, frozen.returned) == (["second"], "act-second")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"version": 2}', b"[" * 100_000])
def test_a_file_that_cannot_be_read_is_uncertain_and_is_replaced_where_that_is_asked_for(
    tmp_path: Path, content: bytes
) -> None:
    channel = DiskChannel(folder=tmp_path)
    Poster(channel, "first").finish()
    [file] = tmp_path.iterdir()
    file.write_bytes(content)
    second = Poster(channel, "second")
    second.finish()
    assert (second.failure, channel.posts) == ("UncertainDeliveryError", ["first"])
    assert "cannot be read: another version wrote it, or somebody changed it" in str(second.outcome)

    Poster(channel, "third", on_uncertain="retry").finish()
    assert channel.posts == ["first", "third"]
