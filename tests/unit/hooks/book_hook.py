"""The book database as its hook meets it: addresses, and replies that are no book."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.book_database import LIMIT_404, NO_SUCH_BOOK

if TYPE_CHECKING:
    import requests_mock

BASE = "https://books.example/premium"
DOUBT: dict[str, Any] = {"status_code": 404, "json": LIMIT_404}
MISSING: dict[str, Any] = {"status_code": 404, "json": NO_SUCH_BOOK}


def address(isbn13: str) -> str:
    return f"{BASE}/book/{isbn13}"


def asked(requests_mock: requests_mock.Mocker) -> list[str]:
    return [request.path.rpartition("/")[2] for request in requests_mock.request_history]
