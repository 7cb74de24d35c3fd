"""Tasks that post by one key of a journal: two at a time with a switch after any request, deaths, and lost replies."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.video.at_most_once import UNCERTAIN_AFTER_SECONDS, folder_name, key_of
from tests.unit.storage.fake_store import CreationOnly, FakeStore
from tests.unit.video.delivering import reply
from tests.unit.video.journal_turns import KEY, Channel, Poster, refusing
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Response

    New = Callable[[], Channel]

TASK = "dag/run/post/-1"
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "post_bulletin.md"


def table(head: str) -> list[list[str]]:
    """Return the cells of a table of the guide."""
    lines = GUIDE.read_text(encoding="utf-8").partition(f"\n{head}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture(params=[FakeStore, CreationOnly], ids=["conditional writes", "create-only writes"])
def new(request: pytest.FixtureRequest) -> New:
    """Return a function that makes a channel with an empty journal on a store of each kind."""
    return lambda: Channel(request.param)


@pytest.fixture
def channel(new: New) -> Channel:
    return new()


def steps_of(channel: Channel) -> int:
    """Count the requests of a task that nobody disturbs."""
    poster, steps = Poster(channel, "alone"), 0
    while not poster.ended:
        poster.step()
        steps += 1
    assert poster.returned == "act-alone"
    return steps


def step_until(poster: Poster, has_come: Callable[[], bool]) -> None:
    """Let a task come to a moment before its end."""
    while not has_come():
        assert not poster.ended, poster.outcome
        poster.step()


def intending(channel: Channel, **rules: Any) -> Poster:
    """Let a task come to the point at which its intent is written and it is about to send."""
    poster = Poster(channel, "intending", **rules)
    step_until(poster, lambda: poster.sending)
    assert channel.state == "intended"
    return poster


class TestKey:
    def test_values_connections_and_tasks_have_folders_of_their_own(self) -> None:
        keys = [key_of("1", "a", "t"), key_of("1", "b", "t"), key_of("2", "a", "t"), key_of(None, "a", "1")]
        keys += [key_of(None, "a", "t/u"), key_of(None, "a", "t-u"), key_of("t/u", "a", "t")]

        assert len({folder_name(key) for key in keys}) == len(keys)

    def test_name_of_a_folder_stays(self) -> None:
        """Or a bulletin with a folder of another name would be posted again."""
        assert folder_name(KEY) == "2026-11-23-b46b74cdef5a751b"
        assert folder_name({"task": "dag/run/post/-1"}) == "dag-run-post--1-23740f4466caeda8"


class TestOneAfterTheOther:
    @pytest.mark.parametrize("before", ["an intent", "a damaged file"])
    def test_refusal_restores_the_value_that_was_there_before(self, channel: Channel, before: str) -> None:
        if before == "an intent":
            intending(channel, task=TASK).die()
        else:
            channel.damage()
        second = Poster(channel, "second", task=TASK, number=2, on_uncertain="retry", answer=refusing)
        second.finish()
        assert second.failure == "BadRequestError"
        assert ["perhaps for the second time" in line for line in channel.warnings] == [True]

        third = Poster(channel, "third", task=TASK, number=3)
        third.finish()
        assert third.failure == "UncertainDeliveryError"

    def test_another_task_may_post_while_the_service_asks_the_first_to_wait(self, channel: Channel) -> None:
        answers = iter([reply(error(429, "rateLimitExceeded"), 429), reply()])
        waiting = intending(channel, answer=lambda: next(answers))
        step_until(waiting, lambda: channel.state is None)
        Poster(channel, "second").finish()
        waiting.finish()

        assert (channel.posts, waiting.returned) == (["second"], "act-second")

    @pytest.mark.parametrize("has_posted", [False, True])
    def test_folder_deleted_while_a_task_waits_is_read_again(self, channel: Channel, has_posted: bool) -> None:  # noqa: FBT001
        answers = iter([reply(error(429, "rateLimitExceeded"), 429), reply()])
        waiting = intending(channel, answer=lambda: next(answers))
        step_until(waiting, lambda: channel.state is None)
        channel.delete()
        if has_posted:
            Poster(channel, "second").finish()
        waiting.finish()

        assert channel.posts == ["second" if has_posted else "intending"]

    def test_young_intent_says_who_posts_and_until_when_to_wait(self, channel: Channel) -> None:
        first = intending(channel)
        second = Poster(channel, "second", on_uncertain="retry", post_again_on_clear=True)
        second.finish()

        outcome: Any = second.outcome
        assert second.failure == "DestinationInUseError"
        assert "dag/run/intending/-1, try 1, has been posting this bulletin since 20" in str(outcome)
        assert UNCERTAIN_AFTER_SECONDS - 60 < outcome.retry_after <= UNCERTAIN_AFTER_SECONDS
        first.finish()
        assert channel.posts == ["intending"]

    def test_intent_dated_a_little_ahead_is_young_for_no_longer_than_any(self, channel: Channel) -> None:
        intending(channel).die()
        channel.now -= UNCERTAIN_AFTER_SECONDS / 2
        second = Poster(channel, "second")
        second.finish()

        outcome: Any = second.outcome
        assert (second.failure, outcome.retry_after) == ("DestinationInUseError", UNCERTAIN_AFTER_SECONDS)

    @pytest.mark.parametrize("rules", [{}, {"on_uncertain": "retry"}])
    def test_intent_dated_years_ahead_is_uncertain_today(self, channel: Channel, rules: dict[str, Any]) -> None:
        intending(channel).die()
        # The clock of the worker was wrong when it was written.
        channel.now -= 100_000 * UNCERTAIN_AFTER_SECONDS
        second = Poster(channel, "second", **rules)
        second.finish()

        assert second.failure == ("" if rules else "UncertainDeliveryError")
        assert channel.posts == (["second"] if rules else [])

    @pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"version": 2}', b"[" * 100_000])
    def test_damaged_file_is_uncertain_and_the_next_version_replaces_it(self, channel: Channel, content: bytes) -> None:
        Poster(channel, "first").finish()
        channel.damage(content)
        second = Poster(channel, "second")
        second.finish()
        assert (second.failure, channel.posts) == ("UncertainDeliveryError", ["first"])
        assert "cannot be read: another version wrote it, or somebody changed it" in str(second.outcome)

        Poster(channel, "third", on_uncertain="retry").finish()
        assert channel.posts == ["first", "third"]

    def test_task_cleared_again_and_again_posts_once_for_each_clear(self, channel: Channel) -> None:
        for number, max_tries in enumerate((3, 3, 4, 4, 5), start=1):
            name = f"clear-{max_tries}-try-{number}"
            rules: dict[str, Any] = {"number": number, "max_tries": max_tries, "post_again_on_clear": True}
            Poster(channel, name, task=TASK, **rules).finish()

        assert channel.posts == ["clear-3-try-1", "clear-4-try-3", "clear-5-try-5"]


#: For each pair of tasks: the rules of the second, the seconds that pass at the switch, and the errors it may meet.
PAIRS: dict[str, tuple[dict[str, Any], float, set[str]]] = {
    "another task": ({}, 0, {"", "DestinationInUseError"}),
    "another task, when the first is old": ({}, UNCERTAIN_AFTER_SECONDS, {"", "UncertainDeliveryError"}),
    "the next try": ({"task": TASK, "number": 2}, 0, {"", "UncertainDeliveryError"}),
    "the next try, which retries": ({"task": TASK, "number": 2, "on_uncertain": "retry"}, 0, {""}),
    "another task, which retries": ({"on_uncertain": "retry"}, UNCERTAIN_AFTER_SECONDS, {""}),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_of_two_tasks_at_a_time_one_posts(new: New, pair: str) -> None:
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

    :param pair: the second task, a key of :data:`PAIRS`.
    :returns: whether the first had ended at the switch, and the second at the switch back.
    """
    rules, seconds, failures = PAIRS[pair]
    fails_too = {*failures, "DestinationInUseError", "UncertainDeliveryError"}
    first, second = Poster(channel, "first", task=TASK), Poster(channel, "second", **rules)
    first.step(before)
    channel.now += seconds
    # The second may take over what the first is about to send, or has sent: nobody can hold it back any more.
    too_late = first.sending and channel.state != "posted"
    is_first_done = first.ended
    second.step(between)
    second_too_late, is_second_done = second.sending, second.ended
    first.finish()
    second.finish()

    case = f"{pair}: {before}, {between}: {channel.posts}, {first.failure}, {second.failure}"
    if rules.get("on_uncertain") == "retry" and (too_late or second_too_late):
        assert 1 <= len(channel.posts) <= 2, case
    else:
        assert len(channel.posts) == 1, case
    if len(channel.posts) == 2:
        assert [line for line in channel.warnings if "second time" in line or "delete one of them" in line], case
    assert {first.failure, second.failure} <= fails_too, case
    assert channel.state == "posted", case
    for poster in (first, second):
        assert poster.failure or poster.returned in {f"act-{name}" for name in channel.posts}, case
    return is_first_done, is_second_done


def test_cleared_task_posts_once_and_another_that_runs_meanwhile_does_not(new: New) -> None:
    outcomes = set()
    again: dict[str, Any] = {"post_again_on_clear": True}
    for before in itertools.count():
        channel = new()
        Poster(channel, "first", task=TASK).finish()
        cleared = Poster(channel, "cleared", task=TASK, number=2, max_tries=4, **again)
        other = Poster(channel, "other", max_tries=9, on_uncertain="retry", **again)
        cleared.step(before)
        was_done = cleared.ended
        other.finish()
        cleared.finish()
        assert (channel.posts, cleared.returned) == (["first", "cleared"], "act-cleared"), before
        outcomes.add(other.failure or other.returned)
        if was_done:
            break

    assert outcomes == {"act-first", "DestinationInUseError", "act-cleared"}


@pytest.mark.parametrize("next_try", ["the next try", "another task"])
def test_task_that_dies_at_any_request_posts_at_most_once(new: New, next_try: str) -> None:
    found: list[tuple[int, str]] = []
    for steps in range(steps_of(new()) + 1):
        channel = new()
        dead = Poster(channel, "dead", task=TASK)
        dead.step(steps)
        dead.die()
        channel.now += UNCERTAIN_AFTER_SECONDS
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
def test_request_that_fails_costs_no_second_bulletin(new: New, fault: str) -> None:
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
            assert [line for line in channel.warnings if "could not be written down" in line], case
        else:
            assert len(channel.posts) == 1, case


def test_task_that_paused_right_at_the_post_is_told_of_the_other(channel: Channel) -> None:
    """The window that is left: the platform cannot ask the journal."""
    frozen = intending(channel)
    channel.now += UNCERTAIN_AFTER_SECONDS
    Poster(channel, "second", on_uncertain="retry").finish()
    frozen.finish()

    assert channel.posts == ["second", "intending"]
    assert "dag/run/second/-1 has posted one by the same key" in channel.warnings[-1]
    assert channel.entry()["by"]["task"] == "dag/run/second/-1"


def test_refused_task_that_paused_leaves_the_entry_of_the_other(channel: Channel) -> None:
    refused: list[bool] = []

    def refuse() -> Response:
        refused.append(True)
        return refusing()

    frozen = intending(channel, answer=refuse)
    step_until(frozen, lambda: bool(refused))
    channel.now += UNCERTAIN_AFTER_SECONDS
    Poster(channel, "second", on_uncertain="retry").finish()
    frozen.finish()

    assert (frozen.failure, channel.posts) == ("BadRequestError", ["second"])
    assert (channel.state, channel.entry()["by"]["task"]) == ("posted", "dag/run/second/-1")


def killed(has_come: Callable[[Poster, Channel], bool]) -> Callable[[Channel], None]:
    """Let the first try die at a moment."""

    def happen(channel: Channel) -> None:
        poster = Poster(channel, "first", task=TASK)
        step_until(poster, lambda: has_come(poster, channel))
        poster.die()

    return happen


at_the_start = killed(lambda _, __: True)
after_the_intent = killed(lambda _, channel: channel.state is not None)
while_sending = killed(lambda poster, _: poster.sending)
after_the_post = killed(lambda _, channel: bool(channel.posts))
after_the_result = killed(lambda _, channel: channel.state == "posted")


def ended(fault: str = "", answer: Callable[[], Response] | None = None) -> Callable[[Channel], None]:
    """Let the first try come to its end."""

    def happen(channel: Channel) -> None:
        poster = Poster(channel, "first", task=TASK, answer=answer)
        step_until(poster, lambda: poster.sending)
        poster.fault = fault
        poster.finish()

    return happen


#: What happened to the first try, and the rules of the next one.
CASES: dict[str, tuple[Callable[[Channel], None], dict[str, Any]]] = {
    "its worker was killed before it wrote that it is about to post": (at_the_start, {}),
    "its worker was killed after that and before sending": (after_the_intent, {}),
    "its worker was killed while sending": (while_sending, {}),
    "its worker was killed after sending, before the activity was stored": (after_the_post, {}),
    "its worker was killed after the activity was stored": (after_the_result, {}),
    "the reply was lost": (ended(fault="reply lost"), {}),
    "the service refused": (ended(answer=refusing), {}),
    "it posted, and failed afterwards": (ended(), {}),
    "it succeeded, and the task was cleared": (ended(), {"max_tries": 4}),
    "it succeeded, and the task was cleared, with `post_again_on_clear=True`": (
        ended(),
        {"max_tries": 4, "post_again_on_clear": True},
    ),
}
OTHERS: dict[str, tuple[Callable[[Channel], None], dict[str, Any]]] = {
    "no record, or the post was refused": (ended(answer=refusing), {}),
    "an activity": (ended(), {}),
    "an intent that is younger than 15 minutes": (after_the_intent, {"later": UNCERTAIN_AFTER_SECONDS / 2}),
    "an older intent": (after_the_intent, {"later": UNCERTAIN_AFTER_SECONDS}),
    'an older intent, with `on_uncertain="retry"`': (
        after_the_intent,
        {"later": UNCERTAIN_AFTER_SECONDS, "on_uncertain": "retry"},
    ),
    "a record that it cannot understand": (lambda channel: channel.damage(), {}),
    'such a record, with `on_uncertain="retry"`': (lambda channel: channel.damage(), {"on_uncertain": "retry"}),
}
OWN_HEAD = "| what happened to a try | what the next try does | bulletins in the end |"
OTHER_HEAD = "| what another task with the same key finds | what it does |"


def what_follows(channel: Channel, task: str | None, rules: dict[str, Any]) -> str:
    """Return what the next try, or another task, does, in the words of the guide."""
    posted = len(channel.posts)
    channel.now += rules.pop("later", 0)
    poster = Poster(channel, "next", task=task, number=2, **rules)
    poster.finish()
    if poster.failure:
        return f"`{poster.failure}`"
    return "posts" if len(channel.posts) > posted else "returns the same activity"


@pytest.mark.parametrize("row", table(OWN_HEAD), ids=lambda row: row[0])
def test_next_try_does_what_the_guide_says(channel: Channel, row: list[str]) -> None:
    happen, rules = CASES[row[0]]
    happen(channel)

    assert row[1].startswith(what_follows(channel, TASK, dict(rules)))
    assert str(len(channel.posts)) in row[2].split(" or ")


@pytest.mark.parametrize("row", table(OTHER_HEAD), ids=lambda row: row[0])
def test_another_task_does_what_the_guide_says(channel: Channel, row: list[str]) -> None:
    happen, rules = OTHERS[row[0]]
    happen(channel)

    assert what_follows(channel, None, dict(rules)) == row[1]


def test_each_case_is_in_the_guide() -> None:
    assert [row[0] for row in table(OWN_HEAD)] == list(CASES)
    assert [row[0] for row in table(OTHER_HEAD)] == list(OTHERS)
