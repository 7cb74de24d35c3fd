"""What a test looks at in a refusal of the video platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx


def reason_of(reply: httpx.Response) -> tuple[int, str]:
    """Return the status and the reason."""
    error = reply.json()["error"]
    assert error["code"] == reply.status_code
    assert error["message"] == error["errors"][0]["message"]
    return reply.status_code, error["errors"][0]["reason"]
