"""
A small record that several tasks read and replace, one after the other: in Airflow's task state store, or in files.

In files, each version of the record is a file of its own, ``0001.json``, ``0002.json``, …, that is created once and
never changed: to replace version 3 is to create version 4. So of two tasks that have read the same version, one at most
replaces it, on a disk and on every object store that refuses to create an object that is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.errors import replaced_error
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.local import LocalFolder
from airflow_provider_mediaops.storage.object_store import StoreFolder
from airflow_provider_mediaops.storage.paths import is_local, lasting

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

_VERSION_FILE = re.compile(r"([0-9]{4}|[1-9][0-9]{4,8})\.json")
_ONE_USER = (
    "All tasks that use a journal have to run as one user of the system, and none of its files is a link. Do not "
    "remove single files of it: a bulletin could be posted again."
)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a record."""

    value: Any = None  # plain values; None if there are none; the text of the file if it holds no JSON
    number: int = 0  # 0 for a record that nobody has written yet


class StateRecord:
    """
    A record in the state store of a task, which has one attempt at a time: it replaces whatever is there.

    The store keeps it for the retention; None leaves that to the store.
    """

    def __init__(self, store: Any, key: str, retention: timedelta | None = None) -> None:
        self._store, self._key, self._retention = store, key, retention
        #: The record and its place, as the start of a sentence; and how to remove it by hand, as a part of one.
        self.name = "The record in the task's state store"
        self.removal = f"delete {key} from the task's state store (tab Storage, Task State Store)"

    def read(self) -> Version:
        """Read the record; an OSError names its place."""
        try:
            return Version(self._store.get(self._key))
        except Exception as error:
            raise self._failure("read from", error) from error

    def replace(self, value: Any, version: Version) -> Version:
        """Replace the record; None removes it. After an OSError, which names its place, the new value may be there."""
        del version
        try:
            if value is None:
                self._store.delete(self._key)
            else:
                self._store.set(self._key, value, retention=self._retention)
        except Exception as error:
            raise self._failure("written to", error) from error
        return Version(value)

    @staticmethod
    def _failure(action: str, error: Exception) -> OSError:
        # The text of the error may hold anything, so it is not repeated.
        return OSError(
            f"The record could not be {action} the task's state store ({type(error).__name__}). Check that the worker "
            "reaches Airflow's API server, and whether Airflow has given up this try."
        )


class FileRecord:
    """
    A record in a folder of files, one a version, on a disk or an object store. Missing folders are created.

    Whoever can write in it can have a bulletin taken for posted, so a folder of another user raises an OSError.
    """

    def __init__(self, path: ObjectStoragePath) -> None:
        self._path = path
        self._folder = LocalFolder(path, Path(lasting(path))) if is_local(path) else StoreFolder(path, path.path)
        self._folder.hint = _ONE_USER if is_local(path) else ""
        self.name = f"The record {unsigned(str(path))}"
        self.removal = f"delete {unsigned(str(path))}"

    def read(self) -> Version:
        """Read the newest version."""
        found = filter(None, map(_VERSION_FILE.fullmatch, self._folder.names()))
        number = max((int(each[1]) for each in found), default=0)
        if not number:
            return Version()
        content = self._folder.read(_file_name(number))
        if content is None:
            raise FileNotFoundError(f"{self.name} cannot be read: version {number} was removed just now")
        try:
            return Version(parse_json(content), number)
        except ValueError:
            return Version(content.decode("utf-8", "replace"), number)

    def replace(self, value: Any, version: Version) -> Version:
        """
        Create the version that follows; raise DestinationReplacedError if another task has replaced this one.

        Raise PermanentError if the store does not keep two tasks from that. After an OSError, the version may be there.
        """
        # Somebody may have removed the folder since, and another task have begun a new one.
        if version.number and self.read() != version:
            raise replaced_error(self._path)
        new = Version(value, version.number + 1)
        self._folder.create(_file_name(new.number), json_line(value) + b"\n", is_first=version.value is None)
        return new


def _file_name(number: int) -> str:
    return f"{number:04}.json"


#: A record in some store.
Record = FileRecord | StateRecord
