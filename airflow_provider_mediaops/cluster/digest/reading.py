"""Read one capture from its files: no more of them than is needed, and damaged ones with the reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

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
from airflow_provider_mediaops.cluster.report_files import MAX_REPORT_BYTES, NoReportError, read_reports
from airflow_provider_mediaops.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_provider_mediaops.cluster.digest.period import Period
    from airflow_provider_mediaops.cluster.digest.source import FoundCapture, FoundFile

#: How many bytes of a JSON file are read to see whether it is of another time.
HEAD_BYTES = 1 << 16
# Nodes print their own times, and the text begins with any of them.
_CLOCK_SLACK_SECONDS = 3600.0
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

    Its JSON file says when and why it was taken, and holds the report. If there is none, or it is damaged or does not
    say when (as one that somebody has made of a text), the text is read: its reports say when, and if they do not, the
    time of the file counts.
    """
    readers = [("text", files.text, _read_text), (".json file", files.json, _read_json)]
    if not _is_of_a_text(files):
        readers.reverse()
    reasons: dict[str, str] = {}
    for kind, file, read in readers:
        if file is None:
            continue
        try:
            found = read(file, files.name, period)
        except _UNUSABLE as error:
            reasons[kind] = _in_words(error)
        else:
            for other, reason in reasons.items():
                warn(f"Read {file.name} without the {other} beside it: {reason}.")
            return found
    damage = [reasons[kind] for kind in ("text", ".json file") if kind in reasons]
    return FoundSums(damage="; of the .json file beside it: ".join(damage))


def _is_of_a_text(files: FoundCapture) -> bool:
    """Return whether a JSON file has a report without a time, as one that somebody has made of the text beside it."""
    if files.json is None or files.text is None:
        return False
    try:
        head = _head(files.json)
    except _UNUSABLE:
        return False
    return "nodes" in head.values and head.taken is None


def belongs_to_capture(files: FoundCapture) -> bool:
    """
    Return whether one of the files is of a capture, so that nothing else may take its place.

    :raises OSError: if one cannot be read.
    """
    if files.text is not None or files.json is None:
        return True
    try:
        return not {"capture", "nodes"}.isdisjoint(_head(files.json).values)
    except NoReportError:
        # A folder or a pipe is refused where it would be written.
        return False


def _head(file: FoundFile) -> JsonHead:
    return read_head(file.read(HEAD_BYTES).decode("utf-8", "replace"))


def _read_json(file: FoundFile, name: str, period: Period) -> FoundSums:
    head = _head(file)
    if "digest" in head.values:
        return FoundSums()
    if head.taken is not None and period.place_of(head.taken.timestamp()) == "outside":
        return FoundSums(outside=1)
    report, document = _report_of(file)
    head = JsonHead(document)
    taken, source = (head.taken.timestamp(), "capture") if head.taken else _time(report, file)
    return _sums([(report, taken, source)], name, period, head)


def _read_text(file: FoundFile, name: str, period: Period) -> FoundSums:
    data = file.read(MAX_REPORT_BYTES + 1)
    if _prints_other_times(data, period):
        return FoundSums(outside=1)
    reports = [found.capture.report for found in read_reports(data)]
    return _sums([(report, *_time(report, file)) for report in reports], name, period, JsonHead())


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


def _time(report: HotThreadsReport, file: FoundFile) -> tuple[float | None, TimeSource]:
    return (file.modified, "file") if report.taken is None else (report.taken.timestamp(), "report")


def _prints_other_times(data: bytes, period: Period) -> bool:
    """Return whether a text prints times, and all are of another period, so that it need not be parsed."""
    moments = [read_timestamp(time.decode()) for time in _SAMPLING_TIME.findall(data)]
    return bool(moments) and all(
        moment is not None and period.place_of(moment.timestamp(), _CLOCK_SLACK_SECONDS) == "outside"
        for moment in moments
    )


def _report_of(file: FoundFile) -> tuple[HotThreadsReport, dict[str, Any]]:
    """Return the report of a JSON file, and all that the file says."""
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
    return report, document


def _in_words(error: NoReportError | OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "it was there when the files were listed, and is gone"
    return "this user may not read it" if isinstance(error, PermissionError) else str(error)
