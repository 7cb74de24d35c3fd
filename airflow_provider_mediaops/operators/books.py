"""The operator of the book database."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import BaseOperator, conf

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.operators.owner import owner_of
from airflow_provider_mediaops.task_failure import ending_task, is_end_templated, is_templated, use_retry_policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Context, ObjectStoragePath

    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.formats import CsvFormulas
    from airflow_provider_mediaops.storage.ownership import Owner


class EnrichIsbnsOperator(BaseOperator):
    """
    Look up a list of ISBNs, and write a dataset with one row an ISBN, in the order of the list.

    Each row has the ``input`` as it was, its ``isbn13``, a ``status`` (``found``, ``not_found``, ``invalid``,
    ``failed``), an ``error`` and the record: as it came under ``book`` in JSON lines, as columns in CSV and Parquet.

    Every row that is done is saved beside the destination, and a retry of the task goes on from there, also after its
    worker or triggerer was killed. The dataset appears whole when the list is done; until then an older one stays. A
    retry of a task that has published its dataset returns the same summary. A task that is cleared by hand after it
    succeeded, or whose list is another one, starts anew.

    The summary holds ``path``, ``rows``, how many of them have each status, ``requests``, ``rows_per_second``,
    ``bytes``, and whether it ``resumed`` what an earlier attempt had saved.

    :param isbns: the ISBNs in any usual writing: a list, or what another task returns. Either this or ``source``.
    :param source: the path of a file on any object storage that holds them: ``.txt`` (one a line), ``.csv`` or
        ``.jsonl``, each also with ``.gz``, or ``.parquet``. A row of it that cannot be read counts as invalid.
    :param isbn_column: the column or field that holds them, in any format but ``.txt``.
    :param destination: where the dataset goes, on any object storage; folders are made.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None goes by the suffix of the destination.
    :param csv_formulas: what to do with a text that a spreadsheet would take for a formula when it opens the CSV,
        because it begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break: ``keep`` it as data, or ``escape`` it
        with ``'``.
    :param bulk: whether one request asks for many books, as many as the connection's plan allows, where the service
        can do that (``POST /books``). It saves time; each book counts against the daily quota all the same. A book that
        the reply leaves out is ``not_found``, with an ``error`` that says so.
    :param bulk_verify: with ``bulk``: whether books that a reply leaves out are asked for by themselves.
    :param on_invalid: what to do with a text that is no ISBN: ``record`` it in its row, or ``fail`` the task before
        any request is spent.
    :param max_failures: how many rows may be ``failed``, because the service did not tell of them after all tries,
        before the task fails. What is done stays saved, and a retry asks again for the row that was one too many; those
        that were within bounds stay as they are. A refused key or a spent quota ends the attempt at once.
    :param deferrable: whether the work is done in the triggerer, where it holds no worker slot, however long it takes;
        the default is that of ``[operators] default_deferrable``.
    :param books_conn_id: the connection's id.
    :raises ValueError: for arguments that cannot be used: here, unless they are templated.
    """

    template_fields: Sequence[str] = ("isbns", "source", "isbn_column", "destination", "format", "books_conn_id")

    def __init__(
        self,
        *,
        destination: str | ObjectStoragePath,
        isbns: Sequence[str | int | None] | None = None,
        source: str | ObjectStoragePath | None = None,
        isbn_column: str = "isbn",
        format: str | None = None,
        csv_formulas: CsvFormulas = "keep",
        bulk: bool = False,
        bulk_verify: bool = False,
        on_invalid: Literal["record", "fail"] = "record",
        max_failures: int = 0,
        deferrable: bool | None = None,
        books_conn_id: str = "mediaops_books_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.destination = destination
        self.isbns = isbns
        self.source = source
        self.isbn_column = isbn_column
        self.format = format
        self.csv_formulas = csv_formulas
        self.bulk = bulk
        self.bulk_verify = bulk_verify
        self.on_invalid = on_invalid
        self.max_failures = max_failures
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable
        self.books_conn_id = books_conn_id
        if (isbns is None) == (source is None):
            raise InvalidArgumentError("Give either isbns or source.")
        if on_invalid not in ("record", "fail"):
            raise InvalidArgumentError(f"on_invalid is record or fail; not {on_invalid!r}.")
        if max_failures < 0:
            raise InvalidArgumentError(f"max_failures is 0 or more; not {max_failures}.")
        if bulk_verify and not bulk:
            raise InvalidArgumentError("bulk_verify is about bulk requests: give bulk=True, too.")
        if not is_templated(isbns) and not is_end_templated(str(source).removesuffix(".gz")):
            self._check_input()
        self._check_format()
        use_retry_policy(self)

    def execute(self, context: Context) -> dict[str, Any]:
        """Look up all ISBNs, here or in the triggerer, publish the dataset, and return the summary."""
        from airflow_provider_mediaops.enrichment.checkpoint import ENRICHED
        from airflow_provider_mediaops.storage.dataset import Dataset

        with ending_task():
            self._check_input()
            isbns = None if self.isbns is None else list(self.isbns)
            version = self._version()
            owner = self._owner(context, isbns, version)
            dataset = Dataset(self.destination, view=ENRICHED, format=self.format, csv_formulas=self.csv_formulas)
            summary = dataset.published(owner)
            if summary is not None:
                self.log.info("The dataset was published by an earlier attempt: %s.", self.destination)
                return summary
            enrichment = replace(self._enrichment(owner, isbns), version=version)
            if self.deferrable and enrichment.total:
                self._defer(enrichment, dataset, isbns)
            with dataset.staging(owner) as staging:
                self._drop_list()
                line = self._enrich(enrichment, staging, isbns)
            self.log.info("%s", line)
            return staging.summary

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the summary of what was done in the triggerer, or raise the typed error that it met."""
        from airflow_provider_mediaops.triggers.event import value_of

        with ending_task():
            # Another attempt writes it again.
            self._drop_list()
            summary: dict[str, Any] = value_of(event)
            if unusable := summary.get("unusable"):
                raise OSError(*unusable)
            return summary

    def _version(self) -> str | None:
        from airflow_provider_mediaops.storage.sources import version_of

        return None if self.source is None else version_of(self.source)

    def _owner(self, context: Context, isbns: Sequence[Any] | None, version: str | None) -> Owner:
        listed = [str(self.source), version] if isbns is None else _digest_of(isbns)
        parameters = {
            "destination": str(self.destination),
            "format": self.format,
            "list": listed,
            "isbn_column": self.isbn_column,
            "books_conn_id": self.books_conn_id,
        }
        if self.csv_formulas != "keep":
            # Without it, the digest of the parameters stays as earlier versions have it.
            parameters["csv_formulas"] = self.csv_formulas
        return owner_of(context, parameters)

    def _enrichment(self, owner: Owner, isbns: Sequence[Any] | None) -> Enrichment:
        from airflow_provider_mediaops.enrichment.attempt import Enrichment, check_rows

        if self.on_invalid == "fail":
            total = check_rows(self._rows(isbns))
        elif isbns is None:
            from airflow_provider_mediaops.storage.sources import count_rows

            # What is wrong with the whole of the file is told now, not after days.
            total = count_rows(str(self.source), self.isbn_column)
        else:
            total = len(isbns)
        return Enrichment(
            owner=asdict(owner),
            destination=str(self.destination),
            total=total,
            source=None if self.source is None else str(self.source),
            column=self.isbn_column,
            format=self.format,
            csv_formulas=self.csv_formulas,
            bulk=self.bulk,
            bulk_verify=self.bulk_verify,
            max_failures=self.max_failures,
        )

    def _enrich(self, enrichment: Enrichment, staging: Staging, isbns: Sequence[Any] | None) -> str:
        from airflow_provider_mediaops.enrichment.attempt import Attempt
        from airflow_provider_mediaops.hooks.books import BookDatabaseHook

        attempt = Attempt(enrichment, staging, self.log.info, isbns)
        with BookDatabaseHook(self.books_conn_id) as hook:
            batch = hook.lookup_batch(attempt.rows(), attempt.options(), resume=attempt.resume, bulk=enrichment.bulk)
            try:
                with closing(batch) as updates:
                    for update in updates:
                        attempt.take_in(update)
            except BaseException:
                attempt.keep()
                raise
        return attempt.end()

    def _defer(self, enrichment: Enrichment, dataset: Dataset, isbns: Sequence[Any] | None) -> None:
        from airflow_provider_mediaops.enrichment.attempt import list_beside, write_list
        from airflow_provider_mediaops.storage.sources import version_of
        from airflow_provider_mediaops.triggers.enrichment import EnrichmentTrigger

        # That the destination can be written, and nobody else does, is known before anything is waited for.
        with suppress(_LetGoError), dataset.staging(enrichment.owned_by()):
            raise _LetGoError
        if isbns is not None:
            # A list may be long, and what a trigger is given stands in Airflow's database.
            path = list_beside(self.destination)
            write_list(path, isbns)
            enrichment = replace(enrichment, source=str(path), version=version_of(path), column="isbn")
        self.defer(
            trigger=EnrichmentTrigger(conn_id=self.books_conn_id, enrichment=enrichment.to_dict()),
            method_name="execute_complete",
            timeout=self.execution_timeout,
        )

    def _drop_list(self) -> None:
        from airflow_provider_mediaops.enrichment.attempt import list_beside

        list_beside(self.destination).unlink(missing_ok=True)

    def _check_format(self) -> None:
        from airflow_provider_mediaops.storage.formats import check_csv_formulas, format_of

        check_csv_formulas(self.csv_formulas)
        if not is_templated(self.format) and (self.format is not None or not is_end_templated(self.destination)):
            format_of(self.destination, self.format)

    def _check_input(self) -> None:
        if self.source is not None:
            from airflow_provider_mediaops.storage.sources import check_source

            check_source(self.source)
        elif isinstance(self.isbns, (str, bytes)) or not isinstance(self.isbns, Sequence):
            raise InvalidArgumentError(
                f"isbns is a list of texts, not a {type(self.isbns).__name__}. Give it another task's output, or set "
                "render_template_as_native_obj on the Dag, so that a template gives a list."
            )

    def _rows(self, isbns: Sequence[Any] | None) -> Iterator[IsbnRow]:
        from airflow_provider_mediaops.books.batch.rows import IsbnRow
        from airflow_provider_mediaops.enrichment.attempt import rows_of

        return rows_of(str(self.source), self.isbn_column) if isbns is None else map(IsbnRow.of, isbns)


class _LetGoError(Exception):
    """Leaves a dataset as it is, for the triggerer."""


def _digest_of(isbns: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for isbn in isbns:
        digest.update(json.dumps(None if isbn is None else str(isbn)).encode() + b"\n")
    return digest.hexdigest()
