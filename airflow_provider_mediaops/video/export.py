"""Export subscriptions: save each page of a listing, resume it after an interruption, and log its progress."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.http.exchange import Clock, Emit
from airflow_provider_mediaops.progress import ProgressLog, counted, rate_in_words
from airflow_provider_mediaops.storage.files import check_writable
from airflow_provider_mediaops.storage.formats import FlatView, json_line
from airflow_provider_mediaops.storage.ownership import DatasetWork
from airflow_provider_mediaops.storage.paths import path_of
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from airflow_provider_mediaops.video.changes import ExportChanges, canonical
from airflow_provider_mediaops.video.paging import Listing

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import TemporaryError
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.formats import CsvFormulas

# What another attempt needs to resume a listing, besides the records.
_STATE_OF_LISTING = ("token", "pages", "duplicates", "restarts", "ended", "complete")
# What the last line of the log says about the changes.
_CHANGES = {"added": "added", "removed": "removed", "changed_records": "changed"}
# The longest of the waits that follow each other without progress: a service may reset its quota late or by another
# clock, or others may have used it up already.
_LONGEST_WAIT_SECONDS = (math.inf, 900.0, 3_600.0, 14_400.0)
# A wait ends a little after the time that the service named, because clocks differ, and not for all waiting tasks at
# once: by between half of this share and all of it, a minute at most.
_EXTRA_SHARE, _MAX_EXTRA_SECONDS = 0.1, 60.0


@dataclass(frozen=True, slots=True)
class Export(DatasetWork):
    """
    The description of an export, in plain values that may travel from a task to a triggerer.

    ``query`` holds the fields of ``SubscriptionQuery``; the rest are arguments of ``ExportSubscriptionsOperator``.
    """

    query: dict[str, Any]
    format: str | None = None
    csv_formulas: CsvFormulas = "keep"
    if_changed: bool = False
    require_complete: bool = False
    changes: str | None = None

    def __post_init__(self) -> None:
        # Raise ValueError for what is no query.
        self.listed()

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
        self._changes: ExportChanges | None = None
        if export.require_complete and staging.state and not staging.state["complete"]:
            # The service may list all of it now; what was listed then may hold older records that were kept.
            staging.discard()
        if export.changes:
            check_writable(path_of(export.changes))
            self._changes = ExportChanges(export, staging, warn)
        state = {name: value for name, value in (staging.state or {}).items() if name in _STATE_OF_LISTING}
        self._listing = Listing(export.listed(), warn=warn, require_complete=export.require_complete, **state)
        self._listing.knows(staging.records())
        self._progress = ProgressLog(log, clock)

    def pages(self, client: Client) -> CallFlow[None]:
        """Fetch what is left; emit the new records of each page, to be saved before the next page is requested."""
        self._log(self._first_line(client.limiter.per_second if client.limiter else None))
        while (listed := (yield from self._listing.next_page(client.ask))) is not None:
            yield Emit(listed.fresh)
            metrics.count("video.export.pages")
            metrics.count("video.export.rows", len(listed.fresh))
        if self._changes:
            yield from self._changes.look(client.ask, self._listing)

    def _first_line(self, per_second: float | None) -> str:
        query = self._listing.query
        if query.channel_id is not None:
            whose = f"the subscriptions of channel {query.channel_id}"
        elif query.ids is not None:
            whose = f"{len(query.ids):,} subscriptions by their ids"
        else:
            whose = "the subscriptions of the authorised user"
        rate = "no rate set" if per_second is None else f"{rate_in_words(per_second)}, shared"
        begins = f"resumed after {self._amount()}" if self._listing.pages else "from the start"
        return f"Exporting {whose} to {self._export.destination}: pages of {query.max_results}, {rate}, {begins}."

    def save(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Save what :meth:`pages` has just emitted with the state of the listing; log the progress every 30 seconds."""
        state = {name: getattr(self._listing, name) for name in _STATE_OF_LISTING}
        if self._changes:
            state["second_look"] = asdict(self._changes.second_look)
        self._staging.commit(records, state)
        self._progress.count(len(records))
        self._progress.log_if_due(lambda: f"{self._amount()} so far; {self._progress.per_second:,.0f} a second.")

    def _amount(self) -> str:
        return _amount(self._staging.rows, self._listing.pages)

    def abort(self) -> None:
        """Log how much is saved, because the attempt ends with an error."""
        if self._changes:
            self._changes.close()
        if self._listing.complete or not self._export.require_complete:
            self._log(f"Kept {self._amount()} for the next attempt.")

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

    def end_line(self) -> str:
        """Return the last line of the log, once the dataset is published."""
        summary, destination = self._staging.summary, self._export.destination
        amount = _amount(summary["rows"], summary["pages"])
        if not summary.get("changed", True):
            return f"Nothing has changed in {amount}: {destination} stays as it is."
        numbers = ", ".join(f"{summary[key]:,} {word}" for key, word in _CHANGES.items() if key in summary)
        return f"Wrote {amount} to {destination}{numbers and f': {numbers}'}."


def _amount(rows: int, pages: int) -> str:
    return f"{counted(rows, 'subscription')} of {counted(pages, 'page')}"


@dataclass(slots=True)
class LongWaits:
    """The waits of one task in the triggerer for a time that the service named, longer than any call waits."""

    clock: Clock = field(default_factory=Clock)
    _without_progress: int = field(default=0, init=False)

    def pause_after(self, error: TemporaryError, *, progressed: bool) -> float | None:
        """
        Return the seconds to wait after an error that ended an attempt; None to give up.

        The first wait lasts until the time that the service named: ``Retry-After``, or the reset of a quota. If nothing
        was done after it, the next ones are 15 minutes, one hour and four hours at most; there is no fifth.
        """
        if progressed:
            self._without_progress = 0
        if not error.retry_after or self._without_progress == len(_LONGEST_WAIT_SECONDS):
            return None
        pause = min(error.retry_after, _LONGEST_WAIT_SECONDS[self._without_progress])
        self._without_progress += 1
        return pause + self.clock.uniform(0.5, 1.0) * min(pause * _EXTRA_SHARE, _MAX_EXTRA_SECONDS)


def content_digest(records: Iterable[Mapping[str, Any]], *, whole: bool = False) -> str:
    """
    Return a digest of a set of records; their order does not matter.

    It is of the id and etag of each: of all its content if it lacks either, or if ``whole`` is set.
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
