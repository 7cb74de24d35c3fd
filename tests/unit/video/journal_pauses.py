"""A try that pauses within a request, and another one that posts meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from airflow_provider_mediaops.video.at_most_once import Posted
from tests.unit.video.journal_turns import Channel, Poster, refusing

if TYPE_CHECKING:
    from collections.abc import Callable


GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "post_bulletin.md"


HEAD = "| the try pauses when | folder on a disk | Amazon S3 | Google Cloud Storage, Azure |"


TABLE = GUIDE.read_text(encoding="utf-8").partition(f"\n{HEAD}\n")[2].partition("\n\n")[0].splitlines()[1:]


ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE]


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
