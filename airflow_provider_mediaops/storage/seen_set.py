"""A set of any number of texts in bounded memory."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING

from airflow_provider_mediaops.storage.scratch import naming_folder, scratch_database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

_IN_MEMORY = 75_000


class SeenSet:
    """
    A set that keeps a 64-bit hash of each text, and can only grow.

    The first 75,000 hashes are kept in memory (5 MB). A larger set moves to a temporary SQLite database, whose cache
    takes 2 MB; a million texts take 25 MB on disk. Two texts are confused with a probability of 1 in 2⁶⁴; among a
    million texts, any two are with a probability of 1 in 37 million. Python salts its hashes for each process, so a
    service cannot choose texts that collide.

    :param in_memory: how many hashes are kept in memory.
    """

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._hashes: set[int] = set()
        self._database: sqlite3.Connection | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, texts: Iterable[str]) -> list[bool]:
        """
        Add texts.

        :param texts: the texts.
        :returns: for each text, whether it was new.
        :raises OSError: if the database cannot grow; the message names its folder.
        """
        new = self._add_to_memory(texts) if self._database is None else self._add_to_database(self._database, texts)
        self._count += sum(new)
        if len(self._hashes) > self._in_memory:
            self._move()
        return new

    def _add_to_memory(self, texts: Iterable[str]) -> list[bool]:
        hashes = self._hashes
        new: list[bool] = []
        for text in texts:
            before = len(hashes)
            hashes.add(hash(text))
            new.append(len(hashes) > before)
        return new

    @staticmethod
    def _add_to_database(database: sqlite3.Connection, texts: Iterable[str]) -> list[bool]:
        insert = "INSERT OR IGNORE INTO seen VALUES (?)"
        with naming_folder():
            return [database.execute(insert, (hash(text),)).rowcount == 1 for text in texts]

    def _move(self) -> None:
        try:
            database = scratch_database("CREATE TABLE seen (hash INTEGER PRIMARY KEY)")
        except OSError:
            # A machine without a folder for temporary files still has memory: 76 MB for a million texts.
            self._in_memory = sys.maxsize
            return
        weakref.finalize(self, database.close)
        with naming_folder():
            # In order, so that each page of the table is written once.
            database.executemany("INSERT INTO seen VALUES (?)", ((each,) for each in sorted(self._hashes)))
        self._database = database
        self._hashes = set()
