"""Summarize the text of a capture for a row of the list, once for each version of the text."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.comparison import WAITING, compare
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.cluster.kinds_of_work.labels import hot_kinds
from airflow_provider_mediaops.cluster.page.tables import method_cell
from airflow_provider_mediaops.cluster.page.text import figure, in_what_was_read, readable
from airflow_provider_mediaops.plugin.reading import look_up, read_text
from airflow_provider_mediaops.plugin.rendered_fields import NothingToShowError

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
    from airflow_provider_mediaops.cluster.kinds_of_work.labels import HotKind
    from airflow_provider_mediaops.plugin.reading import TextVersion

#: The largest text that is read for a row of the list, in bytes.
MAX_ROW_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class TextSummary:
    """
    A capture in a row of the list.

    :param taken: when it was taken, as its first node says; None if no node does.
    :param kind: the hottest kind of work; empty if there is none.
    :param kind_share: its share, and why it is uncertain, if it is.
    :param frame: the hottest top frame at work; empty if there is none.
    :param frame_amount: its amount, with its unit.
    """

    taken: datetime | None
    kind: str
    kind_share: str
    frame: str
    frame_amount: str


def summarize(report: HotThreadsReport) -> TextSummary:
    """
    Summarize a report.

    :param report: the report.
    :returns: its summary, without characters that a page cannot show.
    """
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
    """Return the share of a kind, and why it is uncertain, if it is."""
    part = in_what_was_read(report.read_percent)
    return ", ".join(filter(None, (f"{kind.share_percent:.0f} %{part}", kind.caution)))


def parsed(text: str, path: str) -> HotThreadsReport:
    """
    Read the text of a capture.

    :param text: the text.
    :param path: its path, for the error.
    :returns: the report.
    :raises NothingToShowError: if nothing in it is a report of hot threads.
    """
    report = parse(text)
    if not report.understood:
        # Nothing of it is shown: it may be any text, which a reader of the DAG need not be allowed to read.
        raise NothingToShowError(f"{path} is no report of hot threads: nothing in it was understood.")
    return report


class Summaries:
    """
    Keep the summaries of the captures that were listed last. Threads may share one.

    :param most: how many to keep.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[TextVersion, TextSummary] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, path: str) -> TextSummary:
        """
        Return the summary of a text. It is read if it is new or has changed. May block.

        :param path: the path of the text.
        :returns: its summary.
        :raises NothingToShowError: if there is no report.
        """
        version = look_up(path)
        with self._lock:
            if version in self._kept:
                self._kept.move_to_end(version)
                return self._kept[version]
        read = read_text(path, max_bytes=MAX_ROW_BYTES)
        summary = summarize(parsed(read.text, read.version.path))
        if read.version.modified is None:
            # Another text of the same size would be taken for this one.
            return summary
        with self._lock:
            self._kept[read.version] = summary
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return summary
