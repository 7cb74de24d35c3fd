"""Good credentials for the sandbox's services."""

from __future__ import annotations

from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.video import tokens

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
