"""A try that pauses within a request, another one that posts meanwhile, and what the guide says of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from airflow_provider_mediaops.video.at_most_once import Posted
from tests.unit.video.journal_turns import Channel, Poster, channel_of, refusing

if TYPE_CHECKING:
    from collections.abc import Callable


GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "post_bulletin.md"
HEAD = "| the try pauses when | folder on a disk | Amazon S3 | Google Cloud Storage, Azure |"
TABLE = GUIDE.read_text(encoding="utf-8").partition(f"\n{HEAD}\n")[2].partition("\n\n")[0].splitlines()[1:]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE]
#: The storages, in the order of the columns.
KINDS = ("disk", "store", "store that checks creation")
TASK = "dag/run/post/-1"
RETRIES: dict[str, Any] = {"on_uncertain": "retry"}
POSTS_AGAIN: dict[str, Any] = {"post_again_on_clear": True}
NOTHING = "nothing"


@dataclass(frozen=True)
class Reason:
    """
    Why another try may post while one pauses.

    :param before: what the task's first try leaves: an intent, or an activity.
    :param older: the rules of the try that pauses.
    :param newer: the rules of the one that posts meanwhile.
    :param first: the rules of the one that pauses if it finds no entry; the newer one is the same.
    """

    before: str
    older: dict[str, Any]
    newer: dict[str, Any]
    first: dict[str, Any] = field(default_factory=dict)


REASONS = {
    "another task, which retries": Reason(
        "intent", {"task": TASK, "number": 2, **RETRIES}, {"later": STALE_AFTER_SECONDS, **RETRIES}, {"task": TASK}
    ),
    "the next try, which retries": Reason(
        "intent",
        {"task": TASK, "number": 2, **RETRIES},
        {"task": TASK, "number": 3, **RETRIES},
        {"task": TASK},
    ),
    "a try after another clear": Reason(
        "activity",
        {"task": TASK, "number": 2, "max_tries": 4, **POSTS_AGAIN},
        {"task": TASK, "number": 3, "max_tries": 5, **POSTS_AGAIN},
        {"task": TASK, "number": 2, "max_tries": 4},
    ),
    "any task, when the file is deleted": Reason(
        "intent", {"task": TASK, "number": 2, **RETRIES}, {"deleted": True}, {"task": TASK}
    ),
}


@dataclass
class Scene:
    """
    A try that is about to make the request in which it pauses, and what was there before it.

    :param channel: the channel.
    :param older: the try.
    :param before: the content of the file before it began.
    """

    channel: Channel
    older: Poster
    before: bytes | None

    def is_posted(self) -> bool:
        return self.older.name in self.channel.posts

    def is_intended(self) -> bool:
        return self.channel.record() != self.before

    def is_settled(self) -> bool:
        return self.is_posted() and isinstance(self.channel.entry().record, Posted)

    def is_withdrawn(self) -> bool:
        return self.older.sending and self.channel.record() == self.before


#: For each row of the guide: what the request brings about, whether there is an earlier entry, and whether the platform
#: refuses the bulletin.
REQUESTS: dict[str, tuple[Callable[[Scene], bool], bool, bool]] = {
    "it posts": (Scene.is_posted, True, False),
    "its intent replaces an earlier entry": (Scene.is_intended, True, False),
    "its activity replaces its intent": (Scene.is_settled, True, False),
    "after a refusal, it restores the earlier entry": (Scene.is_withdrawn, True, True),
    "after a refusal, it removes its intent": (Scene.is_withdrawn, False, True),
}


def begin(channel: Channel, reason: Reason, *, has_entry: bool, is_refused: bool) -> Scene:
    """Have the first try leave its entry, and the next one begin."""
    if has_entry:
        first = Poster(channel, "first", task=TASK)
        while not (channel.posts or (reason.before == "intent" and first.sending)):
            first.step()
        first.die() if reason.before == "intent" else first.finish()
        channel.posts.clear()
        channel.warnings.clear()
    rules = dict(reason.older if has_entry else reason.first)
    older = Poster(channel, "older", answer=refusing if is_refused else None, **rules)
    return Scene(channel, older, channel.record())


def paused(new: Callable[[], Channel], reason: Reason, row: str) -> Scene:
    """Return a try that makes the request of this row next."""
    has_come, has_entry, is_refused = REQUESTS[row]
    rehearsal = begin(new(), reason, has_entry=has_entry, is_refused=is_refused)
    steps = 0
    while not has_come(rehearsal):
        assert not rehearsal.older.ended, row
        rehearsal.older.step()
        steps += 1
    rehearsal.older.die()
    scene = begin(new(), reason, has_entry=has_entry, is_refused=is_refused)
    scene.older.step(steps - 1)
    assert not has_come(scene)
    return scene


def let_another_post(scene: Scene, reason: Reason) -> Poster:
    """Have another try, or another task, post from the beginning to the end."""
    channel, rules = scene.channel, dict(reason.newer)
    channel.pass_time(rules.pop("later", 0))
    if rules.pop("deleted", False):
        channel.delete()
    newer = Poster(channel, "newer", **rules)
    newer.finish()
    assert newer.returned == "act-newer"
    assert author_of(channel) == "newer"
    return newer


def author_of(channel: Channel) -> str:
    """Return who has posted the activity in the file; empty if there is none."""
    entry = channel.entry() if channel.record() else None
    return str(entry.record.activity["id"]).removeprefix("act-") if entry and isinstance(entry.record, Posted) else ""


def what_happened(scene: Scene) -> str:
    """Return what the try that paused has done since, in the words of the guide."""
    channel, older = scene.channel, scene.older
    posted_too = channel.posts[-1:] == ["older"]
    warns = [line for line in channel.warnings if "delete one of them" in line]
    if author_of(channel) == "newer":
        if warns:
            assert "act-older was posted, and" in warns[0]
            return "it posts, too, and its log warns" if posted_too else "its log warns"
        assert channel.posts == ["newer"]
        return "it returns the other activity" if older.returned == "act-newer" else NOTHING
    assert not warns
    if channel.record() is None:
        return "the other activity is removed"
    if author_of(channel) == "older":
        return "it posts, too, and replaces the other activity" if posted_too else "it replaces the other activity"
    assert channel.record() == scene.before
    return "the earlier entry replaces the other activity"


def test_each_request_is_in_the_guide() -> None:
    assert [row[0] for row in ROWS] == list(REQUESTS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("why", REASONS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_follows_a_pause_is_what_the_guide_says(tmp_path: Path, row: list[str], why: str, kind: str) -> None:
    reason, numbers = REASONS[why], itertools.count()
    scene = paused(lambda: channel_of(kind, tmp_path / str(next(numbers))), reason, row[0])
    let_another_post(scene, reason)
    scene.older.finish()

    assert what_happened(scene) == row[1 + KINDS.index(kind)]


def scene_of(kind: str, folder: Path, why: str, row: str) -> Scene:
    numbers = itertools.count()
    return paused(lambda: channel_of(kind, folder / str(next(numbers))), REASONS[why], row)


class TestWhatTheJournalHasForgotten:
    def test_a_task_that_comes_later_returns_what_has_replaced_it(self, tmp_path: Path) -> None:
        why = "the next try, which retries"
        scene = scene_of(KINDS[2], tmp_path, why, "its intent replaces an earlier entry")
        let_another_post(scene, REASONS[why])
        scene.older.finish()
        later = Poster(scene.channel, "later")
        later.finish()

        assert (scene.channel.posts, later.returned) == (["newer", "older"], "act-older")

    @pytest.mark.parametrize("kind", KINDS[1:])
    def test_a_task_that_comes_later_posts_if_there_is_nothing(self, tmp_path: Path, kind: str) -> None:
        why = "the next try, which retries"
        scene = scene_of(kind, tmp_path, why, "after a refusal, it removes its intent")
        let_another_post(scene, REASONS[why])
        scene.older.finish()
        later = Poster(scene.channel, "later")
        later.finish()

        assert (scene.channel.posts, later.returned) == (["newer", "later"], "act-later")


@pytest.mark.parametrize("kind", KINDS)
class TestTheClearThatPostsAgain:
    def test_one_try_at_a_time_posts_once_for_each_clear(self, tmp_path: Path, kind: str) -> None:
        channel = channel_of(kind, tmp_path)
        for number, max_tries in enumerate((3, 3, 4, 4, 5), start=1):
            name = f"clear-{max_tries}-try-{number}"
            Poster(channel, name, task=TASK, number=number, max_tries=max_tries, **POSTS_AGAIN).finish()

        assert channel.posts == ["clear-3-try-1", "clear-4-try-3", "clear-5-try-5"]

    def test_another_task_that_runs_meanwhile_does_not_post(self, tmp_path: Path, kind: str) -> None:
        numbers = itertools.count()
        outcomes = set()
        for before in itertools.count():
            channel = channel_of(kind, tmp_path / str(next(numbers)))
            Poster(channel, "first", task=TASK).finish()
            cleared = Poster(channel, "cleared", task=TASK, number=2, max_tries=4, **POSTS_AGAIN)
            other = Poster(channel, "other", max_tries=9, **RETRIES, **POSTS_AGAIN)
            cleared.step(before)
            was_done = cleared.ended
            other.finish()
            cleared.finish()
            assert channel.posts == ["first", "cleared"], before
            assert (cleared.returned, author_of(channel)) == ("act-cleared", "cleared"), before
            outcomes.add(other.failure or other.returned)
            if was_done:
                break

        assert outcomes == {"act-first", "DestinationInUseError", "act-cleared"}

    def test_a_cleared_task_that_runs_meanwhile_posts_once(self, tmp_path: Path, kind: str) -> None:
        """The other way round: the other task looks, the cleared one comes to its end, and the other one goes on."""
        numbers = itertools.count()
        for before in itertools.count():
            channel = channel_of(kind, tmp_path / str(next(numbers)))
            Poster(channel, "first", task=TASK).finish()
            other = Poster(channel, "other", max_tries=9, **RETRIES, **POSTS_AGAIN)
            other.step(before)
            was_done = other.ended
            Poster(channel, "cleared", task=TASK, number=2, max_tries=4, **POSTS_AGAIN).finish()
            other.finish()
            assert channel.posts == ["first", "cleared"], before
            assert other.returned in {"act-first", "act-cleared"}, before
            if was_done:
                return

    def test_its_next_try_posts_while_one_pauses(self, tmp_path: Path, kind: str) -> None:
        scene = scene_of(kind, tmp_path, "a try after another clear", "its intent replaces an earlier entry")
        let_another_post(scene, Reason("activity", {}, {"task": TASK, "number": 3, "max_tries": 4, **POSTS_AGAIN}))
        scene.older.finish()

        has_one_more = kind == KINDS[2]
        assert scene.channel.posts == ["newer", *(["older"] if has_one_more else [])]
        assert scene.older.returned == ("act-older" if has_one_more else "act-newer")

    def test_its_retry_finds_what_was_there_before_both_clears(self, tmp_path: Path, kind: str) -> None:
        why = "a try after another clear"
        scene = scene_of(kind, tmp_path, why, "after a refusal, it restores the earlier entry")
        let_another_post(scene, REASONS[why])
        scene.older.finish()
        Poster(scene.channel, "retry", task=TASK, number=4, max_tries=5, **POSTS_AGAIN).finish()

        assert scene.channel.posts == ["newer", *(["retry"] if kind == KINDS[2] else [])]
