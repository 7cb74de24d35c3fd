"""The owner of a dataset or a file: the task instance that writes it, and a digest of its arguments."""

from __future__ import annotations

import hashlib
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.errors import mapped_overwrite_error, naming_path
from airflow_provider_mediaops.storage.files import beside, write_whole
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.paths import path_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mediaops.storage.dataset import Dataset


def task_of(context: Mapping[str, Any]) -> str | None:
    """Return the task instance of a context: DAG, run, task and map index; None outside of a task."""
    instance = context.get("ti")
    if instance is None:
        return None
    map_index = -1 if instance.map_index is None else instance.map_index
    return f"{instance.dag_id}/{instance.run_id}/{instance.task_id}/{map_index}"


@dataclass(frozen=True, slots=True)
class Owner:
    """The task instance that writes a dataset, with its parameters."""

    task: str  # DAG, run, task and map index
    parameters: str  # a digest of all parameters that determine the content of the dataset
    clears: int = 0  # a number that Airflow sets when the task is cleared (``max_tries``), and that its retries share
    run_start: str = ""  # when its run began, or began anew by a clear after its end; in ISO 8601 and UTC

    @property
    def folder(self) -> str:
        """The name of the folder in which this owner stages: that of all attempts with the same parameters."""
        return hashlib.sha256(json.dumps([self.task, self.parameters]).encode()).hexdigest()[:32]

    @property
    def turn(self) -> list[Any]:
        """What differs once the task was cleared."""
        return [self.clears, self.run_start]

    def is_mapped_beside(self, other: Owner) -> bool:
        """Return whether both are instances of one mapped task in one run: they may not replace each other's files."""
        task, _, index = self.task.rpartition("/")
        its_task, _, its_index = other.task.rpartition("/")
        if self.parameters == other.parameters or not (index.isdecimal() and its_index.isdecimal()):
            return False
        return index != its_index and [task, *self.turn] == [its_task, *other.turn]


@dataclass(frozen=True, slots=True)
class DatasetWork(ABC):
    """Base class of what a task is to write, in plain values that may travel from the task to a triggerer."""

    owner: dict[str, Any]  # the fields of :class:`Owner`
    destination: str

    @abstractmethod
    def dataset(self) -> Dataset:
        """Return the dataset that is written."""

    def owned_by(self) -> Owner:
        """Return the owner of the dataset."""
        return Owner(**self.owner)


def owner_of(context: Context, parameters: Mapping[str, Any]) -> Owner:
    """
    Return the owner of the dataset that a task writes, the same for all its attempts with the same parameters.

    Without a task instance, as in a plain script, nothing is ever resumed. The parameters are all rendered arguments
    that affect the content.
    """
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True, default=str).encode()).hexdigest()
    task = task_of(context)
    if task is None:
        return Owner(f"no task ({secrets.token_hex(8)})", digest)
    start = getattr(context.get("dag_run"), "start_date", None)
    # Airflow sets max_tries when a task is cleared, and only then.
    return Owner(task, digest, getattr(context["ti"], "max_tries", 0), start.isoformat() if start else "")


def refuse_shared_destination(file: str, owner: Owner, kind: str) -> None:
    """
    Raise PermanentError if a task that is mapped beside this one in the same run writes the same file.

    Each map index has a record in a hidden folder beside the file, and a later run replaces it. A task writes its own
    first and reads the others afterwards, so of two that begin together at least one is refused.
    """
    import msgspec

    index = owner.task.rpartition("/")[2]
    if not index.isdecimal():
        return
    folder, _, name = file.rpartition("/")
    records = f"{folder}/{beside(name, 'mapped')}"
    write_whole(path_of(f"{records}/{index}"), json_line(owner))
    found = path_of(records)
    with naming_path(records, "read"):
        # Some clients cache what they have listed.
        found.fs.invalidate_cache()
        for record in found.fs.ls(found.path, detail=False):
            # Replaced just now, or nothing that this version has written.
            with suppress(FileNotFoundError, msgspec.MsgspecError):
                other = msgspec.json.decode(found.fs.cat_file(record), type=Owner)
                if owner.is_mapped_beside(other):
                    raise mapped_overwrite_error(file, other.task, kind)
