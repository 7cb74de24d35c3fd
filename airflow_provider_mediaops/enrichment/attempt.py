"""One attempt at an enrichment, as a worker and a triggerer make it: rows in, commits out."""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import DestinationInUseError, InvalidArgumentError
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.files import beside, is_local, path_of, write_whole
from airflow_provider_mediaops.storage.formats import json_lines
from airflow_provider_mediaops.storage.ownership import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.books.batch.runner import BatchUpdate
    from airflow_provider_mediaops.books.batch.scheduler import BatchOptions
    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.formats import CsvFormulas

# On an object store a commit is an object of its own, so that there are not more of them than one a second.
_STORE_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Enrichment:
    """
    What is to be enriched, in plain values that may travel from a task to a triggerer.

    :param owner: the task instance that writes the dataset, and its parameters: the fields of ``Owner``.
    :param destination: the path of the dataset.
    :param total: how many rows the list has.
    :param source: the path of the list; None where it is given as such.
    :param version: that of the source when the task began; None where it does not matter.
    :param column: the column of the source that holds the ISBNs.
    :param format: the format of the dataset; None goes by the suffix.
    :param csv_formulas: what becomes of formulas in CSV: ``keep`` or ``escape``.
    :param bulk: whether one request asks for many books.
    :param bulk_verify: whether those that its reply leaves out are asked for by themselves.
    :param max_failures: how many rows may be ``failed``.
    """

    owner: dict[str, Any]
    destination: str
    total: int
    source: str | None = None
    version: str | None = None
    column: str = "isbn"
    format: str | None = None
    csv_formulas: CsvFormulas = "keep"
    bulk: bool = False
    bulk_verify: bool = False
    max_failures: int = 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Enrichment:
        """
        Give the enrichment that :meth:`to_dict` described.

        :param values: its fields, perhaps of another version of this package.
        :raises TypeError: where one is missing.
        """
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})

    def to_dict(self) -> dict[str, Any]:
        """Give the enrichment as plain values."""
        return asdict(self)

    def dataset(self) -> Dataset:
        """Give the dataset that is written."""
        from airflow_provider_mediaops.enrichment.checkpoint import ENRICHED
        from airflow_provider_mediaops.storage.dataset import Dataset

        return Dataset(self.destination, view=ENRICHED, format=self.format, csv_formulas=self.csv_formulas)

    def owned_by(self) -> Owner:
        """Give the owner of the dataset."""
        return Owner(**self.owner)


class Attempt:
    """
    One attempt at an enrichment, which goes on from where the last one stopped. All of it may block.

    :param enrichment: what is to be enriched.
    :param staging: where it is committed to.
    :param tell: takes a line for people.
    :param isbns: the list, where it is in no file.
    :param clock: seconds that never run backwards.
    :raises OSError: where the source cannot be read, or has changed since the task began.
    """

    def __init__(
        self,
        enrichment: Enrichment,
        staging: Staging,
        tell: Callable[[str], None],
        isbns: Sequence[Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from airflow_provider_mediaops.enrichment.checkpoint import Ledger, resume_point

        _check_version(enrichment)
        self._enrichment = enrichment
        self._staging = staging
        self._tell = tell
        self._isbns = isbns
        self._clock = clock
        self._ledger = Ledger(staging.state, total=enrichment.total, clock=clock)
        self._every = 0.0 if is_local(path_of(enrichment.destination)) else _STORE_EVERY
        self._committed = clock()
        self._changed = False
        #: The state from which the batch goes on.
        self.resume = resume_point(staging.records(), staging.state)
        if staging.resumed:
            tell(f"Going on after {staging.rows:,} of {enrichment.total:,} ISBNs.")

    def options(self) -> BatchOptions:
        """Return how the list is looked up."""
        from airflow_provider_mediaops.books.batch.scheduler import BatchOptions

        # Those that failed in earlier attempts are in the dataset.
        left = self._enrichment.max_failures - self._ledger.progress.counts["failed"]
        return BatchOptions(bulk_verify=self._enrichment.bulk_verify, max_failures=left)

    def rows(self) -> Iterator[IsbnRow]:
        """
        Give the rows that are left.

        :returns: the rows, read as they are asked for.
        :raises OSError: where the source cannot be read; the message names it.
        :raises InvalidSourceError: where it is no list, or not to its end.
        """
        from airflow_provider_mediaops.books.batch.rows import IsbnRow

        if self._isbns is not None:
            return map(IsbnRow.of, islice(self._isbns, self._staging.rows, None))
        return rows_of(str(self._enrichment.source), self._enrichment.column, skip=self._staging.rows)

    def take_in(self, update: BatchUpdate) -> None:
        """
        Commit the progress of the batch, and log it every 30 seconds.

        :param update: the progress since the last update.
        :raises OSError: where it cannot be committed.
        """
        self._ledger.take_in(update)
        self._changed = self._changed or update.changed
        if self._changed and self._clock() - self._committed >= self._every:
            self._commit()
        if self._ledger.progress.is_due():
            self._tell(self._ledger.progress.line())

    def keep(self) -> None:
        """Commit what is not committed yet, because the attempt ends with an error, and say so."""
        # The error may be that nothing can be written, or that another task does.
        with suppress(OSError, DestinationInUseError):
            self._commit_rest()
        self._tell(f"Kept {self._staging.rows:,} of {self._enrichment.total:,} ISBNs for the next attempt.")

    def end(self) -> str:
        """
        Commit the rest, and say what the task is to return.

        :returns: a line for people.
        """
        self._commit_rest()
        self._staging.summary = {**self._ledger.summary(), "resumed": self._staging.resumed}
        return f"{self._ledger.progress.line()} Written to {self._enrichment.destination}."

    def _commit_rest(self) -> None:
        if self._changed:
            self._commit()

    def _commit(self) -> None:
        self._staging.commit(self._ledger.rows, self._ledger.state())
        self._ledger.committed()
        self._committed = self._clock()
        self._changed = False


def _check_version(enrichment: Enrichment) -> None:
    """Make sure that what is left of the source is the rest of what was read of it before."""
    from airflow_provider_mediaops.storage.sources import version_of

    if enrichment.version and version_of(str(enrichment.source)) != enrichment.version:
        what = f"source {enrichment.source} has changed since the task began; its next attempt starts anew"
        raise OSError(errno.ESTALE, what)


def rows_of(source: str, column: str, *, skip: int = 0) -> Iterator[IsbnRow]:
    """
    Read the rows of a source.

    :param source: its path.
    :param column: the column that holds the ISBNs.
    :param skip: how many rows to leave out at the start.
    :returns: the rows, read as they are asked for.
    """
    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.storage.sources import read_rows

    return (IsbnRow.of(row.text, row.error) for row in read_rows(source, column, skip=skip))


def check_rows(rows: Iterable[IsbnRow]) -> int:
    """
    Make sure that every row holds an ISBN.

    :param rows: the rows.
    :returns: how many there are.
    :raises ValueError: for the first row that holds none.
    """
    number = 0
    for number, row in enumerate(rows, start=1):
        if row.error:
            raise InvalidArgumentError(f"Row {number}: {row.error}")
    return number


def list_beside(destination: str | ObjectStoragePath) -> ObjectStoragePath:
    """
    Name the file that holds a list for the triggerer.

    There is one a destination, so that what a task that never came back has left goes with the next one's. Whose list
    it is, its version tells.

    :param destination: the dataset, beside which it stands.
    :returns: its path.
    """
    path = path_of(destination)
    return path.parent / beside(path.name, "isbns.jsonl")


def write_list(path: ObjectStoragePath, isbns: Iterable[Any]) -> None:
    """
    Write a list to a file that :func:`rows_of` reads, with ``isbn`` as its column.

    :param path: the file.
    :param isbns: the texts as they were given.
    :raises OSError: where it cannot be written; the message names it.
    """
    write_whole(path, json_lines({"isbn": text_of(isbn)} for isbn in isbns))
