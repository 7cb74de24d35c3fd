"""Look once more for subscriptions that a listing lacks: the service's pages are known to leave records out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import BadRequestError, NotFoundError, PermissionDeniedError
from airflow_provider_mediaops.http.exchange import Ask, Blocking, CallFlow, Emit
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.video.arguments import LARGEST_PAGE
from airflow_provider_mediaops.video.changes import id_of
from airflow_provider_mediaops.video.paging import Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from airflow_provider_mediaops.video.arguments import SubscriptionQuery
    from airflow_provider_mediaops.video.changes import VersionComparison

# Records that are kept without a request are saved in batches of this size.
_KEPT_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Looked:
    """
    A batch of subscriptions that the listing lacks.

    :param last: the last of their ids: those up to it are decided.
    :param recovered: the records that the service still has.
    :param kept: older records of which it is not known that they are gone.
    """

    last: str
    recovered: list[dict[str, Any]]
    kept: list[dict[str, Any]]


def second_look(
    ask: Ask,
    query: SubscriptionQuery,
    comparison: VersionComparison,
    after: str | None,
    *,
    complete: bool,
    warn: Callable[[str], None],
) -> CallFlow[None]:
    """
    Look for all subscriptions of the older version that the listing lacks, 50 a request.

    :param ask: makes a call flow of a call.
    :param query: the query of the listing.
    :param comparison: both versions.
    :param after: the id after which to begin; None for the first.
    :param complete: whether the listing was complete. Otherwise nothing is requested, and all of them are kept.
    :param warn: logs a warning about the service.
    :returns: a call flow that emits a :class:`Looked` for each batch, which has to be saved before the next.
    :raises MediaOpsError: if the service refuses; but the records of a batch that it cannot answer for are kept.
    """
    limit = LARGEST_PAGE if complete else _KEPT_AT_ONCE
    while gone := (yield Blocking(partial(comparison.gone, after, limit))):
        found, is_known = yield from _found(ask, query, gone, warn) if complete else _nothing()
        kept = [] if is_known else [parse_json(old) for name, old in gone.items() if name not in found]
        after = next(reversed(gone))
        yield Emit(Looked(after, list(found.values()), kept))


def _nothing() -> CallFlow[tuple[dict[str, Any], bool]]:
    yield from ()
    return {}, False


def _found(
    ask: Ask, query: SubscriptionQuery, ids: Collection[str], warn: Callable[[str], None]
) -> CallFlow[tuple[dict[str, Any], bool]]:
    """Return the records that the service has of these ids, and whether those that it did not send are gone."""
    found: dict[str, Any] = {}
    # A list of ids is sent as one text with commas, and an address holds no half of a character.
    if any("," in name or name != name.strip() or not name.isprintable() for name in ids):
        return found, False
    by_ids = replace(query, channel_id=None, mine=False, ids=tuple(ids), for_channel_ids=None, max_results=LARGEST_PAGE)
    listing = Listing(by_ids, warn=warn)
    try:
        while (listed := (yield from listing.next_page(ask))) is not None:
            asked_for = {item["id"]: item for item in listed.fresh if id_of(item) in ids}
            found |= asked_for
            if len(asked_for) < len(listed.fresh):
                # A service or a gateway that passes over the ids says nothing about them.
                warn(f"The service sent other subscriptions than {len(ids)} that may be gone, so those are kept.")
                return found, False
    except (BadRequestError, NotFoundError, PermissionDeniedError) as error:
        warn(f"The service does not say whether {len(ids)} subscriptions are gone, so they are kept: {error.message}")
        return found, False
    return found, listing.complete
