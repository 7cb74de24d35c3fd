"""The operator of the book database."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_provider_mediaops.arguments import (
    ordered,
    path_text,
    read_flag,
    read_identifier,
    read_path,
    read_texts,
)
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.operators.base import DatasetOperator
from airflow_provider_mediaops.operators.links import DatasetLink
from airflow_provider_mediaops.task_failure import given_arguments, templated_arguments
from airflow_provider_mediaops.version_compat import conf

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath, XComArg

    from airflow_provider_mediaops.books.batch.runner import BatchUpdate
    from airflow_provider_mediaops.enrichment.attempt import Enrichment, EnrichmentAttempt
    from airflow_provider_mediaops.hooks.books import BookDatabaseHook
    from airflow_provider_mediaops.lineage import TaskLineage
    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.formats import CsvFormulas
    from airflow_provider_mediaops.storage.source_columns import ColumnType


# A list for the triggerer, in a file beside what is staged.
_KEPT_LIST = "isbns.jsonl"
# The options that may differ from attempt to attempt, because the dataset is the same.
_OF_AN_ATTEMPT = ("bulk", "on_invalid", "max_invalid", "max_failures", "max_requests")
_REUSE_FOR, _REUSE_NOT_FOUND_FOR = timedelta(days=90), timedelta(days=7)


class EnrichIsbnsOperator(DatasetOperator):
    """
    Look up a list of ISBNs, and write a dataset with one row per ISBN, in the order of the list.

    Each row has the ``input`` as it was, its ``isbn13``, a ``status`` (``found``, ``not_found``, ``missing``,
    ``invalid``, ``failed``, ``not_asked``), an ``error``, a ``note`` on how it was read, the time at which it was
    ``fetched_at``, whether it was ``reused`` and the record: as it came under ``book`` in JSON lines, as columns in CSV
    and Parquet.
    The other columns of the source follow: under ``source`` in JSON lines, as ``source_<name>`` in CSV and Parquet.

    Every row that is done is saved beside the destination. A retry of the task resumes from there, also after its
    worker or triggerer was killed. The dataset appears whole when the list is done; until then an older one stays. A
    retry of a task that has published its dataset returns the same summary. A task that is cleared by hand after it
    succeeded, or whose list is another one, starts anew.

    The summary holds ``path`` (absolute if it is local), ``rows``, the number of rows by status, ``reused``, ``stale``,
    ``refresh_failed``, ``requests``, ``rows_per_second``, ``bytes``, and whether it ``resumed`` an earlier attempt.

    :param isbns: the ISBNs in any usual writing: a list, a text with commas or lines, or the result of another task,
        such as the rows of a query. Either this or ``source``.
    :param source: the path of a file on any object storage that holds them: ``.txt`` (one a line), ``.csv``, ``.tsv``,
        ``.json``, ``.jsonl``, each also with ``.gz``, ``.parquet`` or ``.xlsx``; a list of paths; a folder; or a
        pattern. A row of it that cannot be read counts as invalid.
    :param isbn_column: the column or field that holds them, without regard to case and blanks; of a list of names the
        first that is filled in a row. None means the columns with a usual name, such as ``ISBN``, ``isbn_13``,
        ``ISBN/UID`` or ``020$a``.
    :param delimiter: the character between the cells of a line; None means that comma, semicolon, tab and pipe are
        recognised.
    :param encoding: the encoding of texts; None means that UTF-8 and UTF-16 are recognised, and other lines are read as
        cp1252, with a warning.
    :param several: of several books in a cell, whether the ``first`` is looked up, and the ``note`` names the others;
        or all, as ``rows`` of their own with the number of the ``input_row``.
    :param repair_zeros: whether a number of 8 or 9 characters is read with the zeros before it that a spreadsheet has
        taken away, if its check digit fits then. The ``note`` says so.
    :param keep_columns: which other columns of the source the dataset gets: True for all, False for none, or a list of
        names.
    :param destination: the path of the dataset, on any object storage: a text, a ``pathlib.Path`` or an
        ``ObjectStoragePath``; missing folders are created. It cannot be the source.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None means the suffix of the destination.
    :param csv_formulas: what to do with a text that a spreadsheet would take for a formula when it opens the CSV,
        because it begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break: ``keep`` it as data, or ``escape`` it
        with ``'``, also in ``input``.
    :param bulk: whether one request asks for many books, as many as the connection's plan allows, if the service can
        do that (``POST /books``). It saves time; each book counts against the daily quota all the same. A book that
        the reply leaves out is ``not_found``, with an ``error`` that says so, unless another one that it leaves out
        turns out to be there.
    :param on_invalid: what to do with a text that is not an ISBN: ``record`` it in its row, or ``fail`` the task before
        any request is spent. An empty cell is ``missing``, not invalid.
    :param max_invalid: how many rows may hold no ISBN before the task fails, without any request: a number, a share
        such as ``"5%"``, or ``"all"``; None for no bound. More than 5 % are a warning.
    :param max_failures: how many rows may be ``failed``, because the service did not answer after all retries, before
        the task fails: a number; a share of the list, such as ``"5%"`` or 0.05; or ``"all"``. Everything done stays
        saved, and a retry asks again for the row that was one too many; those within the bound stay as they are. A
        refused key, a spent quota, or a pause that the service asks for and that is longer than a call waits ends the
        attempt at once.
    :param reuse: earlier datasets of this operator: a path or several, one of them perhaps the destination itself. A
        lookup is taken from them while it is young enough. A dataset that does not exist yet holds nothing. If a
        lookup is too old and the new one fails, its row stays as it was; it counts against ``max_failures``.
    :param reuse_for: a lookup that found a book is young enough if it is younger than this: a ``timedelta``, or
        seconds; with 0, none is.
    :param reuse_not_found_for: a lookup that found no book is young enough if it is younger than this.
    :param max_requests: how many requests all attempts together may send; in a bulk request each book counts. Books
        that no earlier dataset holds come first, then those whose lookup is the oldest. The rest stays as it is in an
        earlier dataset, or is ``not_asked``.
    :param deferrable: whether to work in the triggerer, which holds no worker slot, however long it takes; the default
        is that of ``[operators] default_deferrable``.
    :param books_conn_id: the connection's id.
    :raises ValueError: for arguments that cannot be used: here, unless they are templated.
    """

    # The columns that the dataset takes from its source, with their types, once this attempt knows them.
    _columns: Mapping[str, ColumnType] | None = None
    # The list, if it is in no file.
    _listed: list[Any] | None = None
    conn_id_field = "books_conn_id"
    trigger_class = "airflow_provider_mediaops.triggers.books:EnrichmentTrigger"
    operator_extra_links = (DatasetLink(),)
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(
        ("isbns", "source", "isbn_column", "keep_columns", "reuse"), "json"
    )

    def __init__(
        self,
        *,
        destination: str | PurePath | ObjectStoragePath,
        isbns: Sequence[Any] | str | XComArg | None = None,
        source: str | PurePath | ObjectStoragePath | Sequence[str | PurePath | ObjectStoragePath] | None = None,
        isbn_column: str | Sequence[str] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        several: Literal["first", "rows"] = "first",
        repair_zeros: bool | str = False,
        keep_columns: bool | Sequence[str] = True,
        format: str | None = None,
        csv_formulas: CsvFormulas = "keep",
        bulk: bool | str = False,
        on_invalid: Literal["record", "fail"] = "record",
        max_invalid: float | str | None = None,
        max_failures: float | str = 0,
        reuse: str | PurePath | ObjectStoragePath | Sequence[str | PurePath | ObjectStoragePath] | None = None,
        reuse_for: timedelta | float | str = _REUSE_FOR,
        reuse_not_found_for: timedelta | float | str = _REUSE_NOT_FOUND_FOR,
        max_requests: int | str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        books_conn_id: str = "mediaops_books_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.destination = path_text(destination)
        self.isbns = isbns
        self.source = _path_texts(source)
        self.isbn_column = isbn_column
        self.delimiter = delimiter
        self.encoding = encoding
        self.several = several
        self.repair_zeros = repair_zeros
        self.keep_columns = keep_columns
        self.format = format
        self.csv_formulas = csv_formulas
        self.bulk = bulk
        self.on_invalid = on_invalid
        self.max_invalid = max_invalid
        self.max_failures = max_failures
        self.reuse = _path_texts(reuse)
        self.reuse_for = reuse_for
        self.reuse_not_found_for = reuse_not_found_for
        self.max_requests = max_requests
        self.deferrable = read_flag("deferrable", deferrable)
        self.books_conn_id = books_conn_id
        self._check_known()

    own_arguments = templated_arguments(__init__)
    template_fields: Sequence[str] = own_arguments

    def _check(self, given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
        if (given["isbns"] is None) == (given["source"] is None):
            raise InvalidArgumentError("Give either isbns or source.")
        _check_arguments(given, is_unknown)

    def _read_work(self, context: Context) -> Enrichment:
        enrichment, self._listed = _read_enrichment(given_arguments(self), context, self.log.warning)
        # The lineage of the task has the paths as they are.
        self.books_conn_id = read_identifier("books_conn_id", self.books_conn_id)
        self.destination = enrichment.destination
        self.source = None if enrichment.source is None else list(enrichment.source)
        self.reuse = list(enrichment.reuse) or None
        return enrichment

    def _surveyed(self, work: Enrichment) -> Enrichment:
        """Return the enrichment with the figures of the whole list; a fault in it is raised now, not after days."""
        from airflow_provider_mediaops.enrichment.reuse import check_dataset
        from airflow_provider_mediaops.enrichment.survey import survey

        for earlier in work.earlier():
            check_dataset(earlier)
        if work.source is not None:
            self.log.info("Reading %s.", work.named)
        enrichment = survey(work, self._listed, self.log.info, self.log.warning)
        self._columns = enrichment.columns
        return enrichment

    def _attempt(self, work: Enrichment, staging: Staging, **more: Any) -> Any:
        return super()._attempt(work, staging, isbns=self._listed, **more)

    def _items(self, hook: BookDatabaseHook, attempt: EnrichmentAttempt) -> Generator[BatchUpdate, None, None]:
        client = hook.service.client
        hook.run(attempt.start(client, hook.plan))
        yield from hook.lookup_batch(attempt.rows(), attempt.options(), resume=attempt.resume, bulk=attempt.bulk)

    def _before_deferral(self, work: Enrichment, dataset: Dataset) -> tuple[Enrichment, dict[str, Any]]:
        from airflow_provider_mediaops.enrichment.dataset_rows import list_lines
        from airflow_provider_mediaops.storage.source_list import find_files, version_of

        if self._listed is not None:
            # A list may be long, and the arguments of a trigger are in Airflow's database.
            path = dataset.keep(work.owned_by(), _KEPT_LIST, list_lines(self._listed))
            version = version_of(find_files([path]))
            work = replace(work, source=[path], version=version, isbn_column=["isbn"], keep_columns=False)
        return work, {"columns": dict(work.columns)}

    def execute_complete(
        self, context: Context, event: dict[str, Any] | None = None, columns: Mapping[str, ColumnType] | None = None
    ) -> dict[str, Any]:
        """Return the summary of the work that was done in the triggerer, or raise the typed error that it met."""
        self._columns = columns
        return super().execute_complete(context, event)

    def _lineage(self, outcome: Mapping[str, Any] | None) -> TaskLineage:
        from airflow_provider_mediaops.enrichment.arguments import read_source
        from airflow_provider_mediaops.lineage import enrichment_lineage

        source = () if self.source is None else read_source(self.source)
        lists: dict[str, Any] = {"source": source, "keep": self.keep_columns, "columns": self._columns}
        lists |= {"reuse": _read_reuse(self.reuse), "numbered": self.several == "rows"}
        return enrichment_lineage(self.books_conn_id, str(self.destination), self.format, **lists, summary=outcome)


def _read_enrichment(
    given: Mapping[str, Any], context: Context, warn: Callable[[str], None]
) -> tuple[Enrichment, list[Any] | None]:
    """
    Read the rendered arguments, before anything is requested.

    What needs all of the list to be read is still missing in the enrichment. The list is returned if it is in no file.
    """
    from airflow_provider_mediaops.enrichment.arguments import OPTIONS, read_source
    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.storage.ownership import owner_of
    from airflow_provider_mediaops.storage.paths import absolute
    from airflow_provider_mediaops.storage.source_list import check_destination, find_files, version_of

    values = _check_arguments(given, lambda *_: False)
    options = {name: values[name] for name in OPTIONS}
    destination = absolute(values["destination"], "destination", warn)
    reuse = [absolute(path, "reuse", warn) for path in dict.fromkeys(values["reuse"])]
    isbns, source, version = values.get("isbns"), None, None
    if given["source"] is not None:
        source = [absolute(path, "source", warn) for path in read_source(given["source"])]
        files = find_files(source)
        check_destination(files, destination)
        version = version_of(files)
    # What determines the content.
    parameters = {
        **{name: value for name, value in options.items() if name not in _OF_AN_ATTEMPT},
        "destination": destination,
        "format": given["format"],
        "list": [source, version] if isbns is None else isbns,
        "books_conn_id": values["books_conn_id"],
        "reuse": reuse,
    }
    enrichment = Enrichment(
        owner=asdict(owner_of(context, parameters)),
        destination=destination,
        source=source,
        version=version,
        reuse=reuse,
        format=given["format"],
        **options,
    )
    return enrichment, isbns


def _check_arguments(given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> dict[str, Any]:
    """Check the arguments that are known; return the values of those that were read, by name."""
    from airflow_provider_mediaops.enrichment.arguments import OPTIONS, read_isbns
    from airflow_provider_mediaops.storage.formats import format_of

    readers: dict[str, Callable[[str, Any], Any]] = {
        **OPTIONS,
        "books_conn_id": read_identifier,
        "destination": read_path,
        "reuse": lambda _, value: _read_reuse(value),
    }
    values = {name: read(name, given[name]) for name, read in readers.items() if not is_unknown(given[name])}
    if given["isbns"] is not None and not is_unknown(given["isbns"], given["isbn_column"]):
        values["isbns"] = read_isbns(given["isbns"], values["isbn_column"])
    destination, format = given["destination"], given["format"]
    if not is_unknown(format) and (format is not None or not is_unknown(destination)):
        format_of(destination, format)
    if given["source"] is not None:
        _check_source(given["source"], destination, is_unknown)
    if given["reuse"] is not None and not is_unknown(given["reuse"], destination, format):
        from airflow_provider_mediaops.enrichment.reuse import earlier_dataset

        for path in values["reuse"]:
            earlier_dataset(path, destination, format)
    return values


def _check_source(source: Any, destination: object, is_unknown: Callable[..., bool]) -> None:
    from airflow_provider_mediaops.enrichment.arguments import read_source
    from airflow_provider_mediaops.storage.paths import is_same_file

    paths = source if isinstance(source, (list, tuple)) else [source]
    known = [path for path in paths if not is_unknown(path)]
    if known or not paths:
        read_source(known)
    if is_unknown(source, destination):
        return
    for path in read_source(source):
        if is_same_file(path, destination):
            raise InvalidArgumentError(
                f"source and destination are the same file, {str(destination)!r}: the dataset would replace the "
                "list. Choose another destination."
            )


def _read_reuse(value: object) -> tuple[str, ...]:
    """Read the argument ``reuse``: a path, a list of paths, or a text with commas."""
    entries = () if value is None else read_texts("reuse", _path_texts(value))
    return tuple(read_path("an entry of reuse", each) for each in entries)


def _path_texts(value: Any) -> Any:
    """Return the texts of paths, of one or of several; anything else stays as it is."""
    value = ordered(value)
    return [path_text(path) for path in value] if isinstance(value, (list, tuple)) else path_text(value)
