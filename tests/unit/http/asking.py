"""A client of an invented service, and the replies that it gets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    MediaOpsError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
)
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Failure, Response, TransportError
from tests.unit.call_flows import replay

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Call
    from tests.unit.call_flows import FakeClock

RULES = ErrorRules(
    service="thing service",
    by_reason={"quotaspent": QuotaExceededError, "noscope": PermissionDeniedError, "slowdown": RateLimitedError},
)
GOOD = Response(200, {}, b"good")
DOWN = Response(503, {}, b"down")
REFUSED = TransportError(Failure.NOT_SENT, "refused")
BROKEN = TransportError(Failure.BROKEN, "broke")
SLOW = TransportError(Failure.TIMEOUT, "slow")


def refused(status: int, reason: str = "", **headers: str) -> Response:
    """Return a refusal with a reason."""
    return Response(status, headers, json.dumps({"error": {"errors": [{"reason": reason}]}}).encode())


def make(fake: FakeClock, **more: Any) -> Client:
    """Return a client whose time is the clock's."""
    settings: dict[str, Any] = {"base_urls": ("http://one",), "rules": RULES, "clock": fake.clock}
    return Client(**{**settings, **more})


def error_of(client: Client, call: Call[Any], replies: list[Any], fake: FakeClock | None = None) -> MediaOpsError:
    """Return the error that a call ends in."""
    with pytest.raises(MediaOpsError) as caught:
        replay(client.ask(call), replies, clock=fake)
    return caught.value
