"""The walk over all pages of a listing, on a service whose paging is known to stumble."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import BadRequestError
from airflow_provider_mediaops.http.exchange import Ask, Conversation, Emit, Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.video.api import SubscriptionQuery
    from airflow_provider_mediaops.video.models import SubscriptionPage

# A good token is refused in bursts: the same page is asked again after these pauses, then the walk starts over, once.
_TOKEN_PAUSES = (1.0, 2.0, 4.0)
# One page of nothing but known records happens when the order shifts; several in a row are a circle.
_STALE_PAGES = 3
# Empty pages that name a next one are part of a listing, but an endless row of them is not.
_EMPTY_PAGES = 200


@dataclass(frozen=True, slots=True)
class WalkedPage:
    """
    One page and what of it had not been seen before.

    :param page: the page as it came.
    :param fresh: those of its records that no earlier page of this walk held.
    """

    page: SubscriptionPage
    fresh: list[dict[str, Any]]


@dataclass(slots=True)
class Walk:
    """
    A walk over all pages of a listing, and what it has done so far.

    An empty page that names a next one is not the end, and the service's total is not believed. A walk that would go
    in a circle ends, with everything that came before, and says so.

    :param query: what to list; its page size must not change during the walk.
    :param token: leads to the page to fetch next; None for the first. A walk that has to start over does so here.
    :param warn: told what a person should know of a service that stumbles.
    :param pages: pages received.
    :param duplicates: records that came again and were left out of ``fresh``.
    :param restarts: how often it started over because its token was refused for good.
    :param ended: whether there is no page left.
    """

    query: SubscriptionQuery
    token: str | None = None
    warn: Callable[[str], None] = field(default=lambda _: None, repr=False)
    pages: int = 0
    duplicates: int = 0
    restarts: int = 0
    ended: bool = False
    _ids: set[str] = field(default_factory=set, repr=False)
    _ids_this_round: set[str] = field(default_factory=set, repr=False)
    _tokens: set[str] = field(default_factory=set, repr=False)
    _stale: int = 0
    _empty: int = 0
    _start: str | None = field(init=False)

    def __post_init__(self) -> None:
        self._start = self.token
        if "id" not in self.query.part:
            # Records are told apart by their id.
            self.query = replace(self.query, part=("id", *self.query.part))

    def next_page(self, ask: Ask) -> Conversation[WalkedPage | None]:
        """
        Fetch the next page.

        :param ask: makes a conversation of a call.
        :returns: a conversation whose result is the page, or None at the end.
        :raises MediaOpsError: what the service refuses for good.
        """
        while not self.ended:
            try:
                page = yield from _ask_patiently(ask, self.query, self.token)
            except BadRequestError as error:
                if not _is_token_refusal(error) or self.token == self._start or self.restarts:
                    raise
                self._start_over()
            else:
                walked = self._take(page)
                self.token = page.next_page_token
                self.ended = not self.token or self._circles(self.token)
                return walked
        return None

    def _take(self, page: SubscriptionPage) -> WalkedPage:
        before = len(self._ids_this_round)
        fresh = [item for item in page.items if self._is_new(item)]
        self.pages += 1
        self.duplicates += len(page.items) - len(fresh)
        if len(self._ids_this_round) > before:
            self._stale = self._empty = 0
        elif page.items:
            self._stale += 1
        else:
            self._empty += 1
        return WalkedPage(page, fresh)

    def _is_new(self, item: dict[str, Any]) -> bool:
        identifier = item.get("id")
        if not isinstance(identifier, str):
            # One record without an id cannot be told from another, so all are kept; but a page that holds only what
            # was there before, letter by letter, is a sign of a circle.
            self._ids_this_round.add(json.dumps(item, sort_keys=True))
            return True
        known = identifier in self._ids
        self._ids.add(identifier)
        self._ids_this_round.add(identifier)
        return not known

    def _circles(self, token: str) -> bool:
        if token in self._tokens:
            why = "the service gave a page token for the second time"
        elif self._stale >= _STALE_PAGES:
            why = f"{self._stale} pages in a row held nothing new under new page tokens"
        elif self._empty >= _EMPTY_PAGES:
            why = f"{self._empty} pages in a row were empty"
        else:
            self._tokens.add(token)
            return False
        self.warn(f"The walk ends after {self.pages} pages, because {why}.")
        return True

    def _start_over(self) -> None:
        self.warn("The service no longer accepts the page token: the walk starts over, leaving out what it has.")
        self.restarts += 1
        self.token = self._start
        self._stale = self._empty = 0
        self._tokens.clear()
        self._ids_this_round.clear()


def walk_subscriptions(ask: Ask, walk: Walk) -> Conversation[Walk]:
    """
    Walk all pages that are left.

    :param ask: makes a conversation of a call.
    :param walk: where to begin, and what is counted.
    :returns: a conversation that emits a :class:`WalkedPage` a page and returns the walk.
    :raises MediaOpsError: what the service refuses for good.
    """
    while (walked := (yield from walk.next_page(ask))) is not None:
        yield Emit(walked)
    return walk


def _ask_patiently(ask: Ask, query: SubscriptionQuery, token: str | None) -> Conversation[SubscriptionPage]:
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
