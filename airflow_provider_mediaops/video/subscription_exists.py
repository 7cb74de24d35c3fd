"""Wait for a subscription to exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.video.arguments import LARGEST_PAGE, SubscriptionQuery
from airflow_provider_mediaops.waiting import Done, Waiting, Watch

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow
    from airflow_provider_mediaops.waiting import Verdict


@dataclass(frozen=True, slots=True)
class SubscriptionWatch(Watch):
    """A subscription that matches a filter; the arguments are those of ``SubscriptionSensor``."""

    channel_id: str | None = None
    ids: str | Sequence[str] | None = None
    mine: bool = False
    for_channel_ids: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        # Plain values: a trigger's row in the database holds them.
        query = self._query()
        for field in fields(self):
            object.__setattr__(self, field.name, getattr(query, field.name))

    @classmethod
    def check(cls, given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
        """Check the fields that are known."""
        SubscriptionQuery.check(given, is_unknown)

    def _query(self) -> SubscriptionQuery:
        return SubscriptionQuery(
            channel_id=self.channel_id,
            ids=self.ids,
            mine=self.mine,
            for_channel_ids=self.for_channel_ids,
            part=("id", "snippet"),
            max_results=LARGEST_PAGE,
        )

    def look(self, ask: Ask) -> CallFlow[Verdict]:
        """List pages until one holds a record; done with its ``id`` and ``title``."""
        from airflow_provider_mediaops.video.models import read_subscription
        from airflow_provider_mediaops.video.paging import Listing

        listing = Listing(self._query())
        while (listed := (yield from listing.next_page(ask))) is not None:
            if listed.fresh:
                found = read_subscription(listed.fresh[0])
                return Done({"id": found.id, "title": found.title})
        cut = "" if listing.complete else ", but the service cut its listing short"
        return Waiting(f"no subscription matches{cut}")
