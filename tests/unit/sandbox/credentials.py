"""Good credentials for the sandbox's services, and how a test finds out whether a token is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.video import tokens

if TYPE_CHECKING:
    from tests.unit.sandbox.conftest import Sandbox

#: The login of the search cluster.
OPERATOR = (cluster.LOGIN, cluster.PASSWORD)
#: The headers of a request to the video platform.
BEARER = {"Authorization": f"Bearer {tokens.BEARER_TOKEN}"}
#: The form that gets an access token.
FORM = {
    "grant_type": "refresh_token",
    "client_id": tokens.CLIENT_ID,
    "client_secret": tokens.CLIENT_SECRET,
    "refresh_token": tokens.REFRESH_TOKEN,
}


async def status_with(sandbox: Sandbox, token: str) -> int:
    """Return the status of a request to the video platform with a token."""
    reply = await sandbox.get(
        "/video/v3/subscriptions",
        params={"part": "id", "mine": "true"},
        headers={"Authorization": f"Bearer {token}"},
    )
    return reply.status_code
