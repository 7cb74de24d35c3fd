"""The video platform's subscriptions: invented, always the same, and in pages."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from datetime import datetime, timezone
from typing import Any

from airflow_provider_mediaops.sandbox.clock import iso_milliseconds

#: The channel of the user to whom the bearer tokens belong, with many subscriptions.
MINE = "UCsandbox-mine"
FEW = "UCsandbox-few"
NONE = "UCsandbox-none"
#: Channels whose subscriptions are not shown, with the reason that the platform gives.
WITHHELD = {
    "UCsandbox-private": "subscriptionForbidden",
    "UCsandbox-suspended": "accountSuspended",
    "UCsandbox-closed": "accountClosed",
}
_FEW_COUNT = 7

_ADJECTIVES = ("Amber", "Brisk", "Café", "Distant", "Élan", "Frosty", "Gentle", "Hidden", "Īwa", "Jolly", "静かな")
_NOUNS = ("Archive", "Bakery", "Chess ♞", "Dispatch", "Engines", "Films", "Gardens", "History", "& Co.")
_FIRST_SECOND = datetime(2014, 1, 1, tzinfo=timezone.utc).timestamp()


def etag_of(content: object) -> str:
    """Return the ETag of a resource: the same for the same content."""
    text = json.dumps(content, sort_keys=True)
    return base64.urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=15).digest()).decode()


class Subscriptions:
    """The subscriptions of every channel of the sandbox."""

    def __init__(self, *, kind_prefix: str, many: int) -> None:
        counts = {MINE: many, FEW: _FEW_COUNT, NONE: 0}
        self._channels = {
            channel: [_subscription(channel, number, kind_prefix) for number in range(1, count + 1)]
            for channel, count in counts.items()
        }

    def of_channel(self, channel: str) -> list[dict[str, Any]] | None:
        """Return the subscriptions of a channel, all parts; None if there is no such channel."""
        return self._channels.get(channel)

    def with_ids(self, ids: list[str]) -> list[dict[str, Any]]:
        """Return the subscriptions with these ids, all parts, without unknown ids."""
        return [item for items in self._channels.values() for item in items if item["id"] in ids]


def _subscription(channel: str, number: int, kind_prefix: str) -> dict[str, Any]:
    # It looks random and is always the same.
    digest = hashlib.blake2b(repr((channel, number)).encode(), digest_size=8).digest()
    draw = int.from_bytes(digest, "big")
    total = draw % 5_000
    subscription = {
        "kind": f"{kind_prefix}#subscription",
        "id": f"SUB-{channel.removeprefix('UCsandbox-')}-{number:06d}",
        "snippet": {
            "publishedAt": iso_milliseconds(_FIRST_SECOND + draw % 300_000_000 + draw % 1_000 / 1_000),
            "title": f"{_ADJECTIVES[draw % len(_ADJECTIVES)]} {_NOUNS[draw // 100 % len(_NOUNS)]} {number}",
            "description": "" if draw % 3 == 0 else f"Invented channel number {number}.",
            "resourceId": {"kind": f"{kind_prefix}#channel", "channelId": f"UCtopic-{number:06d}"},
            "channelId": channel,
            "thumbnails": {"default": {"url": f"https://images.sandbox.example/{number}.jpg"}},
        },
        "contentDetails": {
            "totalItemCount": total,
            "newItemCount": draw // 7 % 20 if total else 0,
            "activityType": "all" if draw % 2 else "uploads",
        },
    }
    return {"etag": etag_of(subscription), **subscription}


def in_order(items: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """Sort subscriptions as a request asks; the order of relevance is arbitrary here, but stable."""
    if order == "alphabetical":
        return sorted(items, key=lambda item: (item["snippet"]["title"].casefold(), item["id"]))
    if order == "unread":
        return sorted(items, key=lambda item: (-item["contentDetails"]["newItemCount"], item["id"]))
    return sorted(items, key=lambda item: item["etag"])


def page_of(items: list[dict[str, Any]], *, size: int, token: str | None, query: list[Any]) -> dict[str, Any] | None:
    """
    Cut one page of all subscriptions that match, in order.

    A token is good for the same question and page size only; None for another one.
    """
    seal = [*query, size]
    start = 0 if token is None else _read_token(token, seal)
    if start is None:
        return None
    following, preceding = start + size, max(0, start - size)
    found = items[start:following]
    page: dict[str, Any] = {"pageInfo": {"totalResults": len(items), "resultsPerPage": len(found)}, "items": found}
    if size and following < len(items):
        page["nextPageToken"] = _make_token(following, seal)
    if size and start:
        page["prevPageToken"] = _make_token(preceding, seal)
    return page


def _make_token(start: int, seal: list[Any]) -> str:
    digest = hashlib.blake2b(json.dumps([start, *seal]).encode(), digest_size=6).digest()
    return base64.urlsafe_b64encode(start.to_bytes(3, "big") + digest).decode()


def _read_token(token: str, seal: list[Any]) -> int | None:
    try:
        start = int.from_bytes(base64.b64decode(token, altchars=b"-_", validate=True)[:3], "big")
    except (binascii.Error, ValueError):  # ValueError: letters outside ASCII
        return None
    return start if token == _make_token(start, seal) else None
