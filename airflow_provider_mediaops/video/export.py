"""Export subscriptions: save each page of a listing, resume it after an interruption, and log its progress."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_mediaops.http.exchange import Blocking
from airflow_provider_mediaops.storage.formats import FlatView, json_line
from airflow_provider_mediaops.video.paging import Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_provider_mediaops.http.exchange import Ask, Conversation
    from airflow_provider_mediaops.progress import ProgressLog
    from airflow_provider_mediaops.video.api import SubscriptionQuery


class Commit(Protocol):
    """Saves the new records of a page and the state of the listing: both or neither."""

    def __call__(self, records: Sequence[Mapping[str, Any]], state: dict[str, Any], /) -> None:
        """Save the records and the state."""
        ...


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
    kept = dict(state or {})
    if require_complete and not kept.get("complete", True):
        kept |= {"token": None, "restarts": kept["restarts"] + 1, "ended": False, "complete": True}
    listing = Listing(query, warn=warn, require_complete=require_complete, **kept)
    listing.knows(records)
    return listing


def export_pages(
    ask: Ask, listing: Listing, commit: Commit, progress: ProgressLog, *, saved_before: int = 0
) -> Conversation[None]:
    """
    Fetch all pages that are left, and save each with the state of the listing before the next is requested.

    :param ask: makes a conversation of a call.
    :param listing: the listing.
    :param commit: saves a page.
    :param progress: counts the subscriptions of this attempt, and logs how far it is.
    :param saved_before: the number of subscriptions that earlier attempts have saved.
    :returns: a conversation.
    :raises MediaOpsError: if the service refuses for good, or cuts short what is required complete.
    """
    while (listed := (yield from listing.next_page(ask))) is not None:
        yield Blocking(partial(commit, listed.fresh, state_of(listing)))
        progress.count(len(listed.fresh))
        progress.log_if_due(lambda: _progress_line(listing, progress, saved_before))


def _progress_line(listing: Listing, progress: ProgressLog, saved_before: int) -> str:
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


def content_digest(records: Iterable[Mapping[str, Any]]) -> str:
    """
    Return a digest of a set of records; their order does not matter.

    :param records: the records as they came.
    :returns: a digest of the id and etag of each; of the whole record if it lacks either.
    """
    total = 0
    for record in records:
        identifier, etag = record.get("id"), record.get("etag")
        identified = isinstance(identifier, str) and isinstance(etag, str)
        text = json_line([identifier, etag]) if identified else json_line(record)
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
