"""Make the list of recent captures: read what the reader asks for, and turn task instances into rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow_provider_mediaops.iso_times import read_iso_time
from airflow_provider_mediaops.plugin.rendered_fields import NothingToShowError, read_fields
from airflow_provider_mediaops.plugin.report import origin_remark
from airflow_provider_mediaops.plugin.task_instances import CaptureFilter, ListPosition
from airflow_provider_mediaops.plugin.templates import render
from airflow_provider_mediaops.report_urls import NOT_MAPPED, report_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.plugin.rendered_fields import CaptureFields
    from airflow_provider_mediaops.plugin.summaries import TextSummary
    from airflow_provider_mediaops.plugin.task_instances import TaskInstanceFacts

_LONGEST_ASKED = 250


@dataclass(frozen=True, slots=True)
class Asked:
    """
    What the reader asks for, as texts of the form.

    :param dag: a part of the DAG's id.
    :param cluster: a part of the id of the connection to the cluster.
    :param frame: a part of the hottest top frame, or of the hottest kind of work.
    :param since: a time in UTC, from which on captures are listed.
    :param until: a time in UTC, up to which captures are listed.
    """

    dag: str = ""
    cluster: str = ""
    frame: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Asked:
        """
        Read what is asked for.

        :param query: the parameters of the address.
        """
        names = ("dag", "cluster", "frame", "since", "until")
        return cls(*(query.get(name, "").strip()[:_LONGEST_ASKED] for name in names))

    @property
    def values(self) -> dict[str, str]:
        """Return the parameters that are given."""
        every = {
            "dag": self.dag,
            "cluster": self.cluster,
            "frame": self.frame,
            "since": self.since,
            "until": self.until,
        }
        return {name: value for name, value in every.items() if value}

    def filter(self) -> tuple[CaptureFilter, tuple[str, ...]]:
        """
        Return the filter for the database.

        :returns: the filter, and sentences about what of it could not be understood.
        """
        notices: list[str] = []
        since, until = (_time(heading, text, notices) for heading, text in (("From", self.since), ("To", self.until)))
        return CaptureFilter(self.dag, since, until, self.cluster), tuple(notices)

    def fits(self, row: Row) -> bool:
        """
        Return whether a row has the cluster and the work that are asked for.

        :param row: a row.
        """
        works = (row.summary.kind, row.summary.frame) if row.summary else ("",)
        in_work = any(self.frame.casefold() in work.casefold() for work in works)
        return in_work and self.cluster.casefold() in row.cluster.casefold()


@dataclass(frozen=True, slots=True)
class Row:
    """
    A row of the list.

    :param facts: the task instance.
    :param cluster: the id of the connection to the cluster.
    :param summary: its first capture; None if it cannot be shown.
    :param note: why it cannot be shown; empty if it can.
    """

    facts: TaskInstanceFacts
    cluster: str
    summary: TextSummary | None
    note: str = ""


def own_fields(facts: TaskInstanceFacts) -> CaptureFields | str:
    """
    Return the capturing task's fields, or why its captures cannot be found.

    :param facts: the task instance.
    """
    try:
        return read_fields(facts.fields or {})
    except NothingToShowError as error:
        return error.sentence


def row_of(facts: TaskInstanceFacts, cluster: str, summary: TextSummary, *, is_replaced: bool) -> Row:
    """
    Return the row of a task instance.

    :param facts: the task instance.
    :param cluster: the id of the connection to the cluster.
    :param summary: what is in its file now.
    :param is_replaced: whether a later task instance in the list has the same file.
    :returns: the row; without the summary if that is of another task instance.
    """
    if is_replaced or origin_remark(summary.taken, facts):
        return Row(facts, cluster, None, "Its file is another capture by now: the destination is shared.")
    return Row(facts, cluster, summary)


def read_position(text: str) -> ListPosition | None:
    """
    Read a position in the list from an address.

    :param text: as :func:`position_text` wrote it.
    :returns: the position; None for the newest, also if the text is none of ours.
    """
    moment, _, skipped = text.partition("~")
    try:
        ended, skipped_rows = datetime.fromisoformat(moment), int(skipped)
        # The database compares times in UTC, in which the first and the last day of the calendar may not exist.
        position = ListPosition(ended.astimezone(timezone.utc), skipped_rows)
    except (ValueError, OverflowError):
        return None
    return position if ended.tzinfo and 0 <= skipped_rows <= _LONGEST_ASKED else None


def position_text(position: ListPosition) -> str:
    """
    Write a position in the list for an address.

    :param position: the position.
    """
    return f"{position.ended.astimezone(timezone.utc).isoformat()}~{position.skipped}"


def list_page(
    rows: Sequence[Row],
    asked: Asked,
    *,
    notices: Sequence[str],
    older: ListPosition | None,
    is_newest: bool,
    list_url: str,
    base_url: str,
) -> str:
    """
    Make the page of the list.

    :param rows: the rows.
    :param asked: what was asked for.
    :param notices: sentences to show above the rows.
    :param older: the position at which the next page begins; None if there is none.
    :param is_newest: whether the rows begin with the newest capture.
    :param list_url: the address of the list.
    :param base_url: Airflow's own address or its path.
    :returns: a whole HTML document.
    """
    newest_query = f"?{urlencode(asked.values)}" if asked.values else ""
    older_query = urlencode({**asked.values, "after": position_text(older)}) if older else ""
    return render(
        "list.html",
        title="Hot threads",
        asked=asked,
        is_filtered=bool(asked.values),
        notices=notices,
        rows=[_shown(row, base_url) for row in rows],
        nothing="There is no such capture." if asked.values or not is_newest else "There is no capture yet.",
        list_url=list_url,
        newest_url="" if is_newest else list_url + newest_query,
        older_url=f"{list_url}?{older_query}" if older else "",
    )


def _shown(row: Row, base_url: str) -> dict[str, Any]:
    key, summary = row.facts.key, row.summary
    taken = (summary.taken if summary else None) or row.facts.ended or datetime.now(timezone.utc)
    task = key.task_id if key.map_index == NOT_MAPPED else f"{key.task_id}[{key.map_index}]"
    return {
        "url": report_url(key.dag_id, key.run_id, key.task_id, key.map_index, base_url=base_url),
        "taken": f"{taken.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S}",
        "machine": taken.astimezone(timezone.utc).isoformat(timespec="seconds"),
        "dag": key.dag_id,
        "run": key.run_id,
        "task": task,
        "cluster": row.cluster,
        "note": row.note,
        "kind": summary.kind if summary else "",
        "share": summary.kind_share if summary else "",
        "frame": summary.frame if summary else "",
        "amount": summary.frame_amount if summary else "",
    }


def _time(heading: str, text: str, notices: list[str]) -> datetime | None:
    if not text:
        return None
    moment = read_iso_time(text)
    if moment is None:
        notices.append(f"“{heading}” is no time, and was left out: write 2026-11-22T18:00.")
    return moment
