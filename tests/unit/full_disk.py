"""A disk that is full for SQLite."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


class _Full(sqlite3.Connection):
    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if sql.startswith("INSERT"):
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(sql, *arguments)


def fill_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Refuse each row that is written to a database of SQLite which is opened from now on."""
    connect = sqlite3.connect
    patch.setattr(sqlite3, "connect", lambda *given, **how: connect(*given, factory=_Full, **how))
