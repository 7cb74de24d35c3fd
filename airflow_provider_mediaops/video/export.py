"""Export subscriptions: save each page of a listing, resume it after an interruption, and log its progress."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.progress import ProgressLog
from airflow_provider_mediaops.storage.formats import FlatView, json_line
from airflow_provider_mediaops.storage.ownership import DatasetWork
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from airflow_provider_mediaops.video.changes import canonical
from airflow_provider_mediaops.video.export_changes import STATE, ExportChanges
from airflow_provider_mediaops.video.paging import ListedPage, Listing, list_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.formats import CsvFormulas
    from airflow_provider_mediaops.video.second_look import Looked

# What the last line of the log says about the changes.
_CHANGES = {"added": "added", "removed": "removed", "changed_records": "changed"}


@dataclass(frozen=True, slots=True)
class Export(DatasetWork):
    """
    The description of an export, in plain values that may travel from a task to a triggerer.

    :param owner: the task instance that writes the dataset, and its parameters: the fields of ``Owner``.
    :param destination: the path of the dataset.
    :param query: the subscriptions to list: the fields of ``SubscriptionQuery``.
    :param format: the format of the dataset; None means the suffix.
    :param csv_formulas: ``keep`` or ``escape``, for texts that are formulas in a spreadsheet.
    :param if_changed: whether the published file stays if it has the same content.
    :param require_complete: whether a listing that the service cuts short ends with an error.
    :param changes: the path at which the changes are published; None for none.
    """

    query: dict[str, Any]
    format: str | None = None
    csv_formulas: CsvFormulas = "keep"
    if_changed: bool = False
    require_complete: bool = False
    changes: str | None = None

    def dataset(self) -> Dataset:
        """Return the dataset that is written."""
        from airflow_provider_mediaops.storage.dataset import Dataset

        return Dataset(
            self.destination,
            view=SUBSCRIPTIONS,
            format=self.format,
            csv_formulas=self.csv_formulas,
            changes=self.changes,
        )

    def listed(self) -> SubscriptionQuery:
        """Return the query."""
        return SubscriptionQuery(**self.query)


class ExportAttempt:
    """
    One attempt at an export, in a worker or in a triggerer; it resumes after the last page that is saved.

    Only :meth:`pages` is free of blocking work.

    :param export: the description of the export.
    :param staging: the place where it is committed.
    :param log: logs a line.
    :param warn: logs a warning about the service.
    :param clock: returns seconds that never run backwards.
    """

    def __init__(
        self,
        export: Export,
        staging: Staging,
        log: Callable[[str], None],
        warn: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._export = export
        self._staging = staging
        self._log = log
        if export.changes and export.require_complete and STATE in (staging.state or {"complete": True}):
            _discard_kept(staging)
        self._changes = (
            ExportChanges(export.changes, export.destination, staging, export.owned_by(), warn)
            if export.changes
            else None
        )
        self._listing = resumed_listing(
            export.listed(), staging.state, staging.records(), warn, require_complete=export.require_complete
        )
        self._saved_before = staging.rows
        self._progress = ProgressLog(log, clock)

    def pages(self, client: Client) -> CallFlow[Listing]:
        """
        Fetch all pages that are left.

        :param client: makes call flows of calls.
        :returns: a call flow that emits each page. It has to be saved before the next is requested.
        :raises MediaOpsError: if the service refuses for good, or cuts short what is required complete.
        """
        per_second = client.limiter.per_second if client.limiter else None
        self._log(start_line(self._listing, self._export.destination, per_second, self._saved_before))
        listing = yield from list_pages(client.ask, self._listing)
        if self._changes:
            yield from self._changes.look(client.ask, listing)
        return listing

    def save(self, listed: ListedPage | Looked) -> None:
        """
        Save the new records of a page with the state of the listing, and log the progress every 30 seconds.

        :param listed: the page, or the batch of the second look, that the call flow has just emitted.
        :raises OSError: if it cannot be saved.
        """
        if isinstance(listed, ListedPage):
            self._staging.commit(listed.fresh, state_of(self._listing))
            self._progress.count(len(listed.fresh))
        elif self._changes:
            self._changes.save(listed, state_of(self._listing))
        self._progress.log_if_due(lambda: progress_line(self._listing, self._progress, self._saved_before))

    def abort(self) -> None:
        """Log how much is saved, because the attempt ends with an error."""
        if self._changes:
            self._changes.abort()
        self._log(f"Kept {self._staging.rows} subscriptions of {self._listing.pages} pages for the next attempt.")

    def finish(self) -> None:
        """Set the return value of the task, and the digest of the content if the file may stay as it is."""
        listing = self._listing
        if self._export.if_changed:
            self._staging.digest = content_digest(self._staging.records(), whole=self._changes is not None)
        self._staging.summary = {
            "pages": listing.pages,
            "duplicates": listing.duplicates,
            "restarts": listing.restarts,
            "complete": listing.complete,
            "resumed": self._staging.resumed,
            **(self._changes.finish() if self._changes else {}),
        }


def _discard_kept(staging: Staging) -> None:
    """Begin anew if the listing was cut short, and older records were kept: now they are to be listed."""
    if not staging.state["complete"]:
        staging.discard()


def state_of(listing: Listing) -> dict[str, Any]:
    """
    Return what another attempt needs to resume a listing, besides the records.

    :param listing: the listing after a page.
    :returns: plain values.
    """
    return {
        "token": listing.token,
        "pages": listing.pages,
        "duplicates": listing.duplicates,
        "restarts": listing.restarts,
        "ended": listing.ended,
        "complete": listing.complete,
    }


def resumed_listing(
    query: SubscriptionQuery,
    state: Mapping[str, Any] | None,
    records: Iterable[Mapping[str, Any]],
    warn: Callable[[str], None],
    *,
    require_complete: bool = False,
) -> Listing:
    """
    Resume a listing. If the service no longer accepts its token, it starts over at the first page.

    :param query: the query, with the same page size.
    :param state: the result of :func:`state_of`; None to begin.
    :param records: the records that are saved, which it leaves out.
    :param warn: logs a warning about the service.
    :param require_complete: whether a listing that the service cuts short ends with an error. One that was cut short
        before starts over at the first page.
    :returns: the listing.
    """
    kept = {name: value for name, value in (state or {}).items() if name != STATE}
    if require_complete and not kept.get("complete", True):
        kept |= {"token": None, "restarts": kept["restarts"] + 1, "ended": False, "complete": True}
    listing = Listing(query, warn=warn, require_complete=require_complete, **kept)
    listing.knows(records)
    return listing


def progress_line(listing: Listing, progress: ProgressLog, saved_before: int) -> str:
    """
    Return the line that the log has of an export every 30 seconds.

    :param listing: the listing.
    :param progress: the subscriptions of this attempt.
    :param saved_before: the number of subscriptions that earlier attempts have saved.
    """
    rows = saved_before + progress.rows
    return f"{rows:,} subscriptions of {listing.pages:,} pages so far; {progress.per_second:,.0f} a second."


def start_line(listing: Listing, destination: object, per_second: float | None, rows: int) -> str:
    """
    Return the first line that the log has of an export.

    :param listing: the listing.
    :param destination: the path of the file.
    :param per_second: the requests a second that all who use the credential share; None if the connection has no rate.
    :param rows: the subscriptions that an earlier attempt has saved.
    :returns: a sentence with all of it.
    """
    query = listing.query
    if query.channel_id is not None:
        whose = f"Exporting the subscriptions of channel {query.channel_id}"
    elif query.ids is not None:
        whose = f"Exporting {len(query.ids):,} subscriptions by their ids"
    else:
        whose = "Exporting the subscriptions of the authorised user"
    rate = "no rate set" if per_second is None else f"{per_second:g} requests a second, shared"
    resumed = f"resumed after {rows:,} subscriptions of {listing.pages:,} pages" if listing.pages else "from the start"
    return f"{whose} to {destination}: pages of {query.max_results}, {rate}, {resumed}."


def end_line(summary: Mapping[str, Any], destination: str) -> str:
    """
    Return the last line that the log has of an export.

    :param summary: the return value of the task.
    :param destination: the path of the file.
    """
    rows, pages = summary["rows"], summary["pages"]
    if not summary.get("changed", True):
        return f"Nothing has changed in {rows} subscriptions of {pages} pages: {destination} stays as it is."
    numbers = ", ".join(f"{summary[key]:,} {word}" for key, word in _CHANGES.items() if key in summary)
    return f"Wrote {rows} subscriptions of {pages} pages to {destination}{numbers and f': {numbers}'}."


def content_digest(records: Iterable[Mapping[str, Any]], *, whole: bool = False) -> str:
    """
    Return a digest of a set of records; their order does not matter.

    :param records: the records as they came.
    :param whole: whether to digest the whole content of each.
    :returns: a digest of the id and etag of each; of the whole record if it lacks either.
    """
    total = 0
    for record in records:
        identifier, etag = record.get("id"), record.get("etag")
        identified = isinstance(identifier, str) and isinstance(etag, str)
        text = (
            canonical(record).encode() if whole else json_line([identifier, etag]) if identified else json_line(record)
        )
        total += int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "big")
    return f"{total:x}"


def _flatten(item: Mapping[str, Any]) -> dict[str, object]:
    snippet, details = _object(item, "snippet"), _object(item, "contentDetails")
    return {
        "id": item.get("id"),
        "title": snippet.get("title"),
        "channel_id": _object(snippet, "resourceId").get("channelId"),
        "description": snippet.get("description"),
        "published_at": snippet.get("publishedAt"),
        "total_item_count": details.get("totalItemCount"),
        "new_item_count": details.get("newItemCount"),
        "activity_type": details.get("activityType"),
        "record": json_line(item).decode(),
    }


def _object(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}


#: The columns of a subscription: the fields that are known, and the whole record as JSON.
SUBSCRIPTIONS = FlatView(
    columns={
        "id": str,
        "title": str,
        "channel_id": str,
        "description": str,
        "published_at": str,
        "total_item_count": int,
        "new_item_count": int,
        "activity_type": str,
        "record": str,
    },
    flatten=_flatten,
)
