"""List all pages of subscriptions, on a service whose paging is known to fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import BadRequestError, InvalidReplyError
from airflow_provider_mediaops.http.exchange import Ask, CallFlow, Emit, Wait
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.scratch import SeenSet
from airflow_provider_mediaops.video.arguments import DEFAULT_PAGE

if TYPE_CHECKING:
    from airflow_provider_mediaops.video.arguments import SubscriptionQuery
    from airflow_provider_mediaops.video.models import SubscriptionPage

# A good token is refused in bursts: the page is requested again after these pauses, then the listing starts over, once.
_TOKEN_PAUSES = (1.0, 2.0, 4.0)
# A page of known records only happens when the order shifts; several in a row are a circle.
_STALE_PAGES = 3
# An empty page with a token of a next one is part of a listing, but an endless row of them is not.
_EMPTY_PAGES = 200
# A total that is wrong by less than this factor is an ordinary one.
_ANNOUNCED_TIMES = 2


@dataclass(frozen=True, slots=True)
class ListedPage:
    """One page as it came, and those of its records that no earlier page of the listing held."""

    page: SubscriptionPage
    fresh: list[dict[str, Any]]


@dataclass(slots=True)
class Listing:
    """
    A listing of all pages, and its state.

    An empty page with a token of a next one is not the end. A listing that would go in a circle ends with what came
    before, and is not ``complete``. Neither is one whose last page is full, if the service announced more than twice as
    many records as came. Its total says nothing else: it is known to be wrong in both directions.
    """

    query: SubscriptionQuery
    start: str | None = None  # the token of the page where it begins, and starts over; None for the first
    warn: Callable[[str], None] = field(default=lambda _: None, repr=False)
    token: str | None = None  # of the page to fetch next; None for ``start``
    pages: int = 0
    duplicates: int = 0  # records that came again and were left out of ``fresh``
    restarts: int = 0  # it starts over once by itself, if its token is refused for good
    ended: bool = False
    complete: bool = True
    require_complete: bool = False
    known: SeenSet = field(default_factory=SeenSet, repr=False)  # the ids of the records that came before
    _known_this_round: SeenSet = field(init=False, repr=False)
    _tokens: SeenSet = field(default_factory=SeenSet, repr=False)
    _started_over: bool = False
    _stale: int = 0
    _empty: int = 0

    def __post_init__(self) -> None:
        self.token = self.token or self.start
        # Until it starts over, what came before came in this round.
        self._known_this_round = SeenSet() if self.restarts else self.known
        if "id" not in self.query.part:
            # Records are identified by their id.
            self.query = replace(self.query, part=("id", *self.query.part))

    def knows(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Add records that came before, so that they are left out."""
        for item in items:
            self.known.add([_key(item)])

    def next_page(self, ask: Ask) -> CallFlow[ListedPage | None]:
        """
        Fetch the next page; return None at the end.

        A listing that the service cut short ends with an ``InvalidReplyError`` if it is required complete.
        """
        while not self.ended:
            try:
                page = yield from _ask_patiently(ask, self.query, self.token)
            except BadRequestError as error:
                if not _is_token_refusal(error) or self.token == self.start or self._started_over:
                    raise
                self._start_over()
            else:
                listed = self._take(page)
                self.token = page.next_page_token
                why = self._why_cut_short(page)
                self.ended = not self.token or bool(why)
                if why:
                    self.complete = False
                    after = counted(self.pages, "page")
                    self.warn(f"The service cut the listing short: it ends after {after}, because {why}.")
                return listed
        if self.require_complete and not self.complete:
            raise InvalidReplyError(
                f"The service cut the listing short after {counted(self.pages, 'page')}, and require_complete is set: "
                "try it again later, or in another order; without require_complete it ends with what there is.",
                service="video platform",
            )
        return None

    def _take(self, page: SubscriptionPage) -> ListedPage:
        items = page.items
        # Nearly every record has an id; a call for each would take as long as all the rest of this.
        keys = [known if type(known := item.get("id")) is str else _key(item) for item in items]
        new = self.known.add(keys)
        fresh = items
        # Most pages hold nothing that was there before.
        if not all(new):
            # Records without an id cannot be compared, so all of them are kept.
            fresh = [
                item for item, is_new in zip(items, new, strict=True) if is_new or not isinstance(item.get("id"), str)
            ]
        self.pages += 1
        self.duplicates += len(items) - len(fresh)
        if any(new if self._known_this_round is self.known else self._known_this_round.add(keys)):
            self._stale = self._empty = 0
        elif items:
            self._stale += 1
        else:
            self._empty += 1
        return ListedPage(page, fresh)

    def _why_cut_short(self, page: SubscriptionPage) -> str:
        """Return the sign that it goes in a circle, or that the last page is not the last of all; empty for none."""
        if self.token:
            if not self._tokens.add([self.token])[0]:
                return "the service gave a page token for the second time"
            if self._stale >= _STALE_PAGES:
                return f"{self._stale} pages in a row held nothing new under new page tokens"
            return f"{self._empty} pages in a row were empty" if self._empty >= _EMPTY_PAGES else ""
        announced, came = page.page_info.total_results or 0, len(self.known)
        is_full = len(page.items) >= (self.query.max_results or DEFAULT_PAGE)
        # Of a listing that began at a token of the caller's, the pages before are not known.
        if self.start is not None or not is_full or announced <= _ANNOUNCED_TIMES * came:
            return ""
        return f"the last one is full and leads to no next one, and {came:,} of {announced:,} announced records came"

    def _start_over(self) -> None:
        self.warn("The service no longer accepts the page token: the listing starts over, leaving out what it has.")
        self.restarts += 1
        self._started_over = True
        self.token = self.start
        self._stale = self._empty = 0
        self._tokens = SeenSet()
        self._known_this_round = SeenSet()


def _key(item: Mapping[str, Any]) -> str:
    identifier = item.get("id")
    if isinstance(identifier, str):
        return identifier
    # A page that holds only what was there before, letter by letter, is a sign of a circle.
    return json.dumps(item, sort_keys=True)


def list_pages(ask: Ask, listing: Listing) -> CallFlow[None]:
    """Fetch all pages that are left, and emit each."""
    while (listed := (yield from listing.next_page(ask))) is not None:
        yield Emit(listed)


def _ask_patiently(ask: Ask, query: SubscriptionQuery, token: str | None) -> CallFlow[SubscriptionPage]:
    for pause in _TOKEN_PAUSES:
        try:
            return (yield from ask(query.page(token)))
        except BadRequestError as error:
            if not _is_token_refusal(error) or token is None:
                raise
            yield Wait(pause, "the service refuses a page token that may be good")
    return (yield from ask(query.page(token)))


def _is_token_refusal(error: BadRequestError) -> bool:
    return (error.reason or "").lower() == "invalidpagetoken"
