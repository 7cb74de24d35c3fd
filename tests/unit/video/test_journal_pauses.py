"""A try that pauses within a request, another one that posts meanwhile, and what the guide says of them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.unit.video.journal_pauses import (
    POSTS_AGAIN,
    REASONS,
    REQUESTS,
    RETRIES,
    ROWS,
    TASK,
    Reason,
    Scene,
    author_of,
    let_another_post,
    paused,
    what_happened,
)
from tests.unit.video.journal_turns import Poster, channel_of

if TYPE_CHECKING:
    from pathlib import Path

#: The storages, in the order of the columns.
KINDS = ("disk", "store", "store that checks creation")


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
