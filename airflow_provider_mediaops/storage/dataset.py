"""Datasets that appear whole or not at all."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_mediaops.storage.files import staged
from airflow_provider_mediaops.storage.formats import FlatView, Writer, format_of, open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Rows:
    """
    What is written of a dataset so far.

    :param writer: writes the records.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        #: How many records there are.
        self.count = 0
        #: The size of the file in bytes, once it is published.
        self.bytes = 0

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        """
        Append records.

        :param records: for example those of one page, as they came.
        """
        self._writer.write(records)
        self.count += len(records)


class Dataset:
    """
    Records in one file on any object storage, published in one step.

    :param destination: its path, for example ``s3://conn_id@bucket/key.parquet``; folders above it are made.
    :param view: the columns of CSV and Parquet; JSON lines hold the records as they came.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None goes by the suffix of the destination.
    :raises ValueError: where neither the suffix nor ``format`` names a format.
    """

    def __init__(self, destination: str | ObjectStoragePath, *, view: FlatView, format: str | None = None) -> None:
        self._format = format_of(destination, format)
        self._path = ObjectStoragePath(destination)
        self._view = view

    @contextmanager
    def writing(self) -> Iterator[Rows]:
        """
        Write the dataset, and publish it when the block ends; where the block raises, an older one stays.

        :returns: a context manager that gives the rows to write.
        :raises OSError: where the destination cannot be written; before the block begins.
        :raises PermanentError: for Parquet, where pyarrow is not installed; before the block begins.
        """
        with staged(self._path) as file:
            writer = open_writer(self._format, file, self._view)
            rows = Rows(writer)
            try:
                yield rows
            except BaseException:
                # The file is dropped; an error from closing it would hide the one that matters.
                with suppress(Exception):
                    writer.close()
                raise
            writer.close()
            rows.bytes = file.stat().st_size
