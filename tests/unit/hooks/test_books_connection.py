"""What the hook of the book database says of its connection: fields, key, and the test button."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from tests.unit.book_database import CRIME, KEY, LIMIT_429, PROGRAMMING, book, connection
from tests.unit.hooks.book_hook import BASE, DOUBT, MISSING, address
from tests.unit.loopback import closed_port

if TYPE_CHECKING:
    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")


class TestTheConnection:
    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"password": ""}, "password"),
            ({"password": "two\nlines"}, "password"),
            ({"plan": "gold"}, "plan"),
            ({"requests_per_second": 0}, "requests_per_second"),
            ({"requests_per_second": "fast"}, "requests_per_second"),
            ({"requests_per_second": 1e9}, "requests_per_second"),
            ({"canary_isbn": "9780140449137"}, "canary_isbn"),
            ({"host": ""}, "host"),
        ],
    )
    def test_a_field_that_cannot_be_used_is_named(self, connect_books: Any, fields: dict[str, Any], field: str) -> None:
        connect_books(**fields)

        with BookDatabaseHook() as hook, pytest.raises(InvalidConnectionError, match=f"field '{field}'"):
            hook.book(CRIME)

    def test_another_connection_can_be_named(
        self, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SHELF", connection(BASE, password="another-key"))
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook("shelf") as hook:
            hook.book(CRIME)

        request = requests_mock.last_request
        assert request is not None
        assert request.headers["Authorization"] == "another-key"


class TestTestConnection:
    QUOTA: ClassVar[dict[str, Any]] = {
        "json": {"api_host": "api.example", "plan_limit": {"total": 5000, "spent": 10, "left": 4990}}
    }

    def test_a_key_that_tells_of_its_quota(self, requests_mock: requests_mock.Mocker, connect_books: Any) -> None:
        requests_mock.get(f"{BASE}/key", **self.QUOTA)

        assert BookDatabaseHook().test_connection() == (
            True,
            "The book database answers and accepts the key; 4,990 of its 5,000 requests of today are left.",
        )

    @pytest.mark.parametrize("key_reply", [{"status_code": 404}, {"status_code": 403}, {"json": {"other": 1}}])
    def test_a_service_that_does_not_know_that_call(
        self,
        requests_mock: requests_mock.Mocker,
        connect_books: Any,
        key_reply: dict[str, Any],
    ) -> None:
        requests_mock.get(f"{BASE}/key", **key_reply)
        requests_mock.get(address(CRIME), json=book(CRIME))

        assert BookDatabaseHook().test_connection() == (True, "The book database answers and accepts the key.")

    def test_the_canary_is_asked_for_where_there_is_one(
        self, requests_mock: requests_mock.Mocker, connect_books: Any
    ) -> None:
        connect_books(canary_isbn="0-13-110362-8")
        requests_mock.get(f"{BASE}/key", status_code=404)
        asked = requests_mock.get(address(PROGRAMMING), json=book(PROGRAMMING))

        assert BookDatabaseHook().test_connection()[0]
        assert asked.call_count == 1

    def test_a_quota_that_is_used_up_leaves_the_canary_alone(
        self, requests_mock: requests_mock.Mocker, connect_books: Any
    ) -> None:
        connect_books(canary_isbn=PROGRAMMING)
        requests_mock.get(f"{BASE}/key", json={"plan_limit": {"total": 5000, "left": 0}})
        asked = requests_mock.get(address(PROGRAMMING), status_code=403)

        assert BookDatabaseHook().test_connection()[0]
        assert not asked.called

    @pytest.mark.parametrize("key_works", [True, False])
    @pytest.mark.parametrize("reply", [MISSING, {"status_code": 404, "json": {}}, {"status_code": 404}])
    def test_a_canary_that_is_not_there_is_an_error_of_the_connection(
        self, requests_mock: requests_mock.Mocker, connect_books: Any, reply: dict[str, Any], *, key_works: bool
    ) -> None:
        connect_books(canary_isbn=PROGRAMMING)
        requests_mock.get(f"{BASE}/key", **(self.QUOTA if key_works else reply))
        requests_mock.get(address(PROGRAMMING), **reply)

        worked, said = BookDatabaseHook().test_connection()

        assert not worked
        assert f"/book/{PROGRAMMING} with 404" in said
        assert "check the connection's base address, and canary_isbn" in said

    @pytest.mark.parametrize(
        ("reply", "words"),
        [
            (
                {"status_code": 401, "json": {"message": "Unauthorized"}},
                ["401", "not active", "password", "plan"],
            ),
            (
                {"status_code": 403, "json": {"message": "Forbidden"}},
                ["403", "another plan than the key's", "key is wrong"],
            ),
            ({"status_code": 403, "json": {"message": "Daily quota exceeded"}}, ["daily quota", "00:00 UTC"]),
            ({"status_code": 429, "json": LIMIT_429}, ["Limit Exceeded", "plan"]),
            (DOUBT, ["limit is reached, or that there is no such book"]),
            (MISSING, [f"/book/{CRIME}", "check it, and set canary_isbn"]),
            ({"status_code": 404, "json": {}}, ["404", "base address", "set canary_isbn"]),
            ({"status_code": 404, "text": "<html>"}, ["404", "base address"]),
            ({"text": "<html>Sign in</html>"}, ["a web page", "base address"]),
            ({"status_code": 502, "text": "<html>"}, ["502"]),
        ],
    )
    def test_all_faults_of_a_connection_are_said_in_one_message(
        self, requests_mock: requests_mock.Mocker, connect_books: Any, reply: dict[str, Any], words: list[str]
    ) -> None:
        requests_mock.get(f"{BASE}/key", **reply)
        requests_mock.get(address(CRIME), **reply)

        worked, said = BookDatabaseHook().test_connection()

        assert not worked
        assert all(word in said for word in words), said
        assert KEY not in said

    def test_nobody_there(self, connect_books: Any) -> None:
        connect_books(f"http://127.0.0.1:{closed_port()}")

        worked, said = BookDatabaseHook().test_connection()

        assert not worked
        assert "Check host and port" in said
