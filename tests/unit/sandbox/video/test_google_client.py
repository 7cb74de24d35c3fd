"""Google's own client for Python talks to the sandbox, with the description of the public service that it brings."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import google_auth_httplib2
import googleapiclient
import httplib2
import pytest
from google.auth.exceptions import RefreshError
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build_from_document
from googleapiclient.errors import HttpError

from airflow_provider_mediaops.sandbox import subscriptions, video
from airflow_provider_mediaops.sandbox.faults import TOKEN_PATH, LimitFault, StatusFault
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import Settings

DOCUMENT = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents" / "youtube.v3.json"
# The public service no longer posts bulletins, so its description has the resource and not the operation.
INSERT = {
    "id": "youtube.activities.insert",
    "path": "v3/activities",
    "httpMethod": "POST",
    "parameterOrder": ["part"],
    "parameters": {"part": {"location": "query", "type": "string", "required": True, "repeated": True}},
    "request": {"$ref": "Activity"},
    "response": {"$ref": "Activity"},
}
ALL_PARTS = "id,snippet,contentDetails"
SUBSCRIPTIONS = 107


@pytest.fixture
def server() -> Iterator[SandboxServer]:
    with SandboxServer(settings=Settings(subscriptions=SUBSCRIPTIONS, kind_prefix="youtube")) as server:
        yield server


def document() -> dict[str, Any]:
    text = DOCUMENT.read_text(encoding="utf-8").replace('"youtube/v3/', '"v3/')
    described: dict[str, Any] = json.loads(text)
    described["resources"]["activities"]["methods"]["insert"] = INSERT
    return described


class Google:
    """Google's client for a sandbox, with credentials of one kind or another."""

    def __init__(self, server: SandboxServer) -> None:
        self._server = server
        self._opened: list[Any] = []

    def by_token(self) -> Any:
        return self._platform(Credentials(video.BEARER_TOKEN))

    def by_refresh(self, refresh_token: str = video.REFRESH_TOKEN) -> Any:
        credentials = Credentials(
            None,
            refresh_token=refresh_token,
            token_uri=f"{self._server.url}{TOKEN_PATH}",
            client_id=video.CLIENT_ID,
            client_secret=video.CLIENT_SECRET,
            scopes=[video.WRITE_SCOPE],
        )
        return self._platform(credentials)

    def by_key(self) -> Any:
        return self._platform(None, key=video.API_KEY)

    def _platform(self, credentials: Credentials | None, *, key: str | None = None) -> Any:
        http = httplib2.Http(proxy_info=None, timeout=240)
        if credentials is not None:
            http = google_auth_httplib2.AuthorizedHttp(credentials, http=http)
        described = {**document(), "rootUrl": f"{self._server.url}/video/"}
        self._opened.append(build_from_document(described, http=http, developerKey=key))
        return self._opened[-1]

    def close(self) -> None:
        for platform in self._opened:
            platform.close()


@pytest.fixture
def google(server: SandboxServer) -> Iterator[Google]:
    with closing(Google(server)) as google:
        yield google


def pages(listing: Any, **query: Any) -> list[dict[str, Any]]:
    """Ask for every page, as the client does it."""
    found = []
    request = listing.list(**query)
    while request is not None:
        found.append(request.execute())
        request = listing.list_next(request, found[-1])
    return found


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [item["id"] for page in found for item in page["items"]]


def test_google_client_reads_every_page(google: Google) -> None:
    found = pages(google.by_token().subscriptions(), part=ALL_PARTS, mine=True, maxResults=50, order="unread")

    assert [len(page["items"]) for page in found] == [50, 50, 7]
    assert len(set(ids(found))) == SUBSCRIPTIONS
    assert found[0]["pageInfo"] == {"totalResults": SUBSCRIPTIONS, "resultsPerPage": 50}


def test_google_client_names_parts_and_ids_as_a_list_or_with_commas(google: Google) -> None:
    listing = google.by_token().subscriptions()
    wanted = ids([listing.list(part="id", mine=True, maxResults=3).execute()])

    for part, id_ in ("id,contentDetails", ",".join(wanted)), (["id", "contentDetails"], wanted):
        found = listing.list(part=part, id=id_).execute()["items"]
        assert sorted(item["id"] for item in found) == sorted(wanted)
        assert {frozenset(item) for item in found} == {frozenset({"kind", "etag", "id", "contentDetails"})}


def test_google_client_reads_public_data_with_a_key(google: Google) -> None:
    listing = google.by_key().subscriptions()

    assert len(ids(pages(listing, part="id", channelId=subscriptions.FEW))) == 7
    with pytest.raises(HttpError) as refused:
        listing.list(part="id", mine=True).execute()
    assert refused.value.status_code == 401


def test_google_client_posts_bulletins(server: SandboxServer, google: Google) -> None:
    resource = {"kind": "youtube#video", "videoId": video.VIDEOS[0]}
    body = {"snippet": {"description": "Look"}, "contentDetails": {"bulletin": {"resourceId": resource}}}
    insert = google.by_token().activities().insert
    first, second = [insert(part=["snippet", "contentDetails"], body=body).execute() for _ in range(2)]

    assert (first["kind"], first["snippet"]["description"]) == ("youtube#activity", "Look")
    assert [first, second] == server.state.bulletins
    assert (first["id"], first["etag"]) != (second["id"], second["etag"])


def test_google_client_reads_name_and_reason_of_a_refused_bulletin(google: Google) -> None:
    body = {"contentDetails": {"bulletin": {"resourceId": {"kind": "youtube#video", "videoId": "nowhere"}}}}

    with pytest.raises(HttpError) as refused:
        google.by_token().activities().insert(part="contentDetails", body=body).execute()
    assert refused.value.status_code == 404
    assert refused.value.reason == "There is no such video."
    (details,) = refused.value.error_details
    assert (details["name"], details["reason"]) == ("notFound", "videoNotFound")


def test_google_client_repeats_what_the_limit_or_a_failure_refused(
    server: SandboxServer, google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("googleapiclient.http.time", SimpleNamespace(sleep=lambda _: None, time=time.time))
    for fault in (LimitFault(service="video"), StatusFault(service="video", status=503)):
        server.state.faults.arm(fault)
        listed = google.by_token().subscriptions().list(part="id", mine=True).execute(num_retries=1)
        assert len(listed["items"]) == 5


def test_google_client_gets_a_token_and_another_when_that_has_expired(server: SandboxServer, google: Google) -> None:
    listing = google.by_refresh().subscriptions()
    server.state.faults.arm(StatusFault(service="video", status=401, after=1))

    assert len(set(ids(pages(listing, part="id", mine=True, maxResults=50)))) == SUBSCRIPTIONS
    asked = [(record.service, record.status) for record in server.state.requests]
    assert asked == [("token", 200), ("video", 200), ("video", 401), ("token", 200), ("video", 200), ("video", 200)]


def test_google_client_understands_that_a_refresh_token_is_refused(google: Google) -> None:
    with pytest.raises(RefreshError, match="invalid_grant"):
        google.by_refresh("revoked").subscriptions().list(part="id", mine=True).execute()
