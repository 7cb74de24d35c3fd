"""Read one capture from its files: no more of them than is needed, and damaged ones with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.capture.json_file import read_head, taken_of
from airflow_provider_mediaops.cluster.digest.sums import SERIES_OF_REASON, CaptureSums, TimeSource, task_rows
from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
from airflow_provider_mediaops.cluster.plain_values import text_of, value_at
from airflow_provider_mediaops.cluster.report_files import MAX_REPORT_BYTES, NoReportError, read_reports
from airflow_provider_mediaops.json_text import parse_json

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.period import Period
    from airflow_provider_mediaops.cluster.digest.source import FoundCapture, FoundFile

#: How many bytes of a JSON file are read to see whether it is of another time.
HEAD_BYTES = 1 << 16
# So the JSON file of a digest begins.
_DIGEST = re.compile(rb'\s*\{\s*"digest"')
# No report, deleted, or not readable by this user: the capture's other file may do.
_UNUSABLE = (NoReportError, FileNotFoundError, PermissionError)

Found = list["CaptureSums | None"]
"""The captures of the files of one name; None for one of another time."""


def is_digest(files: FoundCapture) -> bool:
    """Return whether the files are those of an earlier digest, which is no capture."""
    with suppress(*_UNUSABLE):
        return bool(files.json and not files.text and _DIGEST.match(files.json.read(HEAD_BYTES)))
    return False


def read_captures(files: FoundCapture, period: Period, warn: Callable[[str], None]) -> Found:
    """
    Read a capture, or those that were appended to one another in one text.

    Its JSON file says when and why it was taken, and holds the report. If there is none, or it is damaged, the text is
    read: its reports say when, and if they do not, the time of the file counts. Raise NoReportError if neither can be
    read.
    """
    damage = ""
    if files.json:
        try:
            return _read_json(files.json, files.name, period)
        except _UNUSABLE as error:
            damage = _in_words(error)
    if files.text is None:
        raise NoReportError(damage)
    try:
        reports = [capture.report for capture, _ in read_reports(files.text.read(MAX_REPORT_BYTES + 1))]
    except _UNUSABLE as error:
        both = f"; of the .json file beside it: {damage}" if damage else ""
        raise NoReportError(f"{_in_words(error)}{both}") from error
    if damage:
        warn(f"Read {files.text.name} without the .json file beside it: {damage}.")
    return _sums(((report, *_time(report, files.text)) for report in reports), files.name, period)


def _in_words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is gone"
    return "this user may not read it" if isinstance(error, PermissionError) else str(error)


def _read_json(file: FoundFile, name: str, period: Period) -> Found:
    start = file.read(HEAD_BYTES)
    if _DIGEST.match(start):
        return []
    taken = taken_of(read_head(start.decode("utf-8", "replace")))
    if taken is not None and period.place_of(taken.timestamp()) == "outside":
        return [None]
    data = file.read(MAX_REPORT_BYTES + 1)
    if len(data) > MAX_REPORT_BYTES:
        raise NoReportError(f"it is larger than {MAX_REPORT_BYTES >> 20} MB, which no capture is")
    try:
        document = parse_json(data)
    except ValueError as error:
        raise NoReportError("it is not valid JSON") from error
    try:
        report = HotThreadsReport.from_dict(document)
    except ValueError as error:
        raise NoReportError("it is JSON, but not that of a capture") from error
    if not report.understood:
        raise NoReportError("it is JSON, but not that of a capture, which has nodes")
    taken = taken_of(document)
    time = (taken.timestamp(), "capture") if taken else _time(report, file)
    return _sums([(report, *time)], name, period, document)


def _time(report: HotThreadsReport, file: FoundFile) -> tuple[float | None, TimeSource]:
    return (file.modified, "file") if report.taken is None else (report.taken.timestamp(), "report")


def _sums(
    reports: Iterable[tuple[HotThreadsReport, float | None, TimeSource]],
    name: str,
    period: Period,
    document: object = None,
) -> Found:
    """Sum up reports, each with its time and where that is from."""
    series = SERIES_OF_REASON.get(text_of(value_at(document, "capture", "reason")), "unknown")
    found: Found = []
    for report, taken, source in reports:
        if taken is None:
            raise NoReportError("neither the report nor its store says when it was taken")
        if period.place_of(taken) == "outside":
            found.append(None)
            continue
        tasks = task_rows(value_at(document, "running_tasks"), taken)
        sums = CaptureSums(report=report, path=name, time=taken, time_source=source, series=series, tasks=tasks)
        found.append(sums)
    return found
