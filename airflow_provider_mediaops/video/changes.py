"""
The changes of an export: the version that it replaces, what the service is asked once more, and what is published.

Records are compared by their id and their whole content: an etag that stays the same hides no change, and a new one is
a change, so that the older version with the changes is the newer one. The order of keys does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.exceptions import (
    BadRequestError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from airflow_provider_mediaops.http.exchange import Ask, Blocking, CallFlow, Emit
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.files import check_writable
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.paths import path_of
from airflow_provider_mediaops.storage.scratch import ScratchFile, naming_folder, scratch_database
from airflow_provider_mediaops.storage.source_file import InvalidSourceError
from airflow_provider_mediaops.video.arguments import LARGEST_PAGE
from airflow_provider_mediaops.video.paging import Listing

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.dataset import Staging
    from airflow_provider_mediaops.storage.ownership import Owner
    from airflow_provider_mediaops.video.arguments import SubscriptionQuery

#: The key of the state that is saved with the pages.
STATE = "second_look"
_KIND = "#subscription"
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
    """A record that was ``added``, ``removed`` or ``changed``; as JSON before and after, None where there is none."""

    change: str
    id: str
    before: bytes | None
    after: bytes | None

    def line(self) -> bytes:
        """Return the change as a line of JSON."""
        head = json_line({"change": self.change, "id": self.id})[:-1]
        return b'%s,"before":%s,"after":%s}\n' % (head, self.before or b"null", self.after or b"null")


class VersionComparison:
    """
    Two versions of a listing, in bounded memory.

    Of each record, a temporary SQLite database has the id, a digest and the place; it takes about 310 MB for two
    versions with a million records each. The older records are in a temporary file. The newer ones stay where they are:
    ``read`` returns a part of their JSON lines. An error of these files is an ``OSError`` that names their folder.
    """

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        self._database = scratch_database(_TABLE)
        self._spool = ScratchFile()
        #: The number of newer records that have no id, so that they cannot be compared.
        self.unidentified = 0
        #: Where the newer records end that were added, in bytes.
        self.end = 0

    def add_old(self, records: Iterable[str]) -> None:
        """Add records of the older version, each as JSON."""

        def spooled() -> Iterator[tuple[bytes, int]]:
            for record in records:
                line = record.encode("utf-8", "surrogateescape")
                yield line, self._spool.append(line)

        self._add(_OLD, spooled())

    def add_new(self, lines: Iterable[bytes]) -> None:
        """Add records of the newer version from :attr:`end` on, each as JSON without a line end."""

        def placed() -> Iterator[tuple[bytes, int]]:
            for line in lines:
                yield line, self.end
                self.end += len(line) + 1

        self._add(_NEW, placed())

    def _add(self, side: int, placed: Iterator[tuple[bytes, int]]) -> None:
        rows = self._rows(side, placed)
        while batch := list(islice(rows, _AT_ONCE)):
            with naming_folder():
                self._database.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", batch)

    def _rows(self, side: int, placed: Iterator[tuple[bytes, int]]) -> Iterator[tuple[bytes, int, int, int, bytes]]:
        for line, start in placed:
            identifier = id_of(parse_json(line))
            if identifier is not None:
                yield _key(identifier), side, start, len(line), hashlib.blake2b(line, digest_size=16).digest()
            else:
                self.unidentified += side == _NEW

    def gone(self, after: str | None, limit: int) -> dict[str, bytes]:
        """Return older records that the newer version lacks, by their ids and in the order of these."""
        with naming_folder():
            self._database.execute(_INDEX)
            found = self._database.execute(_GONE, (b"" if after is None else _key(after), limit)).fetchall()
            return {_id(key): self._spool.read(start, size) for key, start, size in found}

    def counts(self) -> Counter[str]:
        """Return how many records were added, removed and changed."""
        return Counter(each.change for each in self.changes())

    def changes(self) -> Iterator[Change]:
        """Yield all changes, by their ids in the order of their UTF-8."""
        with naming_folder():
            self._database.execute(_INDEX)
            for key, old_start, old_size, new_start, new_size in self._database.execute(_DIFFERENT):
                before = None if old_start is None else self._spool.read(old_start, old_size)
                after = None if new_start is None else self._read(new_start, new_size)
                if before is None or after is None:
                    yield Change("added" if before is None else "removed", _id(key), before, after)
                elif canonical(parse_json(before)) != canonical(parse_json(after)):
                    yield Change("changed", _id(key), before, after)

    def close(self) -> None:
        """Remove the temporary files."""
        self._database.close()
        self._spool.close()


@dataclass(frozen=True, slots=True)
class LookState:
    """How far the second look has come."""

    last: str | None = None  # the id up to which all are decided; None before the first
    against: str = ""  # the version with which the listing was compared
    recovered: int = 0  # records that the listing lacked and the service still had
    kept: int = 0  # older records that were kept, because it is not known that they are gone


@dataclass(frozen=True, slots=True)
class Looked:
    """A batch of subscriptions that the listing lacks: the records that stay, and how far the second look has come."""

    records: list[dict[str, Any]]
    state: LookState


class ExportChanges:
    """
    The changes of an export against the version that it replaces.

    They are against that version if an export with the same arguments has published it. Otherwise they are against
    nothing, so that every record is added: a record that another query has listed is not gone because this one lacks
    it, and to ask for its id does not tell whether this query should have listed it.

    Only :meth:`look` is free of blocking work. The constructor raises an ``InvalidArgumentError`` if the file at the
    destination is not an export of subscriptions, a ``DestinationReplacedError`` if somebody else has published since
    this attempt began, and an ``OSError`` if the older version cannot be read or the changes cannot be written.
    """

    def __init__(
        self, path: str, destination: str, staging: Staging, owner: Owner, warn: Callable[[str], None]
    ) -> None:
        self._destination = destination
        self._staging = staging
        self._warn = warn
        self._state = LookState(**(staging.state or {}).get(STATE, {}))
        if self._state.against != staging.replaced_version:
            # Somebody else has published since: another version may lack other records.
            self._state = replace(self._state, last=None, against=staging.replaced_version)
        replaced = staging.replaced
        #: Whether there is an older version to compare with.
        self.compared = replaced is not None and replaced.owner.parameters == owner.parameters
        if not self.compared and staging.replaced_version:
            self._check_replaced()
        check_writable(path_of(path))
        self._comparison = VersionComparison(staging.line)
        if self.compared:
            self._comparison.add_old(staging.replaced_records())

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

    def look(self, ask: Ask, listing: Listing) -> CallFlow[None]:
        """
        Look once more for the subscriptions that the listing lacks: pages are known to leave records out.

        The call flow emits a :class:`Looked` for each 50 of them, which has to be saved before the next. If the listing
        was cut short, nothing is requested, and all of them are kept.
        """
        if not self.compared:
            return
        yield Blocking(self._add_new)
        while gone := (yield Blocking(partial(self._comparison.gone, self._state.last, LARGEST_PAGE))):
            found, is_known = (yield from self._found(ask, listing.query, gone)) if listing.complete else ({}, False)
            kept = [] if is_known else [parse_json(old) for name, old in gone.items() if name not in found]
            self._state = LookState(
                next(reversed(gone)),
                self._state.against,
                self._state.recovered + len(found),
                self._state.kept + len(kept),
            )
            yield Emit(Looked([*found.values(), *kept], self._state))

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

    def _add_new(self) -> None:
        self._comparison.add_new(self._staging.lines(self._comparison.end))

    def save(self, looked: Looked, listing_state: Mapping[str, Any]) -> None:
        """Save a batch."""
        self._staging.commit(looked.records, {**listing_state, STATE: asdict(looked.state)})

    def finish(self) -> dict[str, Any]:
        """Have the changes published with the dataset; return what the summary says of them, but for their path."""
        self._add_new()
        counts, state = self._comparison.counts(), self._state
        if state.recovered:
            self._warn(
                f"The service's pages left out {state.recovered:,} subscriptions that it still has: they are exported."
            )
        if state.kept:
            self._warn(
                f"{state.kept:,} subscriptions of the older version were not listed, and are not known to be gone: "
                "they stay in the dataset as they were."
            )
        if self._comparison.unidentified:
            self._warn(f"{self._comparison.unidentified:,} records have no id, so the changes do not name them.")
        self._staging.changes = self._write
        return {
            "compared": self.compared,
            "added": counts["added"],
            "removed": counts["removed"],
            "changed_records": counts["changed"],
            "recovered": state.recovered,
            "kept": state.kept,
        }

    def _write(self, file: Path) -> None:
        with naming_folder(), file.open("wb") as opened:
            opened.writelines(change.line() for change in self._comparison.changes())
        self._comparison.close()

    def abort(self) -> None:
        """Remove the temporary files, because the attempt ends with an error."""
        self._comparison.close()


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


def _key(identifier: str) -> bytes:
    # Bytes are sorted as they are, and SQLite takes no text with a lone surrogate.
    return identifier.encode("utf-8", "surrogatepass")


def _id(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")
