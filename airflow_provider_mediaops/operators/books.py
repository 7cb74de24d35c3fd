"""The operator of the book database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_mediaops.arguments import (
    path_text,
    read_identifier,
    read_path,
    read_text,
    read_texts,
)
from airflow_provider_mediaops.exceptions import InvalidArgumentError, StorageError
from airflow_provider_mediaops.operators.dataset_owner import digest_of, owner_of
from airflow_provider_mediaops.operators.lineage_task import LineageTask
from airflow_provider_mediaops.operators.links import DatasetLink
from airflow_provider_mediaops.task_failure import ending_task, is_end_templated, is_templated, use_retry_policy
from airflow_provider_mediaops.task_stop import StoppableTask
from airflow_provider_mediaops.triggers.deferral import deferral_timeout, ending_at_execution_timeout, read_deferrable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import PurePath

    from airflow.sdk import Context, ObjectStoragePath, XComArg

    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.enrichment.options import EnrichmentOptions
    from airflow_provider_mediaops.lineage.task_lineage import TaskLineage
    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.formats import CsvFormulas
    from airflow_provider_mediaops.storage.ownership import Owner
    from airflow_provider_mediaops.storage.source_columns import ColumnType


class EnrichIsbnsOperator(LineageTask, StoppableTask, BaseOperator):
    """
    Look up a list of ISBNs, and write a dataset with one row per ISBN, in the order of the list.

    Each row has the ``input`` as it was, its ``isbn13``, a ``status`` (``found``, ``not_found``, ``invalid``,
    ``failed``), an ``error`` and the record: as it came under ``book`` in JSON lines, as columns in CSV and Parquet.
    The other columns of the source follow: under ``source`` in JSON lines, as ``source_<name>`` in CSV and Parquet.

    Every row that is done is saved beside the destination. A retry of the task resumes from there, also after its
    worker or triggerer was killed. The dataset appears whole when the list is done; until then an older one stays. A
    retry of a task that has published its dataset returns the same summary. A task that is cleared by hand after it
    succeeded, or whose list is another one, starts anew.

    The summary holds ``path`` (absolute if it is local), ``rows``, the number of rows by status, ``requests``,
    ``rows_per_second``, ``bytes``, and whether it ``resumed`` what an earlier attempt had saved.

    :param isbns: the ISBNs in any usual writing: a list, a text with commas, or the result of another task. Either this
        or ``source``.
    :param source: the path of a file on any object storage that holds them: ``.txt`` (one a line), ``.csv`` or
        ``.jsonl``, each also with ``.gz``, or ``.parquet``. A row of it that cannot be read counts as invalid.
    :param isbn_column: the column or field that holds them, in any format but ``.txt``.
    :param keep_columns: which other columns of the source the dataset gets: True for all, False for none, or a list of
        names.
    :param destination: the path of the dataset, on any object storage: a text, a ``pathlib.Path`` or an
        ``ObjectStoragePath``; missing folders are created. It cannot be the source.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None means the suffix of the destination.
    :param csv_formulas: what to do with a text that a spreadsheet would take for a formula when it opens the CSV,
        because it begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break: ``keep`` it as data, or ``escape`` it
        with ``'``.
    :param bulk: whether one request asks for many books, as many as the connection's plan allows, if the service can
        do that (``POST /books``). It saves time; each book counts against the daily quota all the same. A book that
        the reply leaves out is ``not_found``, with an ``error`` that says so, unless another one that it leaves out
        turns out to be there.
    :param bulk_verify: with ``bulk``: whether all books that a reply leaves out are asked for by themselves.
    :param on_invalid: what to do with a text that is no ISBN: ``record`` it in its row, or ``fail`` the task before
        any request is spent.
    :param max_failures: how many rows may be ``failed``, because the service did not answer after all tries, before the
        task fails: a number; a share of the list, such as ``"5%"`` or 0.05; or ``"all"``. Everything done stays saved,
        and a retry asks again for the row that was one too many; those within the bound stay as they are. A refused key
        or a spent quota ends the attempt at once.
    :param deferrable: whether to work in the triggerer, which holds no worker slot, however long it takes; the default
        is that of ``[operators] default_deferrable``.
    :param multiple_outputs: whether each value of the summary is an XCom of its own, too, under its name: then
        ``task.output["path"]`` is that value in another task. An argument of Airflow's.
    :param books_conn_id: the connection's id.
    :raises ValueError: for arguments that cannot be used: here, unless they are templated.
    """

    operator_extra_links = (DatasetLink(),)
    template_fields: Sequence[str] = (
        "isbns",
        "source",
        "isbn_column",
        "keep_columns",
        "destination",
        "format",
        "csv_formulas",
        "bulk",
        "bulk_verify",
        "on_invalid",
        "max_failures",
        "books_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(("isbns", "keep_columns"), "json")

    def __init__(
        self,
        *,
        destination: str | PurePath | ObjectStoragePath,
        isbns: Sequence[str | int | None] | str | XComArg | None = None,
        source: str | PurePath | ObjectStoragePath | None = None,
        isbn_column: str = "isbn",
        keep_columns: bool | Sequence[str] = True,
        format: str | None = None,
        csv_formulas: CsvFormulas = "keep",
        bulk: bool | str = False,
        bulk_verify: bool | str = False,
        on_invalid: Literal["record", "fail"] = "record",
        max_failures: float | str = 0,
        deferrable: bool | None = None,
        multiple_outputs: bool = True,
        books_conn_id: str = "mediaops_books_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.destination = path_text(destination)
        self.isbns = isbns
        self.source = path_text(source)
        self.isbn_column = isbn_column
        self.keep_columns = keep_columns
        self.format = format
        self.csv_formulas = csv_formulas
        self.bulk = bulk
        self.bulk_verify = bulk_verify
        self.on_invalid = on_invalid
        self.max_failures = max_failures
        self.deferrable = read_deferrable(deferrable)
        self.books_conn_id = books_conn_id
        if (isbns is None) == (source is None):
            raise InvalidArgumentError("Give either isbns or source.")
        self._check_known()
        use_retry_policy(self)

    def _check_known(self) -> None:
        """Check the arguments that are not templated."""
        if not is_templated(self.books_conn_id):
            read_identifier("books_conn_id", self.books_conn_id)
        if not is_templated(self.destination):
            read_path("destination", self.destination)
        self._check_known_options()
        if not is_templated(self.isbn_column):
            self._read_column()
        if self.source is None:
            if not is_templated(self.isbns):
                self._read_isbns()
        else:
            self._check_known_source()
        if not is_templated(self.format) and (self.format is not None or not is_end_templated(self.destination)):
            self._check_format()
        if not is_templated(self.source, self.destination):
            self._check_destination()

    def _check_known_options(self) -> None:
        from airflow_provider_mediaops.enrichment.options import STAND_INS, EnrichmentOptions

        values = {name: getattr(self, name) for name in STAND_INS}
        known = {name: value for name, value in values.items() if not is_templated(value)}
        EnrichmentOptions.read({**STAND_INS, **known})

    def _check_known_source(self) -> None:
        source = self.source
        if not is_templated(source):
            source = read_path("source", source)
        if not is_end_templated(source.removesuffix(".gz") if isinstance(source, str) else source):
            self._check_source(keep=None if is_templated(self.keep_columns) else self.keep_columns)

    def execute(self, context: Context) -> dict[str, Any]:
        """Look up all ISBNs, here or in the triggerer, publish the dataset, and return the summary."""
        from airflow_provider_mediaops.enrichment.options import STAND_INS, EnrichmentOptions

        started = time.monotonic()
        with ending_task():
            options = EnrichmentOptions.read({name: getattr(self, name) for name in STAND_INS})
            isbns = self._checked_isbns(options)
            version = self._version()
            owner = self._owner(context, isbns, version, options)
            enrichment = self._enrichment(owner, version, options)
            summary = enrichment.dataset().published(owner)
            if summary is not None:
                self.log.info("The dataset was published by an earlier attempt: %s.", self.destination)
                self._note_in_events(context, summary)
                return summary
            enrichment = self._counted(enrichment, isbns, options)
            self._columns = enrichment.columns
            dataset = enrichment.dataset()
            if self.deferrable and enrichment.total:
                self._defer(enrichment, dataset, isbns, started)
            with dataset.staging(owner) as staging:
                self._drop_list()
                line = self._enrich(enrichment, staging, isbns)
            self.log.info("%s", line)
        self._note_in_events(context, staging.summary)
        return staging.summary

    def execute_complete(
        self, context: Context, event: dict[str, Any] | None = None, columns: Mapping[str, ColumnType] | None = None
    ) -> dict[str, Any]:
        """Return the summary of the work that was done in the triggerer, or raise the typed error that it met."""
        from airflow_provider_mediaops.triggers.event import value_of

        with ending_task():
            # Another attempt writes it again.
            self._drop_list()
            summary: dict[str, Any] = value_of(event)
            if unusable := summary.get("unusable"):
                # An event of version 0.1.
                raise StorageError(str(unusable[-1]))
        self._columns = columns
        self._note_in_events(context, summary)
        return summary

    def _lineage(self, outcome: Mapping[str, Any] | None) -> TaskLineage:
        from airflow_provider_mediaops.lineage.task_lineage import enrichment_lineage

        lists: dict[str, Any] = {"source": self.source, "keep": self.keep_columns, "columns": self._columns}
        return enrichment_lineage(self.books_conn_id, str(self.destination), self.format, **lists, summary=outcome)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume after the triggerer, and end at ``execution_timeout`` as in a worker."""
        with ending_at_execution_timeout(self):
            return super().resume_execution(next_method, next_kwargs, context)

    def _checked_isbns(self, options: EnrichmentOptions) -> list[Any] | None:
        """Check the rendered paths; return the list, or None if it is in a file."""
        self.books_conn_id = read_identifier("books_conn_id", self.books_conn_id)
        self.destination = self._read_path("destination")
        self._check_format()
        # A template with native objects makes a number of a text of digits.
        self.isbn_column = self._read_column()
        if self.source is None:
            return self._read_isbns()
        self.source = read_path("source", self.source)
        self._check_source(options.keep_columns)
        self.source = self._read_path("source")
        self._check_destination()
        return None

    def _check_format(self) -> None:
        from airflow_provider_mediaops.storage.formats import format_of

        format_of(self.destination, self.format)

    def _check_source(self, keep: object) -> None:
        from airflow_provider_mediaops.storage.sources import has_columns

        if not has_columns(str(self.source)) and keep not in (None, True, False):
            raise InvalidArgumentError(f"keep_columns is {keep!r}, but {str(self.source)!r} has one text a line.")

    def _check_destination(self) -> None:
        from airflow_provider_mediaops.storage.path_checks import is_same_file

        if self.source is not None and is_same_file(self.source, self.destination):
            raise InvalidArgumentError(
                f"source and destination are the same file, {str(self.destination)!r}: the dataset would replace the "
                "list. Choose another destination."
            )

    def _read_path(self, name: str) -> str:
        from airflow_provider_mediaops.storage.path_checks import absolute

        return absolute(read_path(name, getattr(self, name)), name, self.log.warning)

    def _read_column(self) -> str:
        column = read_text("isbn_column", self.isbn_column)
        if not column:
            raise InvalidArgumentError("isbn_column is empty: give the name of the column or field, or leave it out.")
        return column

    def _read_isbns(self) -> list[Any]:
        if isinstance(self.isbns, str):
            return list(read_texts("isbns", self.isbns))
        if isinstance(self.isbns, bytes) or not isinstance(self.isbns, Sequence):
            raise InvalidArgumentError(
                f"isbns is a list of texts, or one text with commas, not a {type(self.isbns).__name__}."
            )
        return list(self.isbns)

    def _version(self) -> str | None:
        from airflow_provider_mediaops.storage.sources import version_of

        return None if self.source is None else version_of(self.source)

    def _owner(
        self, context: Context, isbns: Sequence[Any] | None, version: str | None, options: EnrichmentOptions
    ) -> Owner:
        listed = [str(self.source), version] if isbns is None else digest_of(isbns)
        parameters: dict[str, Any] = {
            "destination": str(self.destination),
            "format": self.format,
            "list": listed,
            "isbn_column": self.isbn_column,
            "books_conn_id": self.books_conn_id,
        }
        # With the defaults, the digest of the parameters stays as version 0.1 has it.
        if options.csv_formulas != "keep":
            parameters["csv_formulas"] = options.csv_formulas
        if isbns is None and options.keep_columns is not True:
            parameters["keep_columns"] = options.keep_columns
        return owner_of(context, parameters)

    def _enrichment(self, owner: Owner, version: str | None, options: EnrichmentOptions) -> Enrichment:
        """Return the enrichment; what needs all of the source to be read is still missing (:meth:`_counted`)."""
        from airflow_provider_mediaops.enrichment.attempt import Enrichment
        from airflow_provider_mediaops.storage.sources import has_columns

        return Enrichment(
            owner=asdict(owner),
            destination=str(self.destination),
            total=0,
            source=None if self.source is None else str(self.source),
            version=version,
            column=self.isbn_column,
            keep=self.source is not None and has_columns(self.source) and options.keep_columns,
            format=self.format,
            csv_formulas=options.csv_formulas,
            bulk=options.bulk,
            bulk_verify=options.bulk_verify,
        )

    def _counted(self, enrichment: Enrichment, isbns: Sequence[Any] | None, options: EnrichmentOptions) -> Enrichment:
        """Return the enrichment with the figures of the whole source; a fault in it is raised now, not after days."""
        from airflow_provider_mediaops.enrichment.attempt import check_rows
        from airflow_provider_mediaops.enrichment.max_failures import allowed_failures
        from airflow_provider_mediaops.storage.formats import format_of
        from airflow_provider_mediaops.storage.sources import columns_of, count_rows

        if isbns is None:
            self.log.info("Reading %s.", self.source)
        if options.on_invalid == "fail":
            total = check_rows(self._rows(isbns))
        else:
            total = count_rows(str(self.source), self.isbn_column) if isbns is None else len(isbns)
        columns: dict[str, ColumnType] = {}
        if enrichment.keep and (enrichment.keep is not True or format_of(self.destination, self.format) != "jsonl"):
            columns = columns_of(str(self.source), self.isbn_column, enrichment.keep)
        bound = allowed_failures(options.max_failures, total)
        return replace(enrichment, total=total, columns=columns, max_failures=bound)

    def _enrich(self, enrichment: Enrichment, staging: Staging, isbns: Sequence[Any] | None) -> str:
        from airflow_provider_mediaops.enrichment.attempt import Attempt
        from airflow_provider_mediaops.hooks.books import BookDatabaseHook

        attempt = Attempt(enrichment, staging, self.log.info, self.log.warning, isbns=isbns)
        with BookDatabaseHook(self.books_conn_id).stopped_by(self.stop) as hook:
            batch = hook.lookup_batch(attempt.rows(), attempt.options(), resume=attempt.resume, bulk=enrichment.bulk)
            try:
                client = hook.service.client
                hook.run(attempt.start(client, hook.plan))
                with closing(batch) as updates:
                    for update in updates:
                        attempt.commit(update)
            except BaseException:
                attempt.abort()
                raise
        return attempt.finish()

    def _defer(self, enrichment: Enrichment, dataset: Dataset, isbns: Sequence[Any] | None, started: float) -> None:
        from airflow_provider_mediaops.enrichment.attempt import list_beside, write_list
        from airflow_provider_mediaops.storage.path_checks import warn_if_deferred_to_local
        from airflow_provider_mediaops.storage.sources import version_of
        from airflow_provider_mediaops.triggers.books import EnrichmentTrigger

        warn_if_deferred_to_local(self.destination, self.log.warning)
        # Whether the destination can be written, and nobody else writes it, is known before the deferral.
        dataset.check(enrichment.owned_by())
        if isbns is not None:
            # A list may be long, and the arguments of a trigger are in Airflow's database.
            path = list_beside(self.destination)
            write_list(path, isbns)
            enrichment = replace(enrichment, source=str(path), version=version_of(path), column="isbn")
        self.defer(
            trigger=EnrichmentTrigger(conn_id=self.books_conn_id, enrichment=enrichment.to_dict()),
            method_name="execute_complete",
            kwargs={"columns": dict(enrichment.columns)},
            timeout=deferral_timeout(self, started),
        )

    def _drop_list(self) -> None:
        from airflow_provider_mediaops.enrichment.attempt import list_beside

        list_beside(self.destination).unlink(missing_ok=True)

    def _rows(self, isbns: Sequence[Any] | None) -> Iterator[IsbnRow]:
        from airflow_provider_mediaops.books.batch.rows import IsbnRow
        from airflow_provider_mediaops.enrichment.attempt import rows_of

        return rows_of(str(self.source), self.isbn_column) if isbns is None else map(IsbnRow.of, isbns)
