"""
Compare two versions of a listing of subscriptions: which records were added, removed and changed.

Records are compared by their id and their whole content: an etag that stays the same hides no change, and a new one is
a change, so that the older version with the changes is the newer one. The order of keys is no content.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.scratch import ScratchFile, naming_folder, scratch_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_OLD, _NEW = 0, 1
# So many rows are inserted by one call.
_AT_ONCE = 1_000
_TABLE = "CREATE TABLE records (id BLOB, side INTEGER, start INTEGER, size INTEGER, digest BLOB)"
_INDEX = "CREATE INDEX IF NOT EXISTS by_id ON records (id, side, start, size, digest)"
_GONE = (
    "SELECT id, start, size FROM records AS old WHERE side = 0 AND id > ? "
    "AND NOT EXISTS (SELECT 1 FROM records WHERE id = old.id AND side = 1) ORDER BY id LIMIT ?"
)
# Records with the same bytes are the same. The rest is few, so their content is compared in Python.
_DIFFERENT = (
    "SELECT old.id AS id, old.start, old.size, new.start, new.size FROM records AS old "
    "LEFT JOIN records AS new ON new.id = old.id AND new.side = 1 "
    "WHERE old.side = 0 AND (new.id IS NULL OR new.digest <> old.digest) "
    "UNION ALL "
    "SELECT new.id AS id, NULL, NULL, new.start, new.size FROM records AS new "
    "WHERE new.side = 1 AND NOT EXISTS (SELECT 1 FROM records WHERE id = new.id AND side = 0) "
    "ORDER BY 1"
)


class Change(NamedTuple):
    """
    What happened to one record.

    :param change: ``added``, ``removed`` or ``changed``.
    :param id: its id.
    :param before: the record before, as JSON; None if it was added.
    :param after: the record now, as JSON; None if it was removed.
    """

    change: str
    id: str
    before: bytes | None
    after: bytes | None

    def line(self) -> bytes:
        """Return the change as a line of JSON."""
        head = json_line({"change": self.change, "id": self.id})[:-1]
        return b'%s,"before":%s,"after":%s}\n' % (head, self.before or b"null", self.after or b"null")


class Counts(NamedTuple):
    """The number of records that were added, removed and changed."""

    added: int = 0
    removed: int = 0
    changed: int = 0


class VersionComparison:
    """
    Two versions of a listing, in bounded memory.

    Of each record, a temporary SQLite database has the id, a digest and the place; it takes about 310 MB for two
    versions with a million records each. The older records are in a temporary file. The newer ones stay where they are.

    :param read: returns a part of the newer version: JSON lines.
    """

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        self._database = scratch_database(_TABLE)
        self._spool = ScratchFile()
        self._closers: list[Callable[[], object]] = [weakref.finalize(self, self._database.close), self._spool.close]
        #: The number of newer records that have no id, so that they cannot be compared.
        self.unidentified = 0
        #: Where the newer records end that were added, in bytes.
        self.end = 0

    def add_old(self, records: Iterable[str]) -> None:
        """
        Add records of the older version.

        :param records: each as JSON.
        :raises OSError: if the temporary files cannot grow; the message names their folder.
        :raises ValueError: if one is no JSON.
        """

        def spooled() -> Iterator[tuple[bytes, int]]:
            for record in records:
                line = record.encode("utf-8", "surrogateescape")
                yield line, self._spool.append(line)

        self._add(_OLD, spooled())

    def add_new(self, lines: Iterable[bytes]) -> None:
        """
        Add records of the newer version, from :attr:`end` on.

        :param lines: each as JSON, without a line end.
        :raises OSError: if the temporary files cannot grow; the message names their folder.
        """

        def placed() -> Iterator[tuple[bytes, int]]:
            for line in lines:
                yield line, self.end
                self.end += len(line) + 1

        self._add(_NEW, placed())

    def _add(self, side: int, placed: Iterator[tuple[bytes, int]]) -> None:
        batch: list[tuple[bytes, int, int, int, bytes]] = []
        for line, start in placed:
            identifier = id_of(parse_json(line))
            if identifier is None:
                self.unidentified += side == _NEW
                continue
            digest = hashlib.blake2b(line, digest_size=16).digest()
            batch.append((_key(identifier), side, start, len(line), digest))
            if len(batch) == _AT_ONCE:
                self._insert(batch)
                batch = []
        self._insert(batch)

    def _insert(self, batch: list[tuple[bytes, int, int, int, bytes]]) -> None:
        with naming_folder():
            self._database.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", batch)

    def gone(self, after: str | None, limit: int) -> dict[str, bytes]:
        """
        Return older records whose ids the newer version does not have.

        :param after: the id after which to begin; None to begin with the first.
        :param limit: the maximum of records.
        :returns: the records as JSON by their ids, in the order of the ids.
        :raises OSError: if the temporary files cannot be used; the message names their folder.
        """
        with naming_folder():
            self._database.execute(_INDEX)
            found = self._database.execute(_GONE, (b"" if after is None else _key(after), limit)).fetchall()
            return {_id(key): self._old(start, size) for key, start, size in found}

    def counts(self) -> Counts:
        """Return how many records were added, removed and changed."""
        numbers = dict.fromkeys(("added", "removed", "changed"), 0)
        for change in self.changes():
            numbers[change.change] += 1
        return Counts(**numbers)

    def changes(self) -> Iterator[Change]:
        """
        Yield all changes, by their ids in the order of their UTF-8.

        :raises OSError: if the temporary files cannot be used; the message names their folder.
        """
        with naming_folder():
            self._database.execute(_INDEX)
            for key, old_start, old_size, new_start, new_size in self._database.execute(_DIFFERENT):
                before = None if old_start is None else self._old(old_start, old_size)
                after = None if new_start is None else self._read(new_start, new_size)
                if before is None or after is None:
                    yield Change("added" if before is None else "removed", _id(key), before, after)
                elif canonical(parse_json(before)) != canonical(parse_json(after)):
                    yield Change("changed", _id(key), before, after)

    def _old(self, start: int, size: int) -> bytes:
        return self._spool.read(start, size)

    def close(self) -> None:
        """Remove the temporary files."""
        for close in self._closers:
            close()


def id_of(record: object) -> str | None:
    """
    Return the id of a record.

    :param record: the record, as JSON values.
    :returns: the id; None if it has none by which the service finds it.
    """
    identifier = record.get("id") if isinstance(record, dict) else None
    return identifier if isinstance(identifier, str) and identifier else None


def canonical(record: Any) -> str:
    """Return a text that two records share if their content is the same, whatever the order of their keys."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def _key(identifier: str) -> bytes:
    # Bytes are sorted as they are, and SQLite takes no text with a lone surrogate.
    return identifier.encode("utf-8", "surrogatepass")


def _id(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")
