"""Refuse a file that two instances of one mapped task would write: the second would replace the first in silence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_provider_mediaops.storage.errors import mapped_overwrite_error
from airflow_provider_mediaops.storage.files import beside, naming_path, path_of, write_whole
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.ownership import Owner

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath


def refuse_shared_destination(file: str, owner: Owner, kind: str) -> None:
    """
    Raise PermanentError if a task that is mapped beside this one in the same run writes the same file.

    Each map index has a record in a hidden folder beside the file, and a later run replaces it. A task writes its own
    first and reads the others afterwards, so of two that begin together at least one is refused.
    """
    index = owner.task.rpartition("/")[2]
    if not index.isdecimal():
        return
    folder, _, name = file.rpartition("/")
    records = f"{folder}/{beside(name, 'mapped')}"
    write_whole(path_of(f"{records}/{index}"), json_line(owner))
    for other in _owners(path_of(records)):
        if owner.is_mapped_beside(other):
            raise mapped_overwrite_error(file, other.task, kind)


def _owners(folder: ObjectStoragePath) -> Iterator[Owner]:
    import msgspec

    with naming_path(folder, "read"):
        # Some clients cache what they have listed.
        folder.fs.invalidate_cache()
        for record in folder.fs.ls(folder.path, detail=False):
            # Replaced just now, or nothing that this version has written.
            with suppress(FileNotFoundError, msgspec.MsgspecError):
                yield msgspec.json.decode(folder.fs.cat_file(record), type=Owner)
