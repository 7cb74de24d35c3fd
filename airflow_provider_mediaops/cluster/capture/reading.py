"""
Read captures from their files: texts, which may be from anywhere, and the head of JSON files.

A file of another kind is refused with the kind that it is.
"""

from __future__ import annotations

import codecs
import json
import re
from datetime import datetime
from typing import Any

from airflow_provider_mediaops.arguments import read_iso_time
from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.plain_values import value_at
from airflow_provider_mediaops.cluster.text import readable
from airflow_provider_mediaops.http.settings import MAX_LARGE_REPLY_BYTES

#: The size of the largest report that is read; a task takes no larger one either.
MAX_REPORT_BYTES = MAX_LARGE_REPLY_BYTES

_LONGEST_START = 120
_STARTS = {
    b"\xff\xfe": "it is UTF-16; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16; save it as UTF-8",
    b"\x1f\x8b": "it is compressed with gzip; unpack it first",
    b"PK\x03\x04": "it is a ZIP archive; unpack it first",
}
# What begins a JSON file, up to the value of each. What is behind them may take megabytes.
_HEAD = re.compile(r'\s*[{,]\s*"(capture|running_tasks)"\s*:\s*')
_DECODER = json.JSONDecoder()


class NoReportError(ValueError):
    """A file that holds no hot-threads report."""


def read_reports(data: bytes) -> list[tuple[Capture, int]]:
    """
    Read the reports of a file in their order: one, or several that were appended to one another.

    Each text is as the server wrote it, with the number of its first line in the file without its wrappings.
    """
    if not data.strip():
        raise NoReportError("it is empty")
    if len(data) > MAX_REPORT_BYTES:
        raise NoReportError(f"it is larger than {MAX_REPORT_BYTES >> 20} MB, which no report is")
    for start, kind in _STARTS.items():
        if data.startswith(start):
            raise NoReportError(kind)
    report = Capture(data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")).report
    if not report.understood:
        # In one line: that of a cluster's error may be a bracket.
        begin = readable(" ".join(report.render()[:1_000].split()), _LONGEST_START)
        what = "it holds no report of hot threads, which a capture keeps in its .txt file"
        raise NoReportError(f"{what}; it begins with: {begin}")
    found: list[tuple[Capture, int]] = []
    line = 1
    remarks = (f"Taken off before the text was read: {', '.join(report.wrappings)}.",) if report.wrappings else ()
    for part in report.captures():
        text = part.plain_text()
        # What it was wrapped in is known of the whole file only.
        found.append((Capture(text, remarks=remarks), line))
        line += text.count("\n")
    return found


def read_head(start: str) -> dict[str, Any]:
    """Return ``capture`` and ``running_tasks`` of the beginning of a file; None for one that does not end within it."""
    values: dict[str, Any] = {}
    position = max(start.find("{"), 0)
    while named := _HEAD.match(start, position):
        values[named[1]] = None
        try:
            values[named[1]], position = _DECODER.raw_decode(start, named.end())
        except (ValueError, RecursionError):
            break
    return values


def taken_of(document: object) -> datetime | None:
    """Return when the capture of a file, or of its head, was taken; None if it is unknown."""
    return read_iso_time(value_at(document, "capture", "taken"))
