"""A video platform whose listing a test changes, and that may leave out records, go in a circle or refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.unit.video_platform import error

_PAGE = 50


@dataclass
class Listings:
    """
    The platform.

    :param listed: the subscriptions that pages hold, by their numbers.
    :param unlisted: those that only a request by ids finds.
    :param circles: whether the first page is followed by itself, for ever.
    :param refuse_ids: the refusal of requests by ids; None to answer them.
    :param ids_answered: the number of requests by ids that are answered before the platform breaks down; None for all.
    :param asked: the query of each request so far.
    """

    listed: dict[str, Any] = field(default_factory=dict)
    unlisted: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    circles: bool = False
    refuse_ids: tuple[int, dict[str, Any]] | None = None
    ids_answered: int | None = None
    asked: list[dict[str, str]] = field(default_factory=list)

    def have(self, records: Mapping[int, dict[str, Any]]) -> None:
        self.listed = {record["id"]: record for record in records.values()}

    def answer(self, request: Any, context: Any) -> dict[str, Any]:
        """Answer a request of requests_mock."""
        context.status_code, body = self.reply(request.url)
        return body

    def reply(self, url: str) -> tuple[int, dict[str, Any]]:
        query = dict(parse_qsl(urlsplit(url).query))
        self.asked.append(query)
        if "id" in query:
            return self._by_ids(query["id"].split(","))
        start = int(query.get("pageToken", "0"))
        records = list(self.listed.values())
        following = start + _PAGE
        token = str(start) if self.circles else str(following) if following < len(records) else None
        items = records[start:following]
        return 200, {"items": items, **({"nextPageToken": token} if token else {})}

    def _by_ids(self, ids: Sequence[str]) -> tuple[int, dict[str, Any]]:
        if self.refuse_ids:
            return self.refuse_ids
        if self.ids_answered is not None:
            if self.ids_answered == 0:
                return 503, error(503, "backendError")
            self.ids_answered -= 1
        known = self.listed | {record["id"]: record for record in self.unlisted.values()}
        return 200, {"items": [known[name] for name in ids if name in known]}


def replayed(records: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Apply changes to the records of a version; each has to fit what is there."""
    after = dict(records)
    for row in changes:
        assert after.get(row["id"]) == row["before"]
        assert (row["before"] is None, row["after"] is None) == (row["change"] == "added", row["change"] == "removed")
        after[row["id"]] = row["after"]
    return {name: record for name, record in after.items() if record is not None}
