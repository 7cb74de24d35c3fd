"""
Label hot threads with the kinds of their work, which are in the table `kinds_of_work.ini`; it explains its fields.

Each stack has one kind: that of the highest rank among all that its frames tell, and among equal ranks that of the
deepest frame. If no frame tells one, the thread's pool does, and the label says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from configparser import ConfigParser
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.cluster.folded import method_of, pool_label

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThread

# Few, for they are kept as long as the process lives. The threads of a pool have the same stacks.
_REMEMBERED_FRAMES = 5_000
_REMEMBERED_STACKS = 200
# What is longer was made up, and its beginning counts. So the time is linear in the length of a report.
_LONGEST_FRAME = 500
_MERGED_SHARD = re.compile(r"\[([^\[\]]{1,255})\]\[([0-9]{1,9})\]: Lucene Merge Thread")


class KindOfWork(NamedTuple):
    """One kind of work."""

    id: str  # its family, a dot and its own name
    rank: int  # decides between several kinds of one stack: the highest wins
    label: str
    look: str  # what to look at next
    example: str = ""  # a frame that tells it; empty if only pools do
    frames: tuple[str, ...] = ()  # the names, one of which is in a frame that tells it
    unless: tuple[str, ...] = ()  # the names that exclude it, anywhere in the stack
    within: int = 0  # how many of the innermost frames count; 0 counts all
    pools: tuple[str, ...] = ()  # whose threads do this if no frame tells more

    @property
    def family(self) -> str:
        """Return the name of its family."""
        return self.id.partition(".")[0]


#: The kind of a stack in which no frame tells one, of a thread whose pool tells none.
OTHER = KindOfWork("other", 0, "Other: no frame tells a known kind", "Read the stack in the flame graph.")


@cache
def kinds_of_work() -> tuple[KindOfWork, ...]:
    """Return the kinds of the table."""
    table = ConfigParser(delimiters=("=",), interpolation=None)
    table.read_string(files(__package__).joinpath("kinds_of_work.ini").read_text("utf-8"))
    return tuple(_read_kind(name, **table[name]) for name in table.sections())


def _read_kind(
    name: str,
    *,
    rank: str,
    label: str,
    look: str,
    example: str = "",
    frames: str = "",
    unless: str = "",
    within: str = "0",
    pools: str = "",
) -> KindOfWork:
    return KindOfWork(
        id=name,
        rank=int(rank),
        label=label,
        look=" ".join(look.split()),
        example=example,
        frames=tuple(frames.split()),
        unless=tuple(unless.split()),
        within=int(within),
        pools=tuple(filter(None, pools.split("\n"))),
    )


def label_of_id(kind_id: str) -> str:
    """Return a kind in words; an id that this version does not know stands for itself."""
    return next((kind.label for kind in (*kinds_of_work(), OTHER) if kind.id == kind_id), kind_id)


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
