"""Read one capture from its files: no more of them than is needed, and damaged ones with the reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.cluster.capture.json_head import JsonHead, read_head
from airflow_provider_mediaops.cluster.digest.capture_sums import (
    SERIES_OF_REASON,
    CaptureSums,
    TimeSource,
    sums_of,
    task_rows,
)
from airflow_provider_mediaops.cluster.hot_threads.grammar import SAMPLING, read_timestamp
from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
from airflow_provider_mediaops.cluster.page.assets import DIGEST_GENERATOR, GENERATOR
from airflow_provider_mediaops.cluster.report_files import MAX_REPORT_BYTES, NoReportError, read_reports
from airflow_provider_mediaops.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.cluster.digest.period import Period
    from airflow_provider_mediaops.cluster.digest.source import FoundCapture, SourceFile

#: How many bytes of a JSON file are read for its head; if the tasks that ran take more room, the second number.
HEAD_BYTES, MOST_HEAD_BYTES = 1 << 16, 1 << 22
_LOST = "it is a page whose capture is gone: a digest reads the .txt or .json file beside it"
# Nodes print their own times, and the text begins with any of them.
_CLOCK_SLACK_SECONDS = 3600.0
_START_BYTES = 1 << 14
# No report, deleted, or not readable by this user: the capture's other file may do.
_UNUSABLE = (NoReportError, FileNotFoundError, PermissionError)
_SAMPLING_TIME = re.compile(rf"{SAMPLING}([0-9T:.Z-]{{10,40}})".encode())


class FoundSums(NamedTuple):
    """
    What the files of one name hold.

    :param sums: the captures of the period, and of that before.
    :param outside: the number of captures of another time.
    :param damage: why the files hold no capture, in words; empty if they do, or were never files of one.
    """

    sums: tuple[CaptureSums, ...] = ()
    outside: int = 0
    damage: str = ""


def read_captures(files: FoundCapture, period: Period, warn: Callable[[str], None]) -> FoundSums:
    """
    Read a capture, or those that were appended to one another in one text.

    Its JSON file says when and why it was taken; if there is none, the report says when, and if it does not, the time
    of the file counts. The JSON file also holds the report: it is read if the text is gone, or is another one by now.
    """
    try:
        return _read(files, period, warn)
    except _UNUSABLE as error:
        return FoundSums(damage=_in_words(error))


def belongs_to_capture(files: FoundCapture) -> bool:
    """
    Return whether one of the files is of a capture, so that nothing else may take its place.

    :raises OSError: if one cannot be read.
    """
    try:
        head = _head(files.json)
        return (
            files.text is not None
            or not {"capture", "nodes"}.isdisjoint(head.values)
            or (files.page is not None and _generator(files.page) == GENERATOR)
        )
    except NoReportError:
        # A folder or a pipe is refused where it would be written.
        return False


def _read(files: FoundCapture, period: Period, warn: Callable[[str], None]) -> FoundSums:
    if files.page and not files.text and not files.json:
        # Only of a capture: an earlier digest, and the page of another program, were never one.
        return FoundSums(damage=_LOST if _generator(files.page) == GENERATOR else "")
    files, head = _with_head(files, warn)
    if "digest" in head.values:
        return FoundSums()
    if head.taken is not None and period.place_of(head.taken.timestamp()) == "outside":
        return FoundSums(outside=1)
    used, reports = _reports(files, head, period, warn)
    if not reports:
        return FoundSums(outside=1)
    # The JSON file is of one capture.
    head = head if len(reports) == 1 else JsonHead()
    found, outside = [], 0
    for report in reports:
        taken, source = _time(head, report, used)
        if taken is None:
            return FoundSums(damage="neither the report nor its store says when it was taken")
        if period.place_of(taken) == "outside":
            outside += 1
            continue
        series = SERIES_OF_REASON.get(head.reason, "unknown")
        tasks = task_rows(head.values.get("running_tasks"), taken)
        found.append(sums_of(report, path=used.name, time=taken, time_source=source, series=series, tasks=tasks))
    return FoundSums(tuple(found), outside)


def _generator(page: SourceFile) -> str | None:
    """Return which pages of this package a page is one of; None if it is of another program."""
    start = page.read(_START_BYTES).decode("utf-8", "replace")
    return next((made for made in (DIGEST_GENERATOR, GENERATOR) if f'name="generator" content="{made} ' in start), None)


def _with_head(files: FoundCapture, warn: Callable[[str], None]) -> tuple[FoundCapture, JsonHead]:
    """Return the files and the head of the JSON file: without that file if it cannot be read, and there is a text."""
    try:
        return files, _head(files.json)
    except _UNUSABLE as error:
        if files.text is None:
            raise
        warn(f"Read {files.text.name} without the .json file beside it: {_in_words(error)}.")
        return files._replace(json=None), JsonHead()


def _head(file: SourceFile | None) -> JsonHead:
    if file is None:
        return JsonHead()
    head = _head_of(file.read(HEAD_BYTES))
    # Only a capture has so much to say before its nodes.
    return head if head.is_whole or "capture" not in head.values else _head_of(file.read(MOST_HEAD_BYTES))


def _head_of(data: bytes) -> JsonHead:
    return read_head(data.decode("utf-8", "replace"))


def _prints_other_times(data: bytes, period: Period) -> bool:
    """Return whether a text prints times, and all are of another period, so that it need not be parsed."""
    moments = [read_timestamp(time.decode()) for time in _SAMPLING_TIME.findall(data)]
    return bool(moments) and all(
        moment is not None and period.place_of(moment.timestamp(), _CLOCK_SLACK_SECONDS) == "outside"
        for moment in moments
    )


def _reports(
    files: FoundCapture, head: JsonHead, period: Period, warn: Callable[[str], None]
) -> tuple[FoundCapture, list[HotThreadsReport]]:
    """Return the reports, and the files that they were read from: without a text that cannot be of the JSON file."""
    if files.text is None:
        return files, [_report_of(files.json)]
    try:
        return files, _reports_of_text(files.text, head, period)
    except _UNUSABLE as error:
        if files.json is None:
            raise
        reason = _in_words(error)
    try:
        report = _report_of(files.json)
    except NoReportError as error:
        raise NoReportError(f"{reason}; of the .json file beside it: {error}") from error
    warn(f"Read {files.json.name} in the place of {files.text.name}: {reason}.")
    return files._replace(text=None), [report]


def _reports_of_text(file: SourceFile, head: JsonHead, period: Period) -> list[HotThreadsReport]:
    """Return the reports of a text; none if all are of another time."""
    data = file.read(MAX_REPORT_BYTES + 1)
    if head.taken is None and _prints_other_times(data, period):
        return []
    reports = [found.capture.report for found in read_reports(data)]
    if head.taken is not None:
        printed = [node.timestamp for report in reports for node in report.nodes if node.timestamp]
        gaps = [abs((moment - head.taken).total_seconds()) for moment in printed]
        if gaps and min(gaps) > _CLOCK_SLACK_SECONDS:
            raise NoReportError(f"its nodes print another time than the .json file, which is of {head.taken:%F %T} UTC")
    return reports


def _report_of(file: SourceFile | None) -> HotThreadsReport:
    if file is None:
        raise NoReportError("there is no file")
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
    return report


def _in_words(error: NoReportError | OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "it was there when the files were listed, and is gone"
    return "this user may not read it" if isinstance(error, PermissionError) else str(error)


def _time(head: JsonHead, report: HotThreadsReport, files: FoundCapture) -> tuple[float | None, TimeSource]:
    if head.taken is not None:
        return head.taken.timestamp(), "capture"
    if report.taken is not None:
        return report.taken.timestamp(), "report"
    file = files.text or files.json
    return file.modified if file else None, "file"
