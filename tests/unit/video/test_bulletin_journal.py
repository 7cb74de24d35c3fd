"""The journal of bulletins: keys, entries, decisions, and the table of the guide."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError, PermanentError, UncertainDeliveryError
from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from airflow_provider_mediaops.video.at_most_once import (
    AlreadyPosted,
    Intended,
    Post,
    Posted,
    RecordPlace,
    Try,
    Unreadable,
)
from airflow_provider_mediaops.video.bulletin_journal import (
    Author,
    Entry,
    decide_by,
    file_name,
    key_of,
    read_entry,
    write_entry,
)
from tests.unit.video.delivering import ACTIVITY
from tests.unit.video.journal_turns import Channel, DiskChannel, Poster, refusing

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Response

KEY = {"once_per": "2026-11-23", "connection": "video"}
FIRST = Try(1, 3, "contents")
AT = "2026-03-14T20:00:00+00:00"
INTENDED = Entry("dag/run/post/-1", "token", AT, Intended(FIRST, AT))
POSTED = Entry("dag/run/post/-1", "token", AT, Posted(FIRST, ACTIVITY))
OWN, OTHER = Author("dag/run/post/-1", replace(FIRST, number=2)), Author("dag/other/post/-1", FIRST)
PLACE = RecordPlace("The record FILE of this bulletin", "delete FILE")
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "post_bulletin.md"


def decide(entry: Entry | Unreadable | None, author: Author, age: float = 0.0, **rules: Any) -> Post | AlreadyPosted:
    return decide_by(entry, author, PLACE, age_seconds=lambda: age, **rules)


class TestKey:
    def test_values_connections_and_tasks_are_kept_apart(self) -> None:
        keys = [key_of("1", "a", "t"), key_of("1", "b", "t"), key_of("2", "a", "t"), key_of(None, "a", "1")]
        keys += [key_of(None, "a", "t/u"), key_of(None, "a", "t-u"), key_of("t/u", "a", "t")]

        assert len({file_name(key) for key in keys}) == len(keys)

    def test_the_connection_is_no_part_of_a_task(self) -> None:
        assert key_of(None, "a", "t") == key_of(None, "b", "t")

    def test_the_name_of_a_file_stays(self) -> None:
        """Or a bulletin with a file of another name would be posted again."""
        assert file_name(KEY) == "2026-11-23-b46b74cdef5a751b.json"
        assert file_name({"task": "dag/run/post/-1"}) == "dag-run-post--1-23740f4466caeda8.json"


class TestEntry:
    @pytest.mark.parametrize("entry", [INTENDED, POSTED])
    def test_what_is_written_can_be_read(self, entry: Entry) -> None:
        assert read_entry(write_entry(entry, KEY), KEY) == entry

    def test_a_file_of_this_version_stays_readable(self) -> None:
        content = {"version": 1, "key": KEY, "task": "t", "token": "x", "at": AT, "state": "intended", "try": 1}
        content |= {"max_tries": 3, "contents": "digest"}

        entry = read_entry(json.dumps(content, indent=2).encode(), KEY)
        assert entry == Entry("t", "x", AT, Intended(Try(1, 3, "digest"), AT))

    def test_no_file_is_no_entry(self) -> None:
        assert read_entry(None, KEY) is None

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 2},
            {"key": {"task": "t"}},
            {"token": None},
            {"task": 5},
            {"at": 1},
            {"state": "lost"},
            # Errors and logs would quote these.
            {"task": "t" * 1_001},
            {"at": "2026-11-23" * 7},
        ],
    )
    def test_what_is_of_another_kind_is_unreadable(self, change: dict[str, Any]) -> None:
        content = {**json.loads(write_entry(POSTED, KEY)), **change}
        assert read_entry(json.dumps(content).encode(), KEY) == Unreadable()


class TestDecision:
    @pytest.mark.parametrize("author", [OWN, OTHER])
    def test_without_an_entry_it_is_posted(self, author: Author) -> None:
        assert decide(None, author) == Post()

    def test_what_is_posted_is_returned(self) -> None:
        assert decide(POSTED, OWN) == AlreadyPosted(ACTIVITY, 1, changed=False)
        assert decide(POSTED, OTHER) == AlreadyPosted(ACTIVITY, 1, changed=False, task="dag/run/post/-1")
        changed = replace(OTHER, this=replace(FIRST, contents="another"))
        assert decide(POSTED, changed) == AlreadyPosted(ACTIVITY, 1, changed=True, task="dag/run/post/-1")

    def test_an_intent_of_another_task_is_left_alone_for_15_minutes(self) -> None:
        for age in (0.0, STALE_AFTER_SECONDS - 1):
            with pytest.raises(DestinationInUseError, match=r"dag/run/post/-1, try 1, .* The record FILE") as caught:
                decide(INTENDED, OTHER, age, on_uncertain="retry", post_again_on_clear=True)
            assert caught.value.retry_after == STALE_AFTER_SECONDS - age
        with pytest.raises(UncertainDeliveryError, match=r"Try 1 of dag/run/post/-1 .* if not, delete FILE"):
            decide(INTENDED, OTHER, STALE_AFTER_SECONDS)
        assert isinstance(decide(INTENDED, OTHER, STALE_AFTER_SECONDS, on_uncertain="retry"), Post)

    @pytest.mark.parametrize("ahead", [STALE_AFTER_SECONDS, 1e9])
    def test_one_that_is_dated_far_ahead_counts_as_an_older_one(self, ahead: float) -> None:
        with pytest.raises(DestinationInUseError):
            decide(INTENDED, OTHER, 1 - STALE_AFTER_SECONDS)
        with pytest.raises(UncertainDeliveryError):
            decide(INTENDED, OTHER, -ahead)
        assert isinstance(decide(INTENDED, OTHER, -ahead, on_uncertain="retry"), Post)

    def test_ones_own_is_uncertain_at_once(self) -> None:
        with pytest.raises(UncertainDeliveryError, match="Try 1 of this task"):
            decide(INTENDED, OWN)

    def test_a_clear_is_known_by_ones_own_entry_alone(self) -> None:
        cleared = replace(OWN, this=replace(FIRST, number=2, max_tries=9))
        assert isinstance(decide(POSTED, cleared, post_again_on_clear=True), Post)
        with pytest.raises(PermanentError, match="nothing was posted"):
            decide(POSTED, replace(cleared, this=replace(cleared.this, contents="another")))

        other = replace(OTHER, this=replace(cleared.this, contents="another"))
        assert isinstance(decide(POSTED, other, post_again_on_clear=True), AlreadyPosted)

    @pytest.mark.parametrize("author", [OWN, OTHER])
    def test_what_cannot_be_read_is_uncertain(self, author: Author) -> None:
        with pytest.raises(UncertainDeliveryError, match="The record FILE of this bulletin cannot be read"):
            decide(Unreadable(), author, post_again_on_clear=True)


def table(head: str) -> list[list[str]]:
    """Return the cells of a table of the guide."""
    lines = GUIDE.read_text(encoding="utf-8").partition(f"\n{head}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def killed(has_come: Callable[[Poster, Channel], bool]) -> Callable[[Channel], None]:
    """Let the first try die at a moment."""

    def happen(channel: Channel) -> None:
        poster = Poster(channel, "first", task=OWN.task)
        while not has_come(poster, channel):
            poster.step()
        poster.die()

    return happen


at_the_start = killed(lambda _, __: True)
after_the_intent = killed(lambda _, channel: channel.record() is not None)
while_sending = killed(lambda poster, _: poster.sending)
after_the_post = killed(lambda _, channel: bool(channel.posts))
after_the_result = killed(lambda _, channel: b'"posted"' in (channel.record() or b""))


def ended(fault: str = "", answer: Callable[[], Response] | None = None) -> Callable[[Channel], None]:
    """Let the first try come to its end."""

    def happen(channel: Channel) -> None:
        poster = Poster(channel, "first", task=OWN.task, answer=answer)
        while not poster.sending:
            poster.step()
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
    "no file, or the post was refused": (ended(answer=refusing), {}),
    "an activity": (ended(), {}),
    "an intent that is younger than 15 minutes": (after_the_intent, {"later": STALE_AFTER_SECONDS / 2}),
    "an older intent": (after_the_intent, {"later": STALE_AFTER_SECONDS}),
    'an older intent, with `on_uncertain="retry"`': (
        after_the_intent,
        {"later": STALE_AFTER_SECONDS, "on_uncertain": "retry"},
    ),
    "a file that it cannot understand": (lambda channel: channel.damage(), {}),
    'such a file, with `on_uncertain="retry"`': (lambda channel: channel.damage(), {"on_uncertain": "retry"}),
}


def what_follows(channel: Channel, task: str | None, rules: dict[str, Any]) -> str:
    """Return what the next try, or another task, does, in the words of the guide."""
    posted = len(channel.posts)
    channel.pass_time(rules.pop("later", 0))
    poster = Poster(channel, "next", task=task, number=2, **rules)
    poster.finish()
    if poster.failure:
        return f"`{poster.failure}`"
    return "posts" if len(channel.posts) > posted else "returns the same activity"


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return DiskChannel(folder=tmp_path / "journal")


@pytest.mark.parametrize("row", table("| what happened to a try | what the next try does | bulletins in the end |"))
def test_the_next_try_does_what_the_guide_says(channel: Channel, row: list[str]) -> None:
    happen, rules = CASES[row[0]]
    happen(channel)

    assert row[1].startswith(what_follows(channel, OWN.task, dict(rules)))
    assert str(len(channel.posts)) in row[2].split(" or ")


@pytest.mark.parametrize("row", table("| what another task with the same key finds | what it does |"))
def test_another_task_does_what_the_guide_says(channel: Channel, row: list[str]) -> None:
    happen, rules = OTHERS[row[0]]
    happen(channel)

    assert what_follows(channel, None, dict(rules)) == row[1]


def test_each_case_is_in_the_guide() -> None:
    heads = "| what happened to a try | what the next try does | bulletins in the end |"
    assert [row[0] for row in table(heads)] == list(CASES)
    assert [row[0] for row in table("| what another task with the same key finds | what it does |")] == list(OTHERS)
