"""The book database's endpoints, keys, plans and limits, and the supply of ISBNs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from stdnum import isbn as oracle

from airflow_provider_mediaops.sandbox import books
from airflow_provider_mediaops.sandbox.books import KNOWN_ISBNS, book, sample_isbns
from tests.unit.sandbox.conftest import Sandbox

if TYPE_CHECKING:
    import httpx

    from airflow_provider_mediaops.sandbox.books import Plan

KNOWN = KNOWN_ISBNS[0]
UNKNOWN = "9791090000025"
LIMIT_REPLIES = [(404, {"errorMessage": "Not Found"}), (429, {"message": "Limit Exceeded"})]


async def ask(sandbox: Sandbox, path: str, *, plan: Plan = books.PRO, key: str | None = None) -> httpx.Response:
    return await sandbox.get(f"{plan.root}{path}", headers={"Authorization": key or plan.key})


def answer(reply: httpx.Response) -> tuple[int, Any]:
    return reply.status_code, reply.json()


@pytest.mark.parametrize(("plan", "rate"), [(books.DEFAULT, 1), (books.PREMIUM, 3), (books.PRO, 5)])
async def test_each_plan_has_its_address_its_key_and_its_rate(sandbox: Sandbox, plan: Plan, rate: int) -> None:
    granted = [await ask(sandbox, f"/book/{KNOWN}", plan=plan) for _ in range(rate)]
    refused = [answer(await ask(sandbox, "/key", plan=plan)) for _ in range(4)]

    assert [(reply.status_code, reply.json()["book"]["isbn13"]) for reply in granted] == [(200, KNOWN)] * rate
    # The two replies take turns.
    assert refused == LIMIT_REPLIES * 2
    for other in {*books.PLANS} - {plan}:
        assert (await ask(sandbox, f"/book/{KNOWN}", plan=other)).status_code == 200
        assert (await ask(sandbox, f"/book/{KNOWN}", plan=other, key=plan.key)).status_code == 403


async def test_an_unknown_book_is_not_said_as_the_limit_is(sandbox: Sandbox) -> None:
    status, body = answer(await ask(sandbox, f"/book/{UNKNOWN}"))

    assert status == 404
    assert body.keys() == {"message", "error_message"}


@pytest.mark.parametrize("isbn", ["9780140449137", "0140449133", "978-0-14-044913-6", "9790000000001", "x"])
async def test_text_that_is_not_the_isbn_of_a_book_is_refused(sandbox: Sandbox, isbn: str) -> None:
    status, body = answer(await ask(sandbox, f"/book/{isbn}"))

    assert status == 400
    assert isbn in body["message"]


@pytest.mark.parametrize(
    ("headers", "status", "said"),
    [
        ({}, 401, "missing"),
        ({"Authorization": books.INACTIVE_KEY}, 401, "not active"),
        ({"Authorization": "unheard-of"}, 403, "not known"),
        ({"Authorization": f"Bearer {books.PRO.key}"}, 403, "not known"),
        ({"Authorization": books.PREMIUM.key}, 403, "premium"),
    ],
)
async def test_a_wrong_key_is_denied(sandbox: Sandbox, headers: dict[str, str], status: int, said: str) -> None:
    # A key in the address is not looked at.
    params = {"Authorization": books.PRO.key}
    reply = await sandbox.get(f"/books/pro/book/{KNOWN}", params=params, headers=headers)

    assert reply.status_code == status
    assert said in reply.json()["message"]


async def test_the_day_s_quota_counts_failed_calls_and_starts_anew_at_midnight() -> None:
    sandbox = Sandbox(books_daily_requests=2)
    await ask(sandbox, f"/book/{UNKNOWN}")
    await ask(sandbox, "/book/nonsense")

    status, body = answer(await ask(sandbox, f"/book/{KNOWN}"))
    assert status == 403
    assert "daily" in body["message"].lower()
    sandbox.clock.seconds += 12 * 3600 - 1
    assert (await ask(sandbox, f"/book/{KNOWN}")).status_code == 403
    sandbox.clock.seconds += 1
    assert (await ask(sandbox, f"/book/{KNOWN}")).status_code == 200


async def bulk(sandbox: Sandbox, body: Any, plan: Plan = books.PRO) -> httpx.Response:
    return await sandbox.post(f"{plan.root}/books", json=body, headers={"Authorization": plan.key})


async def test_a_bulk_request_leaves_unknown_ones_out_and_costs_one_unit_each() -> None:
    sandbox = Sandbox(books_daily_requests=10)
    status, body = answer(await bulk(sandbox, {"isbns": [KNOWN, UNKNOWN, "nonsense", sample_isbns(1)[0]]}))

    assert status == 200
    assert (body["total"], body["requested"]) == (2, 4)
    assert [record["isbn13"] for record in body["data"]] == [KNOWN, sample_isbns(1)[0]]
    assert (await ask(sandbox, "/key")).json()["plan_limit"]["spent"] == 5
    assert (await bulk(sandbox, {"isbns": sample_isbns(6)})).status_code == 403


def test_every_sample_is_an_isbn_with_a_record_of_its_own() -> None:
    isbns = sample_isbns(1_000)

    assert len(set(isbns)) == 1_000
    assert all(isbn.startswith("97800") and oracle.is_valid(isbn) for isbn in isbns)
    assert isbns[:10] == sample_isbns(10)
    assert [record["isbn13"] for isbn in isbns if (record := book(isbn))] == isbns
