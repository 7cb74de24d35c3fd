"""Find out whether a file can be written, before there is anything to write."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_provider_mediaops.storage.files import beside, is_local, naming_path, put, target_of, translating_errors

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath


def check_writable(path: ObjectStoragePath) -> None:
    """
    Make sure that a file can be written, by writing an empty one beside it and removing it.

    :param path: the file. An older file of that name stays as it is.
    :raises OSError: if it cannot be written; the message names it.
    """
    if is_local(path):
        _probe_folder(path)
    else:
        _probe_store(path)


def _probe_folder(path: ObjectStoragePath) -> None:
    with naming_path(path, "written"):
        target = target_of(path)
        with suppress(FileNotFoundError):
            target.lstat()  # raises if the name is too long, for example
        probe = target.with_name(beside(target.name, f"{secrets.token_hex(4)}.part"))
        probe.touch(exist_ok=False)
        probe.unlink()


def _probe_store(path: ObjectStoragePath) -> None:
    # Permission to write can only be found out by writing.
    folder, _, name = path.path.rpartition("/")
    probe = f"{folder}/{beside(name, f'{secrets.token_hex(4)}.probe')}"
    put(path, probe, lambda target: path.fs.pipe_file(target, b""))
    with translating_errors(path, "written"):
        path.fs.rm_file(probe)
