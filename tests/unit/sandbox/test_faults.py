"""The switchboard's faults: what each does, whom it befalls, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox import books, cluster, video
from airflow_provider_mediaops.sandbox.books import KNOWN_ISBNS
from tests.unit.sandbox.credentials import BEARER, FORM, OPERATOR

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox

SERVICES = ["video", "token", "cluster", "books"]


async def arm(sandbox: Sandbox, **fault: Any) -> None:
    reply = await sandbox.post("/_sandbox/faults", json=fault)
    assert reply.status_code == 201, reply.text


async def ask(sandbox: Sandbox, service: str) -> httpx.Response:
    """Make a good request to a service; a second passes before, so that no limit is met."""
    sandbox.clock.seconds += 1
    if service == "token":
        return await sandbox.post("/video/oauth2/token", data=FORM)
    if service == "video":
        return await sandbox.get("/video/v3/subscriptions", params={"part": "id", "mine": "true"}, headers=BEARER)
    if service == "cluster":
        return await sandbox.get("/cluster/_nodes/stats/os", auth=OPERATOR)
    return await sandbox.get(f"/books/pro/book/{KNOWN_ISBNS[0]}", headers={"Authorization": books.PRO.key})


async def post_bulletin(sandbox: Sandbox) -> httpx.Response:
    return await sandbox.post(
        "/video/v3/activities", params={"part": "snippet"}, json={"snippet": {"description": "x"}}, headers=BEARER
    )


@pytest.mark.parametrize("service", SERVICES)
async def test_a_status_comes_in_the_service_s_own_shape_once(sandbox: Sandbox, service: str) -> None:
    field = "message" if service == "books" else "error"
    for status in (400, 401, 403, 404, 429, 500, 503):
        await arm(sandbox, service=service, kind="status", status=status)
        reply = await ask(sandbox, service)
        assert reply.status_code == status
        assert reply.json()[field]
        assert (await ask(sandbox, service)).status_code == 200


@pytest.mark.parametrize(
    ("point", "posted_at"), [("before_work", "2025-03-01T12:00:12.500Z"), ("before_reply", "2025-03-01T12:00:00.000Z")]
)
async def test_a_delay_comes_before_the_work_or_after_it(sandbox: Sandbox, point: str, posted_at: str) -> None:
    await arm(sandbox, service="video", kind="delay", seconds=12.5, point=point)

    assert (await post_bulletin(sandbox)).json()["snippet"]["publishedAt"] == posted_at
    assert sandbox.clock.naps == [12.5]


@pytest.mark.parametrize(
    ("service", "status", "said"),
    [
        ("video", 403, "userRateLimitExceeded"),
        ("token", 429, "slow_down"),
        ("cluster", 429, "rejected_execution_exception"),
        ("books", 404, "errorMessage"),
    ],
)
async def test_the_limit_is_said_as_the_service_says_it(sandbox: Sandbox, service: str, status: int, said: str) -> None:
    await arm(sandbox, service=service, kind="limit")

    reply = await ask(sandbox, service)
    assert reply.status_code == status
    assert said in reply.text


async def test_a_fault_befalls_its_service_and_path_only(sandbox: Sandbox) -> None:
    await arm(sandbox, service="video", kind="status", status=500, path="/activities")

    assert [(await ask(sandbox, service)).status_code for service in SERVICES] == [200] * 4
    assert (await post_bulletin(sandbox)).status_code == 500


async def test_armed_faults_are_shown_with_what_is_left_and_can_be_disarmed(sandbox: Sandbox) -> None:
    await arm(sandbox, service="books", kind="limit", count=3)
    await arm(sandbox, service="video", kind="limit", after=2)
    await ask(sandbox, "books")
    await ask(sandbox, "video")

    armed = (await sandbox.get("/_sandbox/faults")).json()
    assert [(fault["service"], fault["count"], fault["after"]) for fault in armed] == [
        ("books", 2, 0),
        ("video", 1, 1),
    ]
    assert (await sandbox.delete("/_sandbox/faults")).status_code == 204
    assert (await sandbox.get("/_sandbox/faults")).json() == []
    assert (await ask(sandbox, "books")).status_code == 200


async def test_requests_are_written_down_without_secrets(sandbox: Sandbox) -> None:
    await ask(sandbox, "video")
    await ask(sandbox, "token")
    await arm(sandbox, service="cluster", kind="status", status=503)
    await ask(sandbox, "cluster")
    await sandbox.get(
        "/video/v3/subscriptions", params={"part": "id", "channelId": "UCsandbox-few", "key": video.API_KEY}
    )
    await sandbox.get(f"/books/pro/book/{KNOWN_ISBNS[0]}", params={"Authorization": books.PRO.key})

    reply = await sandbox.get("/_sandbox/requests")
    seen = reply.json()
    assert [(entry["service"], entry["method"], entry["status"], entry["fault"]) for entry in seen] == [
        ("video", "GET", 200, None),
        ("token", "POST", 200, None),
        ("cluster", "GET", 503, "status"),
        ("video", "GET", 200, None),
        ("books", "GET", 401, None),
    ]
    assert seen[0]["at"].startswith("2025-03-01T12:00:01")
    assert seen[0]["query"] == {"part": "id", "mine": "true"}
    assert seen[3]["query"] == {"part": "id", "channelId": "UCsandbox-few", "key": "***"}
    assert seen[4]["query"] == {"Authorization": "***"}
    for secret in (*FORM.values(), video.BEARER_TOKEN, video.API_KEY, cluster.PASSWORD, books.PRO.key):
        assert secret == "refresh_token" or secret not in reply.text
