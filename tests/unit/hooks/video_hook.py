"""The hook of the video platform, in a worker and beside an event loop."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from tests.unit.conversations import on_a_loop
from tests.unit.loopback import http_reply

BASE = "https://video.example/youtube"
SUBSCRIPTIONS = f"{BASE}/v3/subscriptions"
TOKEN_URL = "https://accounts.example/token"
#: The fields of a connection that refreshes its tokens.
REFRESH = {"auth": "refresh_token", "login": "client", "refresh_token": "rt-s3cr3t", "token_url": TOKEN_URL}

both_forms = pytest.mark.parametrize("form", ["sync", "async"])


def http(body: object, status: int = 200, **headers: str) -> bytes:
    """Give the bytes of a reply of JSON."""
    return http_reply(status, json.dumps(body).encode(), content_type="application/json", **headers)


def carry_out(form: str, method: str, *arguments: Any, **named: Any) -> Any:
    """Call a hook's method, in this thread or beside an event loop; return what it returns, or all items of several."""

    def call() -> Any:
        with VideoPlatformHook() as hook:
            outcome = getattr(hook, method)(*arguments, **named)
            return list(outcome) if inspect.isgenerator(outcome) else outcome

    return call() if form == "sync" else on_a_loop(sync_to_async(call, thread_sensitive=False)())
