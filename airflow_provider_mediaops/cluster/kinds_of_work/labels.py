"""
Label hot threads with the kinds of their work.

Each stack has one kind: that of the highest rank among all that its frames tell, and among equal ranks that of the
deepest frame. If no frame tells one, the thread's pool does, and the label says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.cluster.folded import method_of, pool_label
from airflow_provider_mediaops.cluster.kinds_of_work.table import OTHER, kinds_of_work

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThread
    from airflow_provider_mediaops.cluster.kinds_of_work.table import KindOfWork

# Few, for they are kept as long as the process lives. The threads of a pool have the same stacks.
_REMEMBERED_FRAMES = 5_000
_REMEMBERED_STACKS = 200
# What is longer was made up, and its beginning counts. So the time is linear in the length of a report.
_LONGEST_FRAME = 500
_MERGED_SHARD = re.compile(r"\[([^\[\]]{1,255})\]\[([0-9]{1,9})\]: Lucene Merge Thread")


class Label(NamedTuple):
    """The kind of work that one stack shows."""

    kind: KindOfWork
    method: str = ""  # class and method of the frame that told it; empty if none did

    @property
    def told_by(self) -> str:
        """Return the sign that told it: a frame of the stack, the name of the thread's pool, or none."""
        return "frame" if self.method else "nothing" if self.kind is OTHER else "pool"


class Work(NamedTuple):
    """A part of a thread's work."""

    label: Label
    share: float  # of the thread's busy snapshots, from 0 to 1
    snapshots: int  # how many show it; 0 if the thread has no stack

    def to_dict(self) -> dict[str, Any]:
        """Return it in plain values."""
        kind, method = self.label
        return {
            "kind": kind.id,
            "label": kind.label,
            "share_percent": round(100 * self.share, 1),
            "snapshots": self.snapshots,
            "told_by": self.label.told_by,
            **({"frame": method} if method else {}),
        }


def works_of(thread: HotThread) -> tuple[Work, ...]:
    """
    Return the kinds of work that the stacks of a thread show, the largest share first; the shares add up to 1.

    Snapshots in which it was idle do not count beside busy ones: the servers measure the use before they take stacks.
    """
    pool = pool_label(thread)
    shown: dict[Label, int] = {}
    for group in thread.groups:
        label = label_of(group.frames, pool)
        shown[label] = shown.get(label, 0) + group.snapshots
    if not any(shown.values()):
        return (Work(label_of((), pool), 1.0, 0),)
    busy = {label: number for label, number in shown.items() if label.kind.family != "idle" and number} or shown
    total = sum(busy.values())
    parts = (Work(label, number / total, number) for label, number in busy.items())
    return tuple(sorted(parts, key=lambda work: -work.share))


def label_of(frames: Sequence[str], pool: str = "") -> Label:
    """Return the kind of work that one stack shows: by its frames, innermost first, else by the thread's pool."""
    told = _told_by_frames(tuple(frame[:_LONGEST_FRAME] for frame in frames))
    if told is not None:
        return told
    return Label(_kinds_of_pools().get(pool, OTHER))


def is_wait(method: str) -> bool:
    """Return whether a thread waits, and does not work, if the method is on top of its stack."""
    told, _ = _signs_in(method[:_LONGEST_FRAME])
    return any(kind.family == "idle" for kind in told)


def merged_shard(thread: HotThread) -> tuple[str | None, int | None]:
    """Return the index and the shard that a merge thread works for; twice None if its name does not say."""
    match = _MERGED_SHARD.search(thread.name or "")
    return (match[1], int(match[2])) if match else (None, None)


@lru_cache(_REMEMBERED_STACKS)
def _told_by_frames(frames: tuple[str, ...]) -> Label | None:
    """Return the kind of the highest rank, of the deepest frame among equal ones."""
    signs = [_signs_in(frame) for frame in frames]
    excluded = {kind.id for _, excludes in signs for kind in excludes}
    told = [
        (kind, frames[depth])
        for depth, (tells, _) in enumerate(signs)
        for kind in tells
        if kind.id not in excluded and (not kind.within or depth < kind.within)
    ]
    if not told:
        return None
    # Of equal ones, the first.
    kind, frame = max(told, key=lambda pair: pair[0].rank)
    return Label(kind, method_of(frame))


@lru_cache(_REMEMBERED_FRAMES)
def _signs_in(frame: str) -> tuple[tuple[KindOfWork, ...], tuple[KindOfWork, ...]]:
    """Return the kinds that a frame tells, and those that it excludes."""
    method = method_of(frame)
    names = {name for name, part in _names() if part in method and _pattern_of(name).search(method)}
    if not names:
        return (), ()
    told = tuple(kind for kind in kinds_of_work() if not names.isdisjoint(kind.frames))
    return told, tuple(kind for kind in kinds_of_work() if not names.isdisjoint(kind.unless))


@cache
def _names() -> tuple[tuple[str, str], ...]:
    """Return the names of the table, each with its longest part without an asterisk, which is found quickly."""
    names = dict.fromkeys(name for kind in kinds_of_work() for name in (*kind.frames, *kind.unless))
    return tuple((name, max(name.split("*"), key=len)) for name in names)


@cache
def _pattern_of(name: str) -> re.Pattern[str]:
    end = "" if name.endswith((".", "*")) else r"(?!\w)"
    return re.compile(r"(?<!\w)" + r"\w*".join(map(re.escape, name.split("*"))) + end)


@cache
def _kinds_of_pools() -> dict[str, KindOfWork]:
    return {pool: kind for kind in kinds_of_work() for pool in kind.pools}
