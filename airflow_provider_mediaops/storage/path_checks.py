"""Check paths before any work is done: whether a store opens, a file can be written, two paths name one file."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage.files import (
    beside,
    irregular_kind,
    is_local,
    naming_path,
    path_of,
    put,
    target_of,
    translating_errors,
)
from airflow_provider_mediaops.storage.source_lines import InvalidSourceError
from airflow_provider_mediaops.version_compat import conn_id_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import ObjectStoragePath

_AMAZON = "apache-airflow-providers-amazon[s3fs]"
_GOOGLE = "apache-airflow-providers-google"
_AZURE = "apache-airflow-providers-microsoft-azure"
_SFTP = "apache-airflow-providers-sftp[sshfs]"
# The packages that register a scheme with Airflow. Schemes of one package lead to the same files.
_PACKAGES = {
    "s3": _AMAZON,
    "s3a": _AMAZON,
    "s3n": _AMAZON,
    "gs": _GOOGLE,
    "gcs": _GOOGLE,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "adl": _AZURE,
    "sftp": _SFTP,
    "ssh": _SFTP,
}


def check_store(path: ObjectStoragePath, role: str) -> None:
    """
    Make sure that the package is installed which Airflow needs to open a path.

    :param path: the path.
    :param role: what the path is to the user: ``source`` or ``destination``.
    :raises PermanentError: if it is missing; the message names the package.
    """
    if is_local(path):
        return
    try:
        path.fs  # noqa: B018 the store is opened here
    except ImportError as error:
        missing = str(error)
    except ValueError as error:
        if "No filesystem registered" not in str(error):
            raise
        missing = str(error)
    else:
        return
    package = _PACKAGES.get(path.protocol, f"the Airflow provider that registers {path.protocol}://")
    raise PermanentError(
        f"{role} {path} cannot be opened: Airflow has no support for {path.protocol}:// here ({missing}). "
        f"Install {package} where the task runs, in workers and triggerers."
    )


def check_regular(path: ObjectStoragePath, role: str) -> None:
    """
    Make sure that a path on the local disk leads to a file that can be read from its beginning, as often as it takes.

    A named pipe without a writer is waited for without end, and a device may never end.

    :param path: the path; it may be a link. Nothing is said of one that does not exist, or is on a store.
    :param role: what the path is to the user: ``source`` or ``reuse``.
    :raises InvalidSourceError: if it leads to a folder, a named pipe, a socket or a device.
    """
    if not is_local(path):
        return
    with suppress(OSError):
        if kind := irregular_kind(path):
            raise InvalidSourceError(
                f"{role} {path} is {kind}, not a file. Write its content into a file, and give the path of that."
            )


def absolute(path: str, role: str, warn: Callable[[str], None]) -> str:
    """
    Return a path that means the same file in every process of this machine.

    :param path: the path, with or without a scheme.
    :param role: what the path is to the user: ``source`` or ``destination``.
    :param warn: gets a warning if the path is relative to the folder in which the task runs.
    :returns: the absolute path if it is a relative one or one of ``~`` on the local disk; any other path as it is.
    :raises InvalidArgumentError: if it can never name a file.
    """
    # Only some versions of Airflow keep a relative path relative in a path object, and expand ~, so the text decides.
    if not is_local(path_of(path)) or "://" in path or Path(path).is_absolute():
        return path
    expanded = Path(path).expanduser()
    if expanded.is_absolute():
        return str(expanded)
    found = str(Path(path).absolute())
    warn(
        f"{role} {path!r} is relative to the folder in which the task runs, and means {found!r} here. Another worker "
        "or triggerer may have another folder: write an absolute path."
    )
    return found


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


def warn_if_deferred_to_local(destination: object, warn: Callable[[str], None]) -> None:
    """
    Warn if a deferred task's destination is on the local disk: the triggerer writes it, not the worker.

    :param destination: the path, with or without a scheme.
    :param warn: gets the warning, one sentence.
    """
    if is_local(path_of(destination)):
        warn(
            f"destination {destination} is on a local disk, and the task defers: the file will be on the triggerer's "
            "machine. Use an object store or a shared folder if another machine is to read it."
        )


def is_same_file(one: object, other: object) -> bool:
    """
    Return whether two paths name one file.

    :param one: a path, with or without a scheme.
    :param other: another path. Two stores that are reached by different connections count as different.
    :raises InvalidArgumentError: if one of them can never name a file.
    """
    first, second = path_of(one), path_of(other)
    if is_local(first) != is_local(second):
        return False
    if is_local(first):
        here, there = (Path(path.path).expanduser() for path in (first, second))
        if os.path.realpath(here) == os.path.realpath(there):
            return True
        # Names that differ in case only may be one file, too.
        return here.exists() and there.exists() and here.samefile(there)
    return is_same_store(first, second) and first.path.strip("/") == second.path.strip("/")


def is_same_store(one: ObjectStoragePath, other: ObjectStoragePath) -> bool:
    """
    Return whether two paths that are not local are on one store, and reached by one connection.

    :param one: a path.
    :param other: another path. One without a connection may be reached by that of the other.
    """
    connections = {conn_id_of(one), conn_id_of(other)} - {None}
    schemes = {_PACKAGES.get(path.protocol, path.protocol) for path in (one, other)}
    return len(connections) <= 1 and len(schemes) == 1
