"""Wait for a subscription to exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.video.arguments import LARGEST_PAGE, SubscriptionQuery
from airflow_provider_mediaops.waiting import Done, Waiting, Watch

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow
    from airflow_provider_mediaops.waiting import Verdict


@dataclass(slots=True)
class SubscriptionWatch(SubscriptionQuery, Watch):
    """A subscription that matches a filter; the arguments are those of ``SubscriptionSensor``."""

    part: str | Sequence[str] = ("id", "snippet")
    max_results: int | None = LARGEST_PAGE

    def look(self, ask: Ask) -> CallFlow[Verdict]:
        """List pages until one holds a record; done with its ``id`` and ``title``."""
        from airflow_provider_mediaops.video.models import read_subscription
        from airflow_provider_mediaops.video.paging import Listing

        listing = Listing(self)
        while (listed := (yield from listing.next_page(ask))) is not None:
            if listed.fresh:
                found = read_subscription(listed.fresh[0])
                return Done({"id": found.id, "title": found.title})
        cut = "" if listing.complete else ", but the service cut its listing short"
        return Waiting(f"no subscription matches{cut}")
