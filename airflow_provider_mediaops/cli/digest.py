"""``hot-threads --digest``: one page of many captures, as a task makes it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cli.terminal import STANDARD_INPUT, Figure, Line, Result, TextTable
from airflow_provider_mediaops.cluster.digest.attempt import DigestPlan, make_digest
from airflow_provider_mediaops.cluster.digest.period import read_period
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.cli.terminal import Part, Terminal


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """Make a digest, and show the result of the task. A damaged file is a problem."""
    others = (options.html, options.folded, options.json)
    if others != (None, None, None) or STANDARD_INPUT in (*options.files, options.digest):
        raise InvalidArgumentError(
            "--digest reads files and folders, and writes a page with JSON and folded stacks beside it: leave out "
            "--html, --folded, --json and -."
        )
    period = read_period(options.since, options.until, datetime.now(timezone.utc))
    plan = DigestPlan(tuple(options.files), options.digest, period)
    found = make_digest(plan, log=terminal.say, warn=lambda text: terminal.say(text, "bad"))
    counts = {f"{name} captures": number for name, number in found["series"].items()}
    counts |= {"of another time": found["outside"], "left out": found["damaged"]}
    parts: list[Part] = [
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
