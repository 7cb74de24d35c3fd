"""``leftovers``: list and delete what attempts that never came back have staged beside their destinations."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cli.result import Line, Result, TextTable
from airflow_provider_mediaops.cli.task_states import unfinished_state
from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError
from airflow_provider_mediaops.progress import duration
from airflow_provider_mediaops.storage.leftovers.model import LEAST_AGE_SECONDS, Leftover
from airflow_provider_mediaops.storage.leftovers.search import delete_leftover, find_leftovers

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.cli.result import Part
    from airflow_provider_mediaops.cli.terminal import Terminal

_AGE = re.compile(r"([0-9]{1,6})(m|h|d)")
_UNIT_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}
_WORDS = {
    "left": "left behind",
    "recent": "kept: written not long ago",
    "running": "kept: a task is writing it",
    "unclear": "kept",
}
_KILO = 1000


@dataclass(slots=True)
class _Search:
    """What was found, and what could not be looked at."""

    now: float
    older_than: float
    found: list[Leftover] = field(default_factory=list)
    deleted: list[Leftover] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    #: Why it is not known which tasks are still to come back.
    note: str | None = None

    def search(self, path: str) -> None:
        try:
            found = list(find_leftovers(path, self.now, self.older_than, self._on_error))
        except InvalidArgumentError:
            raise
        except (MediaOpsError, OSError) as error:
            self.problems.append(str(error))
            return
        known = {leftover.destination for leftover in self.found}
        self.found += [self._with_state(leftover) for leftover in found if leftover.destination not in known]

    def delete(self) -> None:
        for leftover in self.to_delete:
            # A task may have been cleared while somebody thought about the question.
            if self._with_state(leftover).state != "left":
                continue
            try:
                if delete_leftover(leftover, self.now, self.older_than):
                    self.deleted.append(leftover)
            except (MediaOpsError, OSError) as error:
                self.problems.append(f"{leftover.destination} was not deleted: {error}")

    @property
    def to_delete(self) -> list[Leftover]:
        return [leftover for leftover in self.found if leftover.state == "left"]

    def _on_error(self, error: OSError) -> None:
        self.problems.append(f"{error.filename} cannot be read: {error.strerror}")

    def _with_state(self, leftover: Leftover) -> Leftover:
        if leftover.state != "left" or leftover.task is None or self.note:
            return leftover
        try:
            state = unfinished_state(leftover.task)
        except OSError as error:
            self.note = str(error)
            return leftover
        return replace(leftover, state="running", note=f"its task is {state}") if state else leftover


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """
    List what is left, and delete what nobody has written for long enough, if that is asked for.

    :param options: ``paths``, ``older_than``, ``delete`` and ``yes``.
    :param terminal: asks before anything is deleted.
    :returns: what was found; a path that cannot be read, and a file that cannot be deleted, is a problem.
    :raises InvalidArgumentError: for an age or a path that can never work.
    """
    search = _Search(time.time(), seconds_of(options.older_than))
    for path in dict.fromkeys(options.paths):
        search.search(path)
    search.found.sort(key=lambda leftover: leftover.destination)
    many = len(search.to_delete)
    if options.delete and many:
        size = _size(sum(leftover.size for leftover in search.to_delete))
        # Whoever answers has not seen the rest of the output yet.
        question = " ".join([*_unknown_states(search), f"Delete what is staged for {_count(many)}, {size}?"])
        if terminal.confirm(question, yes=options.yes):
            search.delete()
    document = _document(search)
    return Result(document, _parts(search, options.older_than), problem=bool(search.problems))


def seconds_of(age: str) -> float:
    """
    Return an age in seconds.

    :param age: a whole number with a unit: minutes (m), hours (h) or days (d).
    :raises InvalidArgumentError: for anything else, and for less than a running attempt may be silent.
    """
    found = _AGE.fullmatch(age.strip())
    seconds = int(found[1]) * _UNIT_SECONDS[found[2]] if found else 0.0
    if seconds < LEAST_AGE_SECONDS:
        raise InvalidArgumentError(
            f"--older-than takes a whole number of minutes, hours or days, such as 12h or 7d, and at least "
            f"{LEAST_AGE_SECONDS / 60:.0f}m, because a running attempt may be silent for as long; not {age!r}."
        )
    return seconds


def _document(search: _Search) -> dict[str, Any]:
    deleted = {leftover.destination for leftover in search.deleted}
    return {
        "older_than_seconds": search.older_than,
        "leftovers": [
            {
                "destination": leftover.destination,
                "state": leftover.state,
                "note": leftover.note or None,
                "task": leftover.task,
                "rows": leftover.rows,
                "bytes": leftover.size,
                "written": leftover.written and _time(leftover.written),
                "files": list(leftover.files),
                "deleted": leftover.destination in deleted,
            }
            for leftover in search.found
        ],
        "problems": search.problems,
        "note": search.note,
    }


def _parts(search: _Search, older_than: str) -> list[Part]:
    parts: list[Part] = []
    if search.found:
        rows = [
            (
                leftover.destination,
                leftover.task,
                leftover.rows,
                _size(leftover.size),
                leftover.written and _ago(max(0.0, search.now - leftover.written)),
                "deleted" if leftover in search.deleted else _state(leftover),
            )
            for leftover in search.found
        ]
        parts.append(TextTable(("destination", "task", "rows", "size", "last written", "state"), rows))
    left = len(search.to_delete) - len(search.deleted)
    if search.deleted:
        parts.append(Line(f"Deleted what was staged for {_count(len(search.deleted))}.", "good"))
    if left:
        parts.append(
            Line(f"Left behind, not written for {older_than}: {_count(left)}. --delete removes it.", "warning")
        )
    if not search.to_delete and not search.problems:
        parts.append(Line(f"Nothing is left behind that was not written for {older_than}.", "good"))
    if search.found:
        parts += [Line(sentence, "warning") for sentence in _unknown_states(search)]
    return [*parts, *(Line(problem, "bad") for problem in search.problems)]


def _unknown_states(search: _Search) -> list[str]:
    note = search.note
    return [f"{note}, so a task that is deferred or waits for its next try is not recognised."] if note else []


def _state(leftover: Leftover) -> str:
    return f"kept: {leftover.note}" if leftover.note else _WORDS[leftover.state]


def _ago(seconds: float) -> str:
    days = int(seconds // _UNIT_SECONDS["d"])
    return f"{days:,} days ago" if days > 1 else f"{duration(seconds)} ago"


def _count(many: int) -> str:
    return f"{many:,} destination{'' if many == 1 else 's'}"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < _KILO:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KILO
    return f"{size:.1f} TB"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
