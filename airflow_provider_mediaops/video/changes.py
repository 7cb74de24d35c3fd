"""
The changes of an export: the version that it replaces, what the service is asked once more, and what is published.

Records are compared by their id and their whole content: an etag that stays the same hides no change, and a new one is
a change, so that the older version with the changes is the newer one. The order of keys does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import (
    BadRequestError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from airflow_provider_mediaops.http.exchange import Ask, Blocking, CallFlow, Emit
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.scratch import naming_folder, scratch_database
from airflow_provider_mediaops.storage.source_file import InvalidSourceError
from airflow_provider_mediaops.video.arguments import LARGEST_PAGE
from airflow_provider_mediaops.video.paging import Listing

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.dataset import Staging
    from airflow_provider_mediaops.video.arguments import SubscriptionQuery
    from airflow_provider_mediaops.video.export import Export

_KIND = "#subscription"
_OLD, _NEW = 0, 1
# So many rows are inserted by one call.
_AT_ONCE = 1_000
# An older record is here as a line of JSON. A newer one is in the log of the dataset, at a place in bytes.
_TABLE = "CREATE TABLE records (id BLOB, side INTEGER, digest BLOB, line BLOB, start INTEGER, size INTEGER)"
_INSERT = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)"
_INDEX = "CREATE INDEX IF NOT EXISTS by_id ON records (id, side, digest)"
_GONE = (
    "SELECT id, line FROM records AS old WHERE side = 0 AND id > ? "
    "AND NOT EXISTS (SELECT 1 FROM records WHERE id = old.id AND side = 1) ORDER BY id LIMIT ?"
)
# Records with the same bytes are the same. The rest is few, so their content is compared in Python.
_DIFFERENT = (
    "SELECT old.id AS id, old.line, new.start, new.size FROM records AS old "
    "LEFT JOIN records AS new ON new.id = old.id AND new.side = 1 "
    "WHERE old.side = 0 AND (new.id IS NULL OR new.digest <> old.digest) "
    "UNION ALL "
    "SELECT new.id AS id, NULL, new.start, new.size FROM records AS new "
    "WHERE new.side = 1 AND NOT EXISTS (SELECT 1 FROM records WHERE id = new.id AND side = 0) "
    "ORDER BY 1"
)


@dataclass(slots=True)
class SecondLook:
    """How far the service was asked once more for the records that the listing lacks, as it is saved with them."""

    against: str = ""  # the version with which the listing was compared; empty for none
    last: str = ""  # the id up to which all are decided
    recovered: int = 0  # records that the listing lacked and the service still had
    kept: int = 0  # older records that were kept, because it is not known that they are gone


class ExportChanges:
    """
    The changes of an export against the version that it replaces.

    They are against that version if an export with the same arguments has published it. Otherwise they are against
    nothing, so that every record is added: a record that another query has listed is not gone because this one lacks
    it, and to ask for its id does not tell whether this query should have listed it.

    Memory is bounded: a temporary database has the older version, and of each newer record the place. Only
    :meth:`look` is free of blocking work. The constructor raises an ``InvalidArgumentError`` if the file at the
    destination is not an export of subscriptions, a ``DestinationReplacedError`` if somebody else has published since
    this attempt began, and an ``OSError`` if the older version cannot be read.
    """

    def __init__(self, export: Export, staging: Staging, warn: Callable[[str], None]) -> None:
        self._destination = export.destination
        self._staging = staging
        self._warn = warn
        #: How far the second look has come.
        self.second_look = SecondLook(**(staging.state or {}).get("second_look", {}))
        if self.second_look.against != staging.replaced_version:
            # Somebody else has published since: another version may lack other records.
            self.second_look.last, self.second_look.against = "", staging.replaced_version
        replaced = staging.replaced
        self._is_compared = replaced is not None and replaced.owner.parameters == export.owned_by().parameters
        if not self._is_compared and staging.replaced_version:
            self._check_replaced()
        self._database = scratch_database(_TABLE)
        # Where the newer records end that are in the database.
        self._end = 0
        self._unidentified = 0
        if self._is_compared:
            self._insert(self._old_rows())

    def _check_replaced(self) -> None:
        """Raise unless the file at the destination is an export; warn that it is not compared with."""
        try:
            first = next(self._staging.unverified_records(), None)
            reason = "" if first is None or _is_subscription(parse_json(first.encode())) else "its records are others"
        except (InvalidSourceError, ValueError) as error:
            reason = str(error)
        if reason:
            raise InvalidArgumentError(
                f"changes cannot be listed: destination {self._destination!r} holds a file that is not an export of "
                f"subscriptions ({reason}). Move that file away, or give another destination."
            )
        self._warn(
            f"{self._destination} was exported with other arguments, or changed since, so there is no version to "
            "compare with: all subscriptions count as added."
        )

    def _old_rows(self) -> Iterator[tuple[object, ...]]:
        for record in self._staging.replaced_records():
            line = record.encode("utf-8", "surrogateescape")
            if identifier := id_of(parse_json(line)):
                yield _key(identifier), _OLD, _digest(line), line, None, None

    def _new_rows(self) -> Iterator[tuple[object, ...]]:
        for line in self._staging.lines(self._end):
            start = self._end
            self._end += len(line) + 1
            if identifier := id_of(parse_json(line)):
                yield _key(identifier), _NEW, _digest(line), None, start, len(line)
            else:
                self._unidentified += 1

    def _insert(self, rows: Iterator[tuple[object, ...]]) -> None:
        while batch := list(islice(rows, _AT_ONCE)):
            with naming_folder():
                self._database.executemany(_INSERT, batch)

    def look(self, ask: Ask, listing: Listing) -> CallFlow[None]:
        """
        Look once more for the subscriptions that the listing lacks: pages are known to leave records out.

        The call flow emits those of each 50 that stay, which have to be saved before the next. If the listing was cut
        short, nothing is requested, and all of them are kept.
        """
        if not self._is_compared:
            return
        yield Blocking(lambda: self._insert(self._new_rows()))
        while gone := (yield Blocking(self._gone)):
            found, is_known = (yield from self._found(ask, listing.query, gone)) if listing.complete else ({}, False)
            kept = [] if is_known else [parse_json(old) for name, old in gone.items() if name not in found]
            self.second_look.last = next(reversed(gone))
            self.second_look.recovered += len(found)
            self.second_look.kept += len(kept)
            yield Emit([*found.values(), *kept])

    def _gone(self) -> dict[str, bytes]:
        """Return the next older records that the newer version lacks, by their ids and in the order of these."""
        with naming_folder():
            self._database.execute(_INDEX)
            found = self._database.execute(_GONE, (_key(self.second_look.last), LARGEST_PAGE)).fetchall()
        return {_id(key): line for key, line in found}

    def _found(self, ask: Ask, query: SubscriptionQuery, ids: Collection[str]) -> CallFlow[tuple[dict[str, Any], bool]]:
        """Return the records that the service has of these ids, and whether those that it did not send are gone."""
        found: dict[str, Any] = {}
        # A list of ids is sent as one text with commas, and an address holds no half of a character.
        if any("," in name or name != name.strip() or not name.isprintable() for name in ids):
            return found, False
        by_ids = replace(
            query, channel_id=None, mine=False, ids=tuple(ids), for_channel_ids=None, max_results=LARGEST_PAGE
        )
        listing = Listing(by_ids, warn=self._warn)
        try:
            while (listed := (yield from listing.next_page(ask))) is not None:
                asked_for = {item["id"]: item for item in listed.fresh if id_of(item) in ids}
                found |= asked_for
                if len(asked_for) < len(listed.fresh):
                    # A service or a gateway that passes over the ids says nothing about them.
                    self._warn(
                        f"The service sent other subscriptions than {len(ids)} that may be gone, so those are kept."
                    )
                    return found, False
        except (BadRequestError, NotFoundError, PermissionDeniedError) as error:
            self._warn(
                f"The service does not say whether {len(ids)} subscriptions are gone, so they are kept: {error.message}"
            )
            return found, False
        return found, listing.complete

    def finish(self) -> dict[str, Any]:
        """Have the changes published with the dataset; return what the summary says of them, but for their path."""
        self._insert(self._new_rows())
        counts, look = Counter(change for change, _ in self.changes()), self.second_look
        if look.recovered:
            self._warn(
                f"The service's pages left out {look.recovered:,} subscriptions that it still has: they are exported."
            )
        if look.kept:
            self._warn(
                f"{look.kept:,} subscriptions of the older version were not listed, and are not known to be gone: "
                "they stay in the dataset as they were."
            )
        if self._unidentified:
            self._warn(f"{self._unidentified:,} records have no id, so the changes do not name them.")
        self._staging.changes = self._write
        return {
            "compared": self._is_compared,
            "added": counts["added"],
            "removed": counts["removed"],
            "changed_records": counts["changed"],
            "recovered": look.recovered,
            "kept": look.kept,
        }

    def changes(self) -> Iterator[tuple[str, bytes]]:
        """Yield what was ``added``, ``removed`` and ``changed``, each with its line, by the ids in order of UTF-8."""
        with naming_folder():
            self._database.execute(_INDEX)
            for key, before, start, size in self._database.execute(_DIFFERENT):
                after = None if start is None else self._staging.line(start, size)
                if before is None or after is None:
                    change = "added" if before is None else "removed"
                elif canonical(parse_json(before)) != canonical(parse_json(after)):
                    change = "changed"
                else:
                    continue
                head = json_line({"change": change, "id": _id(key)})[:-1]
                yield change, b'%s,"before":%s,"after":%s}\n' % (head, before or b"null", after or b"null")

    def _write(self, file: Path) -> None:
        with naming_folder(), file.open("wb") as opened:
            opened.writelines(line for _, line in self.changes())
        self.close()

    def close(self) -> None:
        """Remove the temporary database."""
        self._database.close()


def is_unchanged(summary: Mapping[str, Any]) -> bool:
    """Return whether an export has found nothing new, by its summary; False if there was no version to compare with."""
    if "compared" not in summary:
        return summary.get("changed") is False
    return bool(summary["compared"]) and not any(summary[name] for name in ("added", "removed", "changed_records"))


def _is_subscription(record: Any) -> bool:
    kind = record.get("kind") if isinstance(record, dict) else None
    return kind.endswith(_KIND) if isinstance(kind, str) else id_of(record) is not None


def id_of(record: object) -> str | None:
    """Return the id of a record; None if it has none by which the service finds it."""
    identifier = record.get("id") if isinstance(record, dict) else None
    return identifier if isinstance(identifier, str) and identifier else None


def canonical(record: Any) -> str:
    """Return a text that two records share if their content is the same, whatever the order of their keys."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def _key(identifier: str) -> bytes:
    # Bytes are sorted as they are, and SQLite takes no text with a lone surrogate.
    return identifier.encode("utf-8", "surrogatepass")


def _id(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")
