"""What the video platform says, in the shapes of its specification."""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_mediaops.http.exchange import Response

KEY = "token-of-the-tests"


def subscription(number: int, **more: Any) -> dict[str, Any]:
    """Give a subscription's record."""
    return {
        "kind": "svc#subscription",
        "id": f"sub-{number}",
        "snippet": {
            "title": f"Channel {number}",
            "description": "",
            "publishedAt": "2024-03-14T20:00:00Z",
            "channelId": "UC-me",
            "resourceId": {"kind": "svc#channel", "channelId": f"UC-{number}"},
        },
        "contentDetails": {"totalItemCount": 10 * number, "newItemCount": number, "activityType": "all"},
        **more,
    }


def page(*numbers: int, next_token: str | None = None) -> dict[str, Any]:
    """Give a page of subscriptions."""
    token = {"nextPageToken": next_token} if next_token else {}
    items = [subscription(number) for number in numbers]
    return {"kind": "svc#SubscriptionListResponse", "pageInfo": {"totalResults": 7}, **token, "items": items}


def page_reply(*numbers: int, token: str | None = None) -> Response:
    """Return the reply with a page of subscriptions."""
    return Response(200, {}, json.dumps(page(*numbers, next_token=token)).encode())


def error(status: int, reason: str, message: str = "No.") -> dict[str, Any]:
    """Give the body of a refusal."""
    return {"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}}


def connection(host: str, **fields: Any) -> str:
    """Give a connection as an environment variable holds it; what is given besides goes into extra."""
    own = {"password": fields.pop("password", KEY), "login": fields.pop("login", "")}
    return json.dumps({"conn_type": "mediaops_video", "host": host, **own, "extra": {"max_attempts": 1, **fields}})
