"""An export of subscriptions: a walk that saves each page, goes on where another stopped, and tells how far it is."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.exchange import Blocking
from airflow_provider_mediaops.storage.formats import FlatView, json_line
from airflow_provider_mediaops.video.paging import Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_provider_mediaops.http.exchange import Ask, Conversation
    from airflow_provider_mediaops.video.api import SubscriptionQuery

_PROGRESS_EVERY = 30.0


def state_of(walk: Walk) -> dict[str, Any]:
    """
    Give what another attempt needs to go on with a walk, besides the records.

    :param walk: the walk after a page.
    :returns: plain values.
    """
    return {
        "token": walk.token,
        "pages": walk.pages,
        "duplicates": walk.duplicates,
        "restarts": walk.restarts,
        "ended": walk.ended,
        "complete": walk.complete,
    }


def resumed_walk(
    query: SubscriptionQuery,
    state: Mapping[str, Any] | None,
    records: Iterable[Mapping[str, Any]],
    warn: Callable[[str], None],
    *,
    require_complete: bool = False,
) -> Walk:
    """
    Go on with a walk; where the service no longer takes its token, it starts over at the first page.

    :param query: what is listed, with the same page size.
    :param state: what :func:`state_of` gave; None to begin.
    :param records: the records that it has given so far, which it will leave out.
    :param warn: told what a person should know of a service that stumbles.
    :param require_complete: whether a listing that the service cuts short ends with an error. One that was cut short
        before starts over at the first page.
    :returns: the walk.
    """
    kept = dict(state or {})
    if require_complete and not kept.get("complete", True):
        kept |= {"token": None, "restarts": kept["restarts"] + 1, "ended": False, "complete": True}
    walk = Walk(query, warn=warn, require_complete=require_complete, **kept)
    walk.knows(records)
    return walk


def export_pages(
    ask: Ask, walk: Walk, commit: Callable[[Sequence[Mapping[str, Any]], dict[str, Any]], None], progress: Progress
) -> Conversation[None]:
    """
    Walk all pages that are left, and save each with the state of the walk before the next is asked for.

    :param ask: makes a conversation of a call.
    :param walk: where to begin, and what is counted.
    :param commit: saves the new records of a page and the state of the walk, both or neither.
    :param progress: tells how far it is.
    :returns: a conversation.
    :raises MediaOpsError: what the service refuses for good.
    """
    while (walked := (yield from walk.next_page(ask))) is not None:
        yield Blocking(partial(commit, walked.fresh, state_of(walk)))
        progress.count(len(walked.fresh))


@dataclass(slots=True)
class Progress:
    """
    How far an export is, in a line every 30 seconds.

    :param walk: the walk.
    :param tell: takes a line for people.
    :param rows: records that an earlier attempt has saved.
    :param clock: seconds that never run backwards.
    """

    walk: Walk
    tell: Callable[[str], None]
    rows: int = 0
    clock: Callable[[], float] = time.monotonic
    _fresh: int = field(default=0, init=False)
    _started: float = field(init=False)
    _told: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self._told = self.clock()

    def count(self, rows: int) -> None:
        """
        Count the records of a page, and tell if it is time.

        :param rows: how many were saved.
        """
        self._fresh += rows
        now = self.clock()
        if now - self._told >= _PROGRESS_EVERY:
            self._told = now
            self.tell(
                f"{self.rows + self._fresh:,} subscriptions of {self.walk.pages:,} pages so far; "
                f"{self._fresh / (now - self._started):,.0f} a second."
            )


def content_digest(records: Iterable[Mapping[str, Any]]) -> str:
    """
    Give a digest of what records there are, in whichever order.

    :param records: the records as they came.
    :returns: a digest of the id and etag of each; of the whole record where it lacks either.
    """
    total = 0
    for record in records:
        identifier, etag = record.get("id"), record.get("etag")
        told = isinstance(identifier, str) and isinstance(etag, str)
        text = json_line([identifier, etag]) if told else json_line(record)
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


#: The table of subscriptions (video-platform.md, section 2): the documented fields, and the whole record as JSON.
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
