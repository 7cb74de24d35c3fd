"""A video platform whose subscriptions change while they are listed, and whose replies fail as a model chooses."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.exchange import Failure, Response, TransportError
from tests.models.attempts import current_attempt, take_turn
from tests.unit.video_platform import error, page, subscription

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request

#: The replies that the platform may send in place of a page.
REFUSALS: dict[str, tuple[int, str]] = {
    "down": (503, "backendError"),
    "quota": (403, "quotaExceeded"),
    "token refused": (400, "invalidPageToken"),
    "forbidden": (403, "forbidden"),
}
#: The ways in which a page may be odd: it begins with a record of the page before, it is empty though there is a next
#: one, or its next page is itself.
ODDITIES = ("repeats", "empty", "circle")

#: The records by their number, each with the number of its version.
Records = dict[int, int]


@dataclass
class ListingService:
    """
    The platform.

    :param snapshots: what it has had, the last one now.
    :param faults: what is wrong with its next replies.
    :param served: the number of pages that it has sent to each task.
    :param listed_at: the number of the snapshot of the last page that it has sent to each task.
    :param cut_short: the tasks whose listing it has cut short, by a page that is its own next one.
    :param shuffled: the tasks whose listing it has put out of order.
    """

    page_size: int
    records: Records
    snapshots: list[Records] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)
    listed_at: dict[str, int] = field(default_factory=dict)
    cut_short: set[str] = field(default_factory=set)
    shuffled: set[str] = field(default_factory=set)
    _tokens: int = 0

    def __post_init__(self) -> None:
        self.snapshots.append(dict(self.records))

    @property
    def now(self) -> int:
        """The number of the latest snapshot."""
        return len(self.snapshots) - 1

    def change(self, number: int) -> None:
        """Add a record, or change it."""
        self.records[number] = len(self.snapshots)
        self.snapshots.append(dict(self.records))

    def remove(self, number: int) -> None:
        """Remove a record, if it is there."""
        if self.records.pop(number, None) is not None:
            self.snapshots.append(dict(self.records))

    def send(self, request: Request) -> Response:
        """Answer a request for a page."""
        fault = take_turn()
        if fault == "refused":
            raise TransportError(Failure.NOT_SENT, "no connection")
        status, body = self._reply(dict(request.params))
        if fault:
            raise TransportError(Failure.BROKEN, "the connection broke")
        return Response(status, {"content-type": "application/json"}, json.dumps(body).encode())

    def _reply(self, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        token, task = query.get("pageToken"), current_attempt().task
        wrong = self.faults.pop(0) if self.faults else ""
        if wrong in ("token refused", "repeats"):
            # A refused token may make the listing start over.
            self.shuffled.add(task)
        if wrong in REFUSALS and (token or wrong != "token refused"):
            status, reason = REFUSALS[wrong]
            return status, error(status, reason)
        self.served[task] += 1
        self.listed_at[task] = self.now
        after = int(token.partition(".")[0]) if token else -1
        before = [number for number in sorted(self.records) if number <= after]
        left = [number for number in sorted(self.records) if number > after]
        if wrong == "circle" and token:
            self.cut_short.add(task)
            return 200, self._page(left[: self.page_size], token)
        if wrong == "empty":
            return 200, self._page([], self._token(after))
        items, rest = left[: self.page_size], left[self.page_size :]
        following = self._token(items[-1]) if rest else None
        return 200, self._page([*(before[-1:] if wrong == "repeats" else []), *items], following)

    def _token(self, after: int) -> str:
        self._tokens += 1
        return f"{after}.{self._tokens}"

    def _page(self, numbers: list[int], token: str | None) -> dict[str, Any]:
        items = [subscription(number, etag=str(self.records[number])) for number in numbers]
        return {**page(next_token=token), "items": items}


def record_of(item: dict[str, Any]) -> tuple[int, int]:
    """Return the number and the version of a record."""
    return int(item["id"].removeprefix("sub-")), int(item["etag"])


def fault_of(records: list[tuple[int, int]], snapshots: list[Records], *, complete: bool, in_order: bool) -> str:
    """
    Return what is wrong with a dataset.

    :param complete: whether the service has not cut the listing short.
    :param in_order: whether the listing has never started over.
    :returns: empty if the dataset is right.
    """
    numbers = [number for number, _ in records]
    if len(set(numbers)) < len(numbers):
        return f"a record twice: {numbers}"
    ever = {record for snapshot in snapshots for record in snapshot.items()}
    if strange := set(records) - ever:
        return f"not of this listing: {strange}"
    always = set.intersection(*map(set, snapshots))
    if complete and (lost := always - set(numbers)):
        return f"lost: {lost}"
    return f"out of order: {numbers}" if in_order and numbers != sorted(numbers) else ""
