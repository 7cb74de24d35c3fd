"""The book database as its hook meets it: addresses, and replies that are no book."""

from __future__ import annotations

from typing import Any

from tests.unit.book_database import NO_SUCH_BOOK

BASE = "https://books.example/premium"
MISSING: dict[str, Any] = {"status_code": 404, "json": NO_SUCH_BOOK}


def address(isbn13: str) -> str:
    return f"{BASE}/book/{isbn13}"
