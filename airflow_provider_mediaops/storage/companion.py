"""A file that is published together with a dataset, for example what changed in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.storage.files import is_local, path_of
from airflow_provider_mediaops.storage.path_checks import is_same_file, is_same_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import ObjectStoragePath


@dataclass(frozen=True, slots=True)
class CompanionFile:
    """
    A file that is published together with a dataset.

    :param path: its path, on the storage of the dataset; missing folders are created.
    :param key: the key of the summary that holds this path; None is there if neither file is written.
    :param write: writes the content to a file on the local disk.
    """

    path: str
    key: str
    write: Callable[[Path], None]


def check_companion_path(name: str, path: str, destination: str) -> None:
    """
    Make sure that a companion can be published together with a dataset.

    :param name: the argument that names the companion, for the message.
    :param path: the path of the companion.
    :param destination: the path of the dataset.
    :raises InvalidArgumentError: if both are one file, if one would have to be the folder of the other, if the
        companion is a hidden file, which may be one that the dataset is staged in, or if it is on another storage.
    """
    own, other = path_of(path), path_of(destination)
    if is_same_file(path, destination):
        raise InvalidArgumentError(f"{name} and destination are one file, {path!r}: give {name} a path of its own.")
    if _is_folder_of(own, other) or _is_folder_of(other, own):
        raise InvalidArgumentError(
            f"{name} {path!r} and destination {destination!r} cannot both be files: one is a folder of the other."
        )
    if own.name.startswith("."):
        raise InvalidArgumentError(f"{name} is a hidden file, {path!r}: give it a name that begins with no dot.")
    if is_local(own) != is_local(other) or not (is_local(own) or is_same_store(own, other)):
        raise InvalidArgumentError(
            f"{name} {path!r} is on another storage than the destination {destination!r}. The two are published "
            "together, so they need one storage and one connection."
        )


def _is_folder_of(one: ObjectStoragePath, other: ObjectStoragePath) -> bool:
    return is_local(one) == is_local(other) and _place(other).startswith(f"{_place(one)}/")


def _place(path: ObjectStoragePath) -> str:
    place = os.path.realpath(Path(path.path).expanduser()) if is_local(path) else path.path
    return place.strip("/")
