"""The hook of the video platform."""

from __future__ import annotations

import inspect
import json
from typing import Any

from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from tests.unit.loopback import http_reply

BASE = "https://video.example/youtube"
SUBSCRIPTIONS = f"{BASE}/v3/subscriptions"
TOKEN_URL = "https://accounts.example/token"
#: The fields of a connection that refreshes its tokens.
REFRESH = {"auth": "refresh_token", "login": "client", "refresh_token": "rt-s3cr3t", "token_url": TOKEN_URL}


def http(body: object, status: int = 200, **headers: str) -> bytes:
    """Give the bytes of a reply of JSON."""
    return http_reply(status, json.dumps(body).encode(), content_type="application/json", **headers)


def carry_out(method: str, *arguments: Any, **named: Any) -> Any:
    """Call a hook's method; return its result, or all items of several."""
    with VideoPlatformHook() as hook:
        outcome = getattr(hook, method)(*arguments, **named)
        return list(outcome) if inspect.isgenerator(outcome) else outcome
