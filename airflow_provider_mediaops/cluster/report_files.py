"""Read hot-threads reports from files. A file of another kind is refused with the kind that it is."""

from __future__ import annotations

import json
from contextlib import suppress

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.plain_values import mapping_of, number_of, text_of
from airflow_provider_mediaops.cluster.text import readable
from airflow_provider_mediaops.http.settings import MAX_LARGE_REPLY_BYTES

#: The size of the largest report that is read; a task takes no larger one either.
MAX_REPORT_BYTES = MAX_LARGE_REPLY_BYTES

_LONGEST_LINE = 80
_STARTS = {
    b"\xff\xfe": "it is UTF-16; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16; save it as UTF-8",
    b"\x1f\x8b": "it is compressed with gzip; unpack it first",
    b"PK\x03\x04": "it is a ZIP archive; unpack it first",
}
_UTF8_MARK = b"\xef\xbb\xbf"


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
    report = Capture(data.removeprefix(_UTF8_MARK).decode("utf-8", "surrogateescape")).report
    if not report.understood:
        raise NoReportError(_other(report.render()))
    found: list[tuple[Capture, int]] = []
    line = 1
    remarks = (f"Taken off before the text was read: {', '.join(report.wrappings)}.",) if report.wrappings else ()
    for part in report.captures():
        text = part.plain_text()
        # What it was wrapped in is known of the whole file only.
        found.append((Capture(text, remarks=remarks), line))
        line += text.count("\n")
    return found


def _other(text: str) -> str:
    if error := _error_reply(text):
        return error
    first = readable(text.lstrip().partition("\n")[0].strip(), _LONGEST_LINE)
    return f"it holds no report of hot threads, which a capture keeps in its .txt file; its first line is: {first}"


def _error_reply(text: str) -> str:
    """Return what an error reply of a cluster says; empty if the text is none."""
    reply: object = None
    with suppress(ValueError, RecursionError):
        reply = json.loads(text)
    error = mapping_of(reply).get("error")
    reason = text_of(error) or text_of(mapping_of(error).get("reason")) or text_of(mapping_of(error).get("type"))
    if reason is None:
        return ""
    status = number_of(mapping_of(reply).get("status"))
    return f"it is an error reply of the cluster{f' ({status:.0f})' if status else ''}: {readable(reason)}"
