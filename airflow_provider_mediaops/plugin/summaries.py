"""Summarize the text of a capture for a row of the list, once for each version of the text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.comparison import WAITING, compare
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.cluster.kinds_of_work.labels import hot_kinds
from airflow_provider_mediaops.cluster.page.tables import method_cell
from airflow_provider_mediaops.cluster.text import figure, in_what_was_read, readable
from airflow_provider_mediaops.plugin.reading import look_up, read_text
from airflow_provider_mediaops.plugin.rendered_fields import NothingToShowError

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
    from airflow_provider_mediaops.cluster.kinds_of_work.labels import HotKind
    from airflow_provider_mediaops.plugin.reading import TextVersion

#: The largest text that is read for a row of the list, in bytes.
MAX_ROW_BYTES = 4_000_000
_MOST_KEPT = 2000


@dataclass(frozen=True, slots=True)
class TextSummary:
    """A capture in a row of the list, without characters that a page cannot show. Empty texts are left out."""

    taken: datetime | None
    kind: str
    # The share of the hottest kind of work, and why it is uncertain, if it is.
    kind_share: str
    frame: str
    frame_amount: str


def summary_of(path: str) -> TextSummary:
    """Summarize a text. It is read if it is new or has changed. May block."""
    version = look_up(path)
    if version.modified is None:
        # Another text of the same size would be taken for this one.
        return _summary_of_version.__wrapped__(path, version)
    return _summary_of_version(path, version)


@lru_cache(_MOST_KEPT)
def _summary_of_version(path: str, version: TextVersion) -> TextSummary:
    report = parsed(read_text(path, max_bytes=MAX_ROW_BYTES).text, version.path)
    found = compare([report])
    working = next((method for method in found.methods if method.peak and method.name not in WAITING), None)
    kinds = hot_kinds(report, found.measure)
    return TextSummary(
        taken=report.taken,
        kind=readable(kinds[0].label) if kinds else "",
        kind_share=_share_of(kinds[0], report) if kinds else "",
        frame=method_cell(working.name).text if working else "",
        frame_amount=figure(working.peak, found.measure) if working else "",
    )


def _share_of(kind: HotKind, report: HotThreadsReport) -> str:
    part = in_what_was_read(report.read_percent)
    return ", ".join(filter(None, (f"{kind.share_percent:.0f} %{part}", kind.caution)))


def parsed(text: str, path: str) -> HotThreadsReport:
    """Read the text of a capture."""
    report = parse(text)
    if not report.understood:
        # Nothing of it is shown: it may be any text, which a reader of the DAG need not be allowed to read.
        raise NothingToShowError(f"{path} is not a report of hot threads: nothing in it was understood.")
    return report
