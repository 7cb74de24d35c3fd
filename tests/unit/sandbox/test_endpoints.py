"""What holds for every address: HEAD goes where GET does, and unknown ones are refused as the service refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.books import plans
from airflow_provider_mediaops.sandbox.books.catalogue import KNOWN_ISBNS
from airflow_provider_mediaops.sandbox.faults import StatusFault
from tests.unit.sandbox.credentials import BEARER
from tests.unit.sandbox.video.refusals import reason_of

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox

PRO = {"Authorization": plans.PRO.key}
BOOK = f"/books/pro/book/{KNOWN_ISBNS[0]}"


@pytest.mark.parametrize(
    ("address", "options", "status"),
    [
        ("/video/v3/subscriptions?part=id&mine=true", {"headers": BEARER}, 200),
        ("/video/v3/subscriptions", {"headers": BEARER}, 400),
        (BOOK, {"headers": PRO}, 200),
        (BOOK, {}, 401),
        ("/books/pro/author/anybody", {"headers": PRO}, 404),
        ("/docs", {}, 200),
        ("/openapi.json", {}, 200),
        ("/_sandbox/bulletins", {}, 200),
    ],
)
async def test_head_is_answered_as_get_is_without_the_body(
    make_sandbox: type[Sandbox], address: str, options: dict[str, Any], status: int
) -> None:
    got, headed = await make_sandbox().get(address, **options), await make_sandbox().head(address, **options)

    assert (headed.status_code, headed.content) == (status, b"")
    assert headed.headers == got.headers
    assert int(headed.headers["Content-Length"]) == len(got.content) > 0


async def test_head_is_recorded_and_counted(sandbox: Sandbox) -> None:
    sandbox.state.faults.arm(StatusFault(service="books", status=503, after=1))

    assert [(await sandbox.head(BOOK, headers=PRO)).status_code for _ in range(2)] == [200, 503]
    assert [(record.method, record.status) for record in sandbox.state.requests] == [("HEAD", 200), ("HEAD", 503)]
    assert (await sandbox.get("/books/pro/key", headers=PRO)).json()["plan_limit"]["spent"] == 2


@pytest.mark.parametrize(("method", "path"), [("GET", "/author/anybody"), ("GET", ""), ("POST", "/book/1")])
async def test_an_unknown_address_of_the_books_needs_a_key_and_counts(
    make_sandbox: type[Sandbox], method: str, path: str
) -> None:
    sandbox = make_sandbox(books_limit_reply="429")
    ask = sandbox.get if method == "GET" else sandbox.post
    address = f"/books/pro{path}"

    async def answers(*headers: dict[str, str]) -> list[httpx.Response]:
        return [await ask(address, headers=each) for each in headers]

    missing, wrong = await answers({}, {"Authorization": "unheard-of"})
    assert (missing.status_code, wrong.status_code) == (401, 403)
    known = await answers(*[PRO] * 5)
    status = 404 if method == "GET" else 405
    assert {(reply.status_code, reply.json()["message"]) for reply in known} == {
        (status, f"There is no endpoint {method} {address}.")
    }
    assert (await ask(address, headers=PRO)).json() == {"message": "Limit Exceeded"}
    sandbox.clock.seconds += 1
    assert (await sandbox.get("/books/pro/key", headers=PRO)).json()["plan_limit"]["spent"] == 7


async def test_an_unknown_address_of_the_video_platform_needs_a_credential_and_counts(
    make_sandbox: type[Sandbox],
) -> None:
    sandbox = make_sandbox(video_requests_per_second=2)

    assert reason_of(await sandbox.get("/video/v3/channels")) == (401, "required")
    assert reason_of(await sandbox.get("/video/v3/channels", headers=BEARER)) == (404, "notFound")
    assert reason_of(await sandbox.get("/video/v3/activities", headers=BEARER)) == (405, "methodNotAllowed")
    assert reason_of(await sandbox.get("/video/v3/channels", headers=BEARER)) == (403, "rateLimitExceeded")


async def test_an_address_of_no_service_is_not_found(sandbox: Sandbox) -> None:
    assert (await sandbox.get("/elsewhere")).json() == {"detail": "Not Found"}
