"""``hot-threads --digest``: one page of many captures, as a task makes it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cli.terminal import STANDARD_INPUT, Figure, Line, Result, TextTable, absolute_path
from airflow_provider_mediaops.cluster.digest.attempt import DigestPlan, make_digest
from airflow_provider_mediaops.cluster.digest.period import read_period
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.cli.terminal import Terminal

_OTHERS = ("html", "folded", "json")


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """Make a digest, and show the result of the task. A damaged file is a problem."""
    if given := [f"--{name}" for name in _OTHERS if getattr(options, name) is not None]:
        raise InvalidArgumentError(
            f"--digest writes the page, JSON and folded stacks: leave out {' and '.join(given)}."
        )
    if STANDARD_INPUT in (*options.files, options.digest):
        raise InvalidArgumentError(
            "--digest reads folders and files, and writes several files: - cannot be one of them."
        )
    period = read_period(options.since, options.until, datetime.now(timezone.utc))
    sources = tuple(absolute_path(file) for file in options.files)
    plan = DigestPlan(sources, absolute_path(options.digest), period)
    found = make_digest(plan, log=terminal.say, warn=lambda text: terminal.say(text, "bad"))
    counts = {f"{name} captures": number for name, number in found["series"].items()}
    counts |= {"of another time": found["outside"], "left out": found["damaged"]}
    parts = [
        Line(found["headline"], "title"),
        TextTable((), [(f"  {name}", number) for name, number in counts.items() if number]),
        TextTable(("Captures", "Kind of work", "Seen in", "Share"), _rows(found["works"], "label")),
        TextTable(("Captures", "Top frame", "Seen in", "Share"), _rows(found["frames"], "frame")),
    ]
    return Result(found, parts, problem=bool(found["damaged"]))


def _rows(recurring: list[dict[str, Any]], name: str) -> list[tuple[str, ...]]:
    return [
        (
            each["series"],
            each[name],
            f"{each['captures']:,} of {each['of']:,}",
            Figure(f"{each['share_percent']:.1f} %"),
        )
        for each in recurring
    ]
