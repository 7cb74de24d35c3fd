"""Make the list of recent captures: read what the reader asks for, and show task instances as rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from airflow_provider_mediaops.cluster.page.assets import render
from airflow_provider_mediaops.iso_times import read_iso_time
from airflow_provider_mediaops.report_urls import report_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.plugin.summaries import TextSummary
    from airflow_provider_mediaops.plugin.task_instances import TaskInstanceFacts

_LONGEST_ASKED = 250
_MOST_DIGITS = 6
_FIELDS = ("dag", "cluster", "frame", "since", "until")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the reader asks for, as texts of the form; times are in UTC."""

    dag: str
    cluster: str
    # A part of the hottest top frame, or of the hottest kind of work.
    frame: str
    since: str
    until: str
    # How many newer captures are on the pages before this one.
    skip: int

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Asked:
        """Read what is asked for from the parameters of the address."""
        skip = query.get("skip", "")
        return cls(
            **{name: query.get(name, "").strip()[:_LONGEST_ASKED] for name in _FIELDS},
            skip=int(skip) if skip.isascii() and skip.isdecimal() and len(skip) <= _MOST_DIGITS else 0,
        )

    @property
    def values(self) -> dict[str, str]:
        """Return the fields of the form that are filled in."""
        return {name: value for name in _FIELDS if (value := getattr(self, name))}

    def notices(self) -> list[str]:
        """Return sentences about the times that cannot be understood, which limit nothing."""
        times = {"From": self.since, "To": self.until}
        return [
            f"“{heading}” is not a time, and was left out: write 2026-11-22T18:00."
            for heading, text in times.items()
            if text and read_iso_time(text) is None
        ]

    def fits(self, row: Row) -> bool:
        """Return whether a row has the cluster and the work that are asked for."""
        works = (row.summary.kind, row.summary.frame) if row.summary else ("",)
        in_work = any(self.frame.casefold() in work.casefold() for work in works)
        return in_work and self.cluster.casefold() in row.cluster.casefold()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the list: a task instance with its first capture, or with a note why that cannot be shown."""

    facts: TaskInstanceFacts
    cluster: str
    summary: TextSummary | None
    note: str = ""

    @property
    def taken(self) -> datetime:
        """Return when the capture was taken, else when the task ended, in UTC."""
        taken = (self.summary.taken if self.summary else None) or self.facts.ended or datetime.now(timezone.utc)
        return taken.astimezone(timezone.utc)


def list_page(
    rows: Sequence[Row],
    asked: Asked,
    *,
    notices: Sequence[str],
    older: int | None,
    list_url: str,
    base_url: str,
) -> str:
    """Make the page of the list; ``older`` is how many captures are before the next page, None if there is none."""
    newest_query = f"?{urlencode(asked.values)}" if asked.values else ""
    values = {
        "title": "Hot threads",
        "asked": asked,
        "is_filtered": bool(asked.values),
        "notices": notices,
        "rows": rows,
        "url_of": partial(report_url, base_url=base_url),
        "nothing": "There is no such capture." if asked.values or asked.skip else "There is no capture yet.",
        "list_url": list_url,
        "newest_url": list_url + newest_query if asked.skip else "",
        "older_url": "" if older is None else f"{list_url}?{urlencode({**asked.values, 'skip': older})}",
    }
    return render("list.html", values, in_airflow=True)
