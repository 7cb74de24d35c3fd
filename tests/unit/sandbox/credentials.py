"""Good credentials for the sandbox's services."""

from __future__ import annotations

from airflow_provider_mediaops.sandbox import cluster, video

#: The login of the search cluster.
OPERATOR = (cluster.LOGIN, cluster.PASSWORD)
#: The headers of a request to the video platform.
BEARER = {"Authorization": f"Bearer {video.BEARER_TOKEN}"}
#: The form that gets an access token.
FORM = {
    "grant_type": "refresh_token",
    "client_id": video.CLIENT_ID,
    "client_secret": video.CLIENT_SECRET,
    "refresh_token": video.REFRESH_TOKEN,
}
