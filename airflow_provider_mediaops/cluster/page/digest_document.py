"""
Write the page of a digest: recurring frames, thread pools over time, groups of tasks, flame graph of any time.

Like the page of captures it is one file that asks for nothing over the network. Its size is bounded, whatever the
number of captures.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.digest.findings import PRUNED, series_label
from airflow_provider_mediaops.cluster.page.digest_data import digest_data
from airflow_provider_mediaops.cluster.page.flame_graph import harmless_json
from airflow_provider_mediaops.cluster.page.tables import (
    Cell,
    method_cell,
    number_cell,
    percent_of,
    share_cell,
    table_of,
)
from airflow_provider_mediaops.cluster.text import count, readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.cluster.digest.model import Digest
    from airflow_provider_mediaops.cluster.page.tables import Table

    Column = Callable[[dict[str, Any]], Cell]

_NONE = "–"  # noqa: RUF001 - a dash
_MOST_FRAMES = 25
_MOST_GONE = 15
_MOST_WORKS = 15
# A wider table is hard to read; the JSON file has all of them.
_MOST_DAYS = 10
_MOST_TASKS = 25
_MOST_DAMAGED = 100
_EMPTY_FLAME: dict[str, Any] = {"labels": [], "unit": "percent", "places": ["pool"], "names": [], "stacks": [[]]}


def digest_page(digest: Digest, document: dict[str, Any], path: str) -> str:
    """Return the page of a digest."""
    from airflow_provider_mediaops.cluster.page import assets

    facts = document["digest"]
    data = digest_data(digest, path)
    values = {
        # What the headline is about.
        "title": facts["headline"].partition(":")[0],
        "licenses": assets.licenses(),
        "generator": assets.DIGEST_GENERATOR,
        "facts": facts,
        "series": [_series(profile) for profile in document["profiles"]],
        "span": _length(facts["span_seconds"]),
        "damaged": _damaged(document),
        "flame": harmless_json(_EMPTY_FLAME),
        "data": data,
        "rare": PRUNED,
        "counted": _counted,
        "minute": _minute,
    }
    scripts = assets.scripts(with_flame_graph=True, of_digest=True)
    return assets.render("digest.html", values, scripts=scripts, of_digest=True)


def _series(profile: dict[str, Any]) -> dict[str, Any]:
    return {
        "profile": profile,
        "words": _words(profile),
        "works": _work_table(profile),
        "frames": _frame_table(profile),
        "gone": _gone_table(profile) if profile["gone"] else None,
        "tasks": _task_table(profile) if profile["tasks"] else None,
    }


def _frame_table(profile: dict[str, Any]) -> Table:
    columns: dict[str, Column] = {
        "Top frame": lambda frame: method_cell(frame["frame"]),
        "Captures": lambda frame: _k_of_n(frame["captures"], frame["of"]),
        "Share": lambda frame: share_cell(frame["share_percent"]),
        "Thread pools": lambda frame: Cell(text=_named(frame["pools"])),
        "Nodes": _nodes,
        "First seen": lambda frame: _time(frame["first"]),
        "Last seen": lambda frame: _time(frame["last"]),
        "Period before": _before,
    }
    caption = _counted(profile, profile["captures"])
    return table_of(caption, profile["frames"], columns, most=_MOST_FRAMES, falls_by=None)


def _work_table(profile: dict[str, Any]) -> Table:
    """Return the kinds of work, with their shares of each day."""
    shares: dict[str, dict[str, float]] = {}
    for work in profile["works"]:
        for span in work["spans"]:
            day = shares.setdefault(span["since"][:10], {})
            day[work["work"]] = day.get(work["work"], 0.0) + span["amount"]
    days = sorted(shares)[-_MOST_DAYS:]
    columns: dict[str, Column] = {
        "Kind of work": lambda work: Cell(text=readable(work["label"])),
        "Captures": lambda work: _k_of_n(work["captures"], work["of"]),
        "Share": lambda work: share_cell(work["share_percent"]),
        **{day: partial(_share_of_day, shares[day]) for day in days},
    }
    caption = f"Kinds of work in {_counted(profile, profile['captures'])}"
    return table_of(caption, profile["works"], columns, most=_MOST_WORKS, falls_by=2)


def _share_of_day(day: dict[str, float], work: dict[str, Any]) -> Cell:
    total, amount = sum(day.values()), day.get(work["work"])
    return Cell(text=_NONE, number=-1) if not total or amount is None else share_cell(100 * amount / total)


def _gone_table(profile: dict[str, Any]) -> Table:
    columns: dict[str, Column] = {
        "Top frame": lambda frame: method_cell(frame["frame"]),
        "Captures before": lambda frame: _k_of_n(frame["captures_before"], frame["of_before"]),
        "Share before": lambda frame: share_cell(frame["share_percent_before"]),
        "Thread pools": lambda frame: Cell(text=_named(frame["pools"])),
        "Last seen": lambda frame: _time(frame["last"]),
    }
    caption = f"Gone: in the {_counted(profile, profile['captures_before'])} of the period before"
    return table_of(caption, profile["gone"], columns, most=_MOST_GONE, falls_by=None)


def _task_table(profile: dict[str, Any]) -> Table:
    tasks = profile["tasks"]
    longest = max(task["longest_ms"] for task in tasks)
    columns: dict[str, Column] = {
        "Action": lambda task: Cell(text=readable(task["action"])),
        "X-Opaque-Id": lambda task: Cell(text=readable(task["opaque_id"] or _NONE)),
        "Index": lambda task: Cell(text=readable(task["index"] or _NONE)),
        "Query": lambda task: Cell(text=readable(task["shape"] or _NONE)),
        "Captures": lambda task: _k_of_n(task["captures"], task["of"]),
        "CPU": lambda task: Cell(text=_seconds(task["cpu_ms"]) if task["cpu_ms"] else _NONE, number=task["cpu_ms"]),
        "Longest": lambda task: Cell(
            text=_seconds(task["longest_ms"]), number=task["longest_ms"], bar=percent_of(task["longest_ms"], longest)
        ),
        "Running": lambda task: number_cell(task["running"]),
        "Queued": lambda task: number_cell(task["queued"]),
        "Nodes": lambda task: number_cell(task["nodes"]),
    }
    caption = f"{profile['captures_with_tasks']:,} of {profile['captures']:,} {_words(profile)} saw a task"
    return table_of(caption, tasks, columns, most=_MOST_TASKS, falls_by=4)


def _damaged(document: dict[str, Any]) -> Table:
    files, number = document["damaged"], document["digest"]["damaged"]
    columns: dict[str, Column] = {
        "File": lambda each: Cell(text=readable(each["file"])),
        "Reason": lambda each: Cell(text=readable(each["reason"])),
    }
    more = number - len(files)
    return table_of(count(number, "file"), files, columns, most=_MOST_DAMAGED, more=more, falls_by=None)


def _words(profile: dict[str, Any]) -> str:
    return series_label(profile["series"], profile["kind"])


def _counted(profile: dict[str, Any], number: int) -> str:
    return f"{number:,} {series_label(profile['series'], profile['kind'], number)}"


def _k_of_n(number: int, of: int) -> Cell:
    return Cell(text=f"{number:,} of {of:,}", number=number, bar=percent_of(number, of))


def _nodes(frame: dict[str, Any]) -> Cell:
    names = frame["node_names"]
    text = readable(names[0]) if frame["nodes"] == 1 else f"{frame['nodes']:,} nodes"
    return Cell(text=text, number=frame["nodes"])


def _before(frame: dict[str, Any]) -> Cell:
    if frame["of_before"] is None:
        return Cell(text=_NONE, number=-1)
    after = f"0 of {frame['of_before']:,}"
    if frame["new"]:
        return Cell(text="new", after=after, number=0)
    return Cell(text=f"{frame['captures_before']:,} of {frame['of_before']:,}", number=frame["captures_before"])


def _named(counts: dict[str, int]) -> str:
    return ", ".join(map(readable, counts))


def _time(moment: str) -> Cell:
    return Cell(text=_minute(moment))


def _length(seconds: int) -> str:
    """Return the length of a span, which is a whole number of minutes, hours or days."""
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds % size == 0:
            return count(seconds // size, name)
    return count(seconds, "second")


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:,.1f} s"


def _minute(moment: str | None) -> str:
    return moment[:16].replace("T", " ") if moment else "any time"
