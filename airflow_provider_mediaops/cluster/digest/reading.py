"""Read one capture from its files: no more of them than is needed, and damaged ones with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.cluster.capture.json_head import JsonHead, read_head
from airflow_provider_mediaops.cluster.digest.capture_sums import (
    SERIES_OF_REASON,
    CaptureSums,
    TimeSource,
    sums_of,
    task_rows,
)
from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
from airflow_provider_mediaops.cluster.report_files import MAX_REPORT_BYTES, NoReportError, read_reports
from airflow_provider_mediaops.json_text import parse_json

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.period import Period
    from airflow_provider_mediaops.cluster.digest.source import FoundCapture, FoundFile

#: How many bytes of a JSON file are read to see whether it is of another time.
HEAD_BYTES = 1 << 16
# No report, deleted, or not readable by this user: the capture's other file may do.
_UNUSABLE = (NoReportError, FileNotFoundError, PermissionError)


class FoundSums(NamedTuple):
    """What the files of one name hold; nothing at all if they are of an earlier digest."""

    sums: tuple[CaptureSums, ...] = ()  # the captures of the period, and of that before
    outside: int = 0  # the number of captures of another time
    damage: str = ""  # why the files hold no capture, in words


def read_captures(files: FoundCapture, period: Period, warn: Callable[[str], None]) -> FoundSums:
    """
    Read a capture, or those that were appended to one another in one text.

    Its JSON file says when and why it was taken, and holds the report. If there is none, or it is damaged, the text is
    read: its reports say when, and if they do not, the time of the file counts.
    """
    damage = ""
    if files.json:
        try:
            return _read_json(files.json, files.name, period)
        except _UNUSABLE as error:
            damage = _in_words(error)
    if files.text is None:
        return FoundSums(damage=damage)
    try:
        found = _read_text(files.text, files.name, period)
    except _UNUSABLE as error:
        both = f"; of the .json file beside it: {damage}" if damage else ""
        return FoundSums(damage=f"{_in_words(error)}{both}")
    if damage:
        warn(f"Read {files.text.name} without the .json file beside it: {damage}.")
    return found


def _in_words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is gone"
    return "this user may not read it" if isinstance(error, PermissionError) else str(error)


def _read_json(file: FoundFile, name: str, period: Period) -> FoundSums:
    head = read_head(file.read(HEAD_BYTES).decode("utf-8", "replace"))
    if "digest" in head.values:
        return FoundSums()
    if head.taken is not None and period.place_of(head.taken.timestamp()) == "outside":
        return FoundSums(outside=1)
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
    head = JsonHead(document)
    taken, source = (head.taken.timestamp(), "capture") if head.taken else _time(report, file)
    return _sums([(report, taken, source)], name, period, head)


def _read_text(file: FoundFile, name: str, period: Period) -> FoundSums:
    reports = [found.capture.report for found in read_reports(file.read(MAX_REPORT_BYTES + 1))]
    return _sums([(report, *_time(report, file)) for report in reports], name, period, JsonHead())


def _time(report: HotThreadsReport, file: FoundFile) -> tuple[float | None, TimeSource]:
    return (file.modified, "file") if report.taken is None else (report.taken.timestamp(), "report")


def _sums(
    reports: Iterable[tuple[HotThreadsReport, float | None, TimeSource]], name: str, period: Period, head: JsonHead
) -> FoundSums:
    """Sum up reports, each with its time and where that is from."""
    found, outside = [], 0
    for report, taken, source in reports:
        if taken is None:
            return FoundSums(damage="neither the report nor its store says when it was taken")
        if period.place_of(taken) == "outside":
            outside += 1
            continue
        series = SERIES_OF_REASON.get(head.reason, "unknown")
        tasks = task_rows(head.values.get("running_tasks"), taken)
        found.append(sums_of(report, path=name, time=taken, time_source=source, series=series, tasks=tasks))
    return FoundSums(tuple(found), outside)
