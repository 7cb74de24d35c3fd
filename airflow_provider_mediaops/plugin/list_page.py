"""The list of recent captures: what the reader asks for, and a row for each task instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.arguments import read_iso_time
from airflow_provider_mediaops.cluster.comparison import compare
from airflow_provider_mediaops.cluster.folded import short_method
from airflow_provider_mediaops.cluster.page.assets import render
from airflow_provider_mediaops.cluster.text import figure, in_what_was_read, readable
from airflow_provider_mediaops.plugin.reading import find_file, report_in
from airflow_provider_mediaops.report_urls import report_url

if TYPE_CHECKING:
    from airflow_provider_mediaops.plugin.reading import CaptureFile
    from airflow_provider_mediaops.plugin.task_instances import TaskInstanceFacts

#: The largest text that is read for a row, in bytes.
MAX_ROW_BYTES = 4_000_000
_MOST_KEPT = 2000


class Asked(BaseModel):
    """The parameters of the address: what the reader asks for, as texts of the form; times are in UTC."""

    model_config = ConfigDict(str_strip_whitespace=True)

    dag: str = ""
    cluster: str = ""
    since: str = ""
    until: str = ""
    # How many newer captures are on the pages before this one.
    skip: int = Field(0, ge=0, lt=1_000_000)


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """A capture in a row of the list, without characters that a page cannot show. Empty texts are left out."""

    taken: datetime | None
    kind: str
    # The share of the hottest kind of work, and why it is uncertain, if it is.
    kind_share: str
    frame: str
    frame_amount: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the list: a task instance with its first capture, or with a note why that cannot be shown."""

    facts: TaskInstanceFacts
    cluster: str
    summary: CaptureSummary | None
    note: str = ""

    @property
    def taken(self) -> datetime:
        """Return when the capture was taken, else when the task ended, in UTC."""
        taken = (self.summary.taken if self.summary else None) or self.facts.ended or datetime.now(timezone.utc)
        return taken.astimezone(timezone.utc)


def list_page(rows: Sequence[Row], asked: Asked, *, older: int | None, list_url: str, base_url: str) -> str:
    """Make the page of the list; ``older`` is how many captures are before the next page, None if there is none."""
    filled = asked.model_dump(exclude={"skip"}, exclude_defaults=True)
    newest_query = f"?{urlencode(filled)}" if filled else ""
    values = {
        "title": "Hot threads",
        "asked": asked,
        "is_filtered": bool(filled),
        # They limit nothing.
        "notices": [
            f"“{heading}” is not a time, and was left out: write 2026-11-22T18:00."
            for heading, text in (("From", asked.since), ("To", asked.until))
            if text and read_iso_time(text) is None
        ],
        "rows": rows,
        "url_of": partial(report_url, base_url=base_url),
        "nothing": "There is no such capture." if filled or asked.skip else "There is no capture yet.",
        "list_url": list_url,
        "newest_url": list_url + newest_query if asked.skip else "",
        "older_url": "" if older is None else f"{list_url}?{urlencode({**filled, 'skip': older})}",
    }
    return render("list.html", values, in_airflow=True)


def summary_of(path: str) -> CaptureSummary:
    """Summarize the text of a capture. It is read if it is new or has changed. May block."""
    file = find_file(path)
    if file.modified is None:
        # Another text of the same size would be taken for this one.
        return _summary_of_file.__wrapped__(file)
    return _summary_of_file(file)


@lru_cache(_MOST_KEPT)
def _summary_of_file(file: CaptureFile) -> CaptureSummary:
    report = report_in(file.read(max_bytes=MAX_ROW_BYTES), file.name)
    found = compare([report])
    working = found.method_at_work
    kind = found.hottest_kind
    share = f"{kind.share_percent:.0f} %{in_what_was_read(report.read_percent)}" if kind else ""
    return CaptureSummary(
        taken=report.taken,
        kind=readable(kind.label) if kind else "",
        kind_share=f"{share}, {kind.caution}" if kind and kind.caution else share,
        frame=readable(short_method(working.name)) if working else "",
        frame_amount=figure(working.peak, found.measure) if working else "",
    )
