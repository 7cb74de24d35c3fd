"""Read the datasets of this package again, and tell one version of a file from another."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.files import content_tag, path_of, translating_errors
from airflow_provider_mediaops.storage.path_checks import check_regular, check_store
from airflow_provider_mediaops.storage.source_csv import read_csv, read_text_lines
from airflow_provider_mediaops.storage.source_file import (
    DATASET,
    InvalidSourceError,
    ReadOptions,
    SourceFile,
    SourceRow,
)
from airflow_provider_mediaops.storage.source_json import read_json
from airflow_provider_mediaops.storage.source_lines import SourceLines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.formats import Format
    from airflow_provider_mediaops.storage.source_columns import Keep

# The column of a table that has the whole record as JSON.
_RECORD = "record"


def rows_of(file: SourceFile) -> Iterator[SourceRow]:
    """
    Read the rows of a file lazily. What is recognised is noted in it before the first of them.

    Raise an OSError that names the file if it cannot be read; InvalidSourceError, which says what it is instead, if it
    is not such a file or lacks a column; PermanentError if pyarrow or openpyxl is not installed.
    """
    # pyarrow and openpyxl are imported only for their own formats.
    if file.format == "parquet":
        from airflow_provider_mediaops.storage.source_parquet import read_parquet

        return read_parquet(file)
    if file.format == "xlsx":
        from airflow_provider_mediaops.storage.source_excel import read_excel

        return read_excel(file)
    read = {"csv": read_csv, "txt": read_text_lines}.get(file.format)
    return read(SourceLines(file)) if read else read_json(SourceLines(file, cut=b"},"))


def read_rows(path: ObjectStoragePath, column: str, format: Format, *, keep: Keep = False) -> Iterator[SourceRow]:
    """
    Read a column of a dataset lazily, whatever its suffix; it is not compressed.

    Raise InvalidSourceError if a row cannot be read, or if it is not a regular file.
    """
    check_store(path, DATASET.name)
    # To open a named pipe would wait for whoever writes to it.
    check_regular(path, DATASET.name)
    for row in rows_of(SourceFile(str(path), format, DATASET, ReadOptions([column], ",", keep=keep))):
        if row.error:
            raise InvalidSourceError(f"{DATASET.of(path)}: {row.error}")
        yield row


def read_records(path: ObjectStoragePath, format: Format) -> Iterator[str]:
    """Read the records of a dataset lazily. CSV and Parquet have each in the column ``record``."""
    if format != "jsonl":
        yield from (row.text for row in read_rows(path, _RECORD, format))
        return
    check_regular(path, DATASET.name)
    lines = SourceLines(SourceFile(str(path), format, DATASET, ReadOptions()))
    yield from (line.rstrip("\n") for line in lines if line.strip())


def file_info(file: str | ObjectStoragePath, role: str) -> dict[str, Any]:
    """
    Return the properties of a file as the client of its store has them. The role is what it is to the user.

    Raise an OSError that names it if it cannot be reached, InvalidSourceError for a folder, a named pipe, a socket or a
    device.
    """
    path = path_of(file)
    check_store(path, role)
    check_regular(path, role)
    with translating_errors(f"{role} {path}", "read"):
        # A triggerer runs for long, and clients of stores cache listings.
        path.fs.invalidate_cache()
        info: dict[str, Any] = path.fs.info(path.path)
    return info


def version_in(info: Mapping[str, Any]) -> str:
    """Return a digest that changes when the file does."""
    marks = [str(info.get("size")), content_tag(info)]
    return hashlib.sha256(json.dumps(marks).encode()).hexdigest()
