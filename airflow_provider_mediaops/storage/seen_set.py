"""A set of any number of texts in bounded memory."""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_provider_mediaops.storage.scratch import naming_folder, scratch_database

if TYPE_CHECKING:
    import sqlite3

# SQLite takes four times as long. From 157,000 on, the table of Python's set would double.
_IN_MEMORY = 150_000


class SeenSet:
    """
    A set that keeps a 64-bit hash of each text, and can only grow.

    The first 150,000 hashes are kept in memory (10 MB). Further ones go to a temporary SQLite database, whose cache
    takes 2 MB; a million texts take 20 MB on disk. Among a million texts, any two are confused with a probability of 1
    in 37 million. Python salts its hashes for each process, so a service cannot choose texts that collide.
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
        Add texts, and return for each whether it was new. One call for many takes less time than a call for each.

        An OSError names the folder of the database if that cannot grow.
        """
        hashes = list(map(hash, texts))
        fresh = set(hashes) - self._hashes
        database = self._grown()
        if database:
            with naming_folder():
                fresh = _added(database, fresh)
        else:
            self._hashes |= fresh
        self._count += len(fresh)
        new: list[bool] = []
        for each in hashes:
            new.append(each in fresh)
            # The next of the same is not new.
            fresh.discard(each)
        return new

    def _grown(self) -> sqlite3.Connection | None:
        """Return the database, if no more hashes fit into memory; it is opened for the first of them."""
        if self._database is None and len(self._hashes) >= self._in_memory:
            try:
                self._database = scratch_database("CREATE TABLE seen (hash INTEGER PRIMARY KEY)")
            except OSError:
                # A machine without a folder for temporary files still has memory: 76 MB for a million texts.
                self._in_memory = sys.maxsize
            else:
                weakref.finalize(self, self._database.close)
        return self._database


def _added(database: sqlite3.Connection, hashes: set[int]) -> set[int]:
    """Add hashes; return those that were not there before."""
    earlier = "SELECT hash FROM seen WHERE hash IN (SELECT value FROM json_each(?))"
    fresh = hashes.difference(found for (found,) in database.execute(earlier, (json.dumps(list(hashes)),)))
    database.execute("INSERT INTO seen SELECT value FROM json_each(?)", (json.dumps(list(fresh)),))
    return fresh
