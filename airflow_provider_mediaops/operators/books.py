"""The operator of the book database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_mediaops.task_failure import ending_task, is_templated, use_retry_policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Context, ObjectStoragePath


class EnrichIsbnsOperator(BaseOperator):
    """
    Look up a list of ISBNs, and write a dataset with one row an ISBN, in the order of the list.

    Each row has the ``input`` as it was, its ``isbn13``, a ``status`` (``found``, ``not_found``, ``invalid``,
    ``failed``), an ``error`` and the record: as it came under ``book`` in JSON lines, as columns in CSV and Parquet.
    The dataset appears whole when the list is done; until then an older one stays.

    The summary holds ``path``, ``rows``, how many of them have each status, and ``requests``.

    :param isbns: the ISBNs in any usual writing: a list, or what another task returns. Either this or ``source``.
    :param source: the path of a file on any object storage that holds them: ``.txt`` (one a line), ``.csv`` or
        ``.jsonl``, each also with ``.gz``.
    :param isbn_column: the column of ``.csv`` or field of ``.jsonl`` that holds them.
    :param destination: where the dataset goes, on any object storage; folders are made.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None goes by the suffix of the destination.
    :param on_invalid: what to do with a text that is no ISBN: ``record`` it in its row, or ``fail`` the task before
        any request is spent.
    :param max_failures: how many ISBNs may be ``failed``, because the service did not tell of them after all tries,
        before the task fails. A refused key or a spent quota fails it at once.
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
        on_invalid: Literal["record", "fail"] = "record",
        max_failures: int = 0,
        books_conn_id: str = "mediaops_books_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.destination = destination
        self.isbns = isbns
        self.source = source
        self.isbn_column = isbn_column
        self.format = format
        self.on_invalid = on_invalid
        self.max_failures = max_failures
        self.books_conn_id = books_conn_id
        if (isbns is None) == (source is None):
            raise ValueError("Give either isbns or source.")
        if on_invalid not in ("record", "fail"):
            raise ValueError(f"on_invalid is record or fail; not {on_invalid!r}.")
        if max_failures < 0:
            raise ValueError(f"max_failures is 0 or more; not {max_failures}.")
        # A path is no text, but what is templated in it shows in its text.
        if not is_templated(isbns, str(source)):
            self._check_input()
        if not is_templated(str(destination), format):
            from airflow_provider_mediaops.storage.formats import format_of

            format_of(destination, format)
        use_retry_policy(self)

    def execute(self, context: Context) -> dict[str, Any]:
        """Look up all ISBNs, publish the dataset, and return the summary."""
        from airflow_provider_mediaops.books.enrich import ENRICHED, Progress, enrich
        from airflow_provider_mediaops.hooks.books import BookDatabaseHook
        from airflow_provider_mediaops.storage.dataset import Dataset

        with ending_task():
            self._check_input()
            if self.on_invalid == "fail":
                self._check_isbns()
            dataset = Dataset(self.destination, view=ENRICHED, format=self.format)
            progress = Progress(None if self.isbns is None else len(self.isbns))
            with dataset.writing() as rows, BookDatabaseHook(self.books_conn_id) as hook:
                lookups = hook.books(self._texts(), max_failures=self.max_failures)
                for row in enrich(progress.following(lookups, self.log.info)):
                    rows.write([row])
        self.log.info("%s Written to %s.", progress.line(), self.destination)
        return {"path": str(self.destination), **progress.counts, "requests": progress.requests}

    def _check_input(self) -> None:
        if self.source is not None:
            from airflow_provider_mediaops.storage.sources import check_source

            check_source(self.source)
        elif isinstance(self.isbns, (str, bytes)) or not isinstance(self.isbns, Sequence):
            raise ValueError(
                f"isbns is a list of texts, not a {type(self.isbns).__name__}. Give it another task's output, or set "
                "render_template_as_native_obj on the Dag, so that a template gives a list."
            )

    def _check_isbns(self) -> None:
        from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise

        for number, text in enumerate(self._texts(), start=1):
            try:
                normalise(text)
            except InvalidIsbnError as error:
                raise ValueError(f"Row {number}: {error}") from None

    def _texts(self) -> Iterator[str]:
        if self.source is not None:
            from airflow_provider_mediaops.storage.sources import read_column

            return read_column(self.source, self.isbn_column)
        return ("" if isbn is None else str(isbn) for isbn in self.isbns or ())
