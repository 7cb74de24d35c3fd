"""The file beside a dataset that holds the list of a deferred enrichment for the triggerer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.files import beside, is_local, lasting, parts_of, path_of, write_whole
from airflow_provider_mediaops.storage.formats import json_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow.sdk import ObjectStoragePath


def list_beside(destination: str | ObjectStoragePath) -> ObjectStoragePath:
    """
    Return the path of the file that holds a list for the triggerer.

    There is one per destination, so the next task that writes it removes the file of a task that never came back. Its
    version says whose list it is.
    """
    path = path_of(destination)
    return path.parent / beside(path.name, "isbns.jsonl")


def drop_list(destination: str | ObjectStoragePath) -> None:
    """Remove the file that holds a list for the triggerer, and what is left of those whose writers died."""
    path = list_beside(destination)
    path.unlink(missing_ok=True)
    if is_local(path) and path.parent.is_dir():
        for part in parts_of(Path(lasting(path))):
            part.unlink(missing_ok=True)


def write_list(path: ObjectStoragePath, isbns: Iterable[Any]) -> None:
    """Write a list to a file, with ``isbn`` as its column."""
    write_whole(path, json_lines({"isbn": text_of(isbn)} for isbn in isbns))
