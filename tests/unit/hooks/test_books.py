"""The hook of the book database: what it asks for of one book, and its asynchronous twins."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.api import ForeignNotFoundError, KeyUsage, get_key_usage
from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.books.isbn import InvalidIsbnError
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    NotFoundError,
    QuotaExceededError,
)
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from tests.unit.book_database import (
    CALENDAR,
    CRIME,
    KEY,
    asked,
    book,
    found,
    http,
    limit_404,
    no_such_book,
)
from tests.unit.hooks.book_hook import BASE, MISSING, address
from tests.unit.loopback import Loopback, Peer, answering

if TYPE_CHECKING:
    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")


@pytest.mark.usefixtures("connect_books")
class TestTheQuotaOfToday:
    @pytest.mark.parametrize(
        ("reply", "usage"),
        [
            ({"json": {"plan_limit": {"total": 5000, "spent": 10, "left": "4990"}}}, KeyUsage(total=5000, left=4990)),
            ({"status_code": 404, "json": {}}, None),
            ({"status_code": 403, "json": {}}, None),
            ({"json": {"x": 1}}, None),
        ],
    )
    def test_quota_of_today_is_read_where_the_service_tells(
        self, requests_mock: requests_mock.Mocker, reply: dict[str, Any], usage: KeyUsage | None
    ) -> None:
        requests_mock.get(f"{BASE}/key", **reply)

        with BookDatabaseHook() as hook:
            assert hook.key_usage() == usage

    def test_a_key_that_is_not_accepted_is_one(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(f"{BASE}/key", status_code=401)

        with BookDatabaseHook() as hook, pytest.raises(AuthenticationError):
            hook.key_usage()

    def test_a_call_that_is_about_no_book_is_not_checked(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(f"{BASE}/key", status_code=404, json={})

        with BookDatabaseHook() as hook, pytest.raises(ForeignNotFoundError):
            hook.ask(get_key_usage())

        assert asked(requests_mock) == ["key"]


@pytest.mark.usefixtures("connect_books")
class TestOneBook:
    def test_a_book_is_given_as_it_came(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME, unknown={"deep": [1, None]}, authors={"0": "F. D."}))

        with BookDatabaseHook() as hook:
            read = hook.book("ISBN 0-14-044913-2")

        assert read.record == book(CRIME, unknown={"deep": [1, None]}, authors={"0": "F. D."})["book"]
        assert read.authors == ["F. D."]

    def test_the_key_is_in_the_header_and_nowhere_else(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook() as hook:
            hook.book(CRIME)

        request = requests_mock.request_history[-1]
        assert request.headers["Authorization"] == KEY
        assert request.url == address(CRIME)

    def test_a_text_that_is_no_isbn_spends_no_request(self, requests_mock: requests_mock.Mocker) -> None:
        with BookDatabaseHook() as hook, pytest.raises(InvalidIsbnError, match="check digit"):
            hook.book("9780140449137")

        assert not requests_mock.called

    def test_a_book_that_is_not_there_is_an_error(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CALENDAR), **MISSING)
        # Nothing else is known to exist.
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook() as hook, pytest.raises(NotFoundError, match="no record of this book"):
            hook.book(CALENDAR)

        assert asked(requests_mock) == [CALENDAR, CRIME]

    def test_a_look_up_is_a_result_where_book_raises(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))
        requests_mock.get(address(CALENDAR), **MISSING)

        with BookDatabaseHook() as hook:
            there, missing, invalid = hook.lookup("0140449132"), hook.lookup(CALENDAR), hook.lookup("x")

        assert (there.status, there.isbn13, there.input) == ("found", CRIME, "0140449132")
        assert there.book is not None
        assert (missing.status, missing.book, missing.error) == ("not_found", None, None)
        assert (invalid.status, invalid.isbn13) == ("invalid", None)
        assert invalid.error == "'x' is no ISBN: it must have 10 or 13 digits, not 1."

    def test_refusal_of_the_service_is_an_error_of_a_look_up_too(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), status_code=403, json={"message": "Daily quota exceeded"})

        with BookDatabaseHook() as hook, pytest.raises(QuotaExceededError):
            hook.lookup(CRIME)


class TestOnTheEventLoop:
    async def test_list_gives_the_look_ups_of_a_worker(self, connect_books: Any) -> None:
        absent = iter([no_such_book(), limit_404(), limit_404()])

        def answer(peer: Peer) -> None:
            # Requests of a list are sent together, so they may arrive in any order.
            while request := peer.request():
                peer.send(http(found(CRIME) if CRIME.encode() in request else next(absent)))

        with Loopback(answer) as server:
            connect_books(server.base)
            with BookDatabaseHook() as hook:
                rows = map(IsbnRow.of, ["x", CRIME, CALENDAR, CRIME])
                lookups = [lookup async for update in hook.alookup_batch(rows) for lookup in update.done]
        assert [lookup.status for lookup in lookups] == ["invalid", "found", "not_found", "found"]

    async def test_list_that_is_given_up_leaves_no_task(self, connect_books: Any) -> None:
        with Loopback(answering(http(found(CRIME)))) as server:
            connect_books(server.base)
            batch = map(IsbnRow.of, [CRIME, CALENDAR])
            with BookDatabaseHook() as hook:
                async with aclosing(hook.alookup_batch(batch)) as updates:
                    async for update in updates:
                        if update.done:
                            break

        assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()
