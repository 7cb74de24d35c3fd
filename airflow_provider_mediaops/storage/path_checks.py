"""Check paths before any work is done: whether a store opens, a file can be written, two paths name one file."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import InvalidArgumentError, InvalidConnectionError, PermanentError
from airflow_provider_mediaops.storage.files import (
    beside,
    irregular_kind,
    is_local,
    naming_path,
    part_of,
    path_of,
    put,
    target_of,
    temporary_file,
)
from airflow_provider_mediaops.storage.source_file import InvalidSourceError
from airflow_provider_mediaops.version_compat import AirflowNotFoundException, conn_id_of

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

_log = logging.getLogger(__name__)

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
    Make sure that a store can be opened, by a client that is installed and a connection that is there.

    Otherwise raise PermanentError, or for the connection InvalidConnectionError. The role is what the path is to the
    user: ``source`` or ``destination``.
    """
    if is_local(path):
        return
    from airflow.sdk.exceptions import AirflowException

    start = f"{role} {unsigned(str(path))} cannot be opened: "
    try:
        path.fs  # noqa: B018 the store is opened here
    except AirflowNotFoundException as error:
        # Behind a colon stands a password, if somebody takes the place of the id for that of a login.
        conn_id = str(conn_id_of(path)).partition(":")[0]
        raise InvalidConnectionError(
            f"{start}there is no connection {conn_id!r}. Create it, or write the id of another before the @: "
            f"{path.protocol}://<conn_id>@{path.path.partition('/')[0]}/…"
        ) from error
    except (ImportError, ValueError, AirflowException) as error:
        if isinstance(error, ImportError) or "No filesystem registered" in str(error):
            raise PermanentError(start + _scheme_advice(path, error)) from error
        raise InvalidConnectionError(start + _connection_advice(path, error)) from error


def _scheme_advice(path: ObjectStoragePath, error: Exception) -> str:
    start = f"Airflow has no support for {path.protocol}://"
    if package := _PACKAGES.get(path.protocol):
        return (
            f"{start} here ({error}). Install {package} on all that open it: workers, triggerers and, for callbacks of "
            "DAGs, DAG processors."
        )
    return f"{start}. Put the file on s3://, gs://, abfs:// or sftp://, or on a disk that the machines share."


def _connection_advice(path: ObjectStoragePath, error: Exception) -> str:
    reason = f"({type(error).__name__}: {str(error)[:200].rstrip('.!')})"
    if conn_id := conn_id_of(path):
        return f"the connection {conn_id!r} is not complete or not right for {path.protocol}:// {reason}. Correct it."
    return (
        f"it names no connection, and this machine has no key of its own {reason}. Write the id of a connection before "
        f"the @: {path.protocol}://<conn_id>@{unsigned(path.path)}"
    )


def check_regular(path: ObjectStoragePath, role: str) -> None:
    """
    Make sure that a path on the local disk, if it leads to something, leads to a file; else raise InvalidSourceError.

    A named pipe without a writer is waited for without end, and a device may never end.
    """
    if not is_local(path):
        return
    with suppress(OSError):
        if kind := irregular_kind(path):
            raise InvalidSourceError(
                f"{role} {unsigned(str(path))} is {kind}, not a file. Write its content into a file, and give the path "
                "of that."
            )


def absolute(path: str, role: str, warn: Callable[[str], None]) -> str:
    """
    Return a path that means the same file in every process of this machine; one on a store stays as it is.

    Raise InvalidArgumentError if it can never name a file. ``warn`` is told of a path without a beginning.
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
    """Make sure that a file can be written, by writing an empty one beside it; else raise OSError or PermanentError."""
    if is_local(path):
        with naming_path(path, "written"):
            target = target_of(path)
            with suppress(FileNotFoundError):
                target.lstat()  # raises if the name is too long, for example
            with temporary_file(part_of(target)):
                return
    check_store(path, "destination")
    folder, _, name = path.path.rpartition("/")
    probe = f"{folder}/{beside(name, f'{secrets.token_hex(4)}.probe')}"
    put(path, probe, lambda target: path.fs.pipe_file(target, b""))
    try:
        with naming_path(path, "written"):
            path.fs.rm_file(probe)
    except PermissionError:
        _log.warning(
            "%s can be written, but the empty object %s, by which this task has found out, could not be removed: give "
            "the key of the connection the right to delete. You may remove the object.",
            unsigned(str(path)),
            unsigned(probe),
        )


def warn_if_deferred_to_local(destination: object, warn: Callable[[str], None]) -> None:
    """Warn if a deferred task's destination is on the local disk: the triggerer writes it, not the worker."""
    if is_local(path_of(destination)):
        warn(
            f"destination {unsigned(str(destination))} is on a local disk, and the task defers: the file will be on "
            "the triggerer's machine. Use an object store or a shared folder if another machine is to read it."
        )


def check_changes_path(name: str, path: str, destination: str) -> None:
    """Make sure that a file of changes can be published after a dataset; else raise InvalidArgumentError."""
    own, other = path_of(path), path_of(destination)
    if is_same_file(path, destination):
        raise InvalidArgumentError(
            f"{name} and destination are one file, {unsigned(path)!r}: give {name} a path of its own."
        )
    if is_local(own) != is_local(other) or not (is_local(own) or _is_same_store(own, other)):
        raise InvalidArgumentError(
            f"{name} {unsigned(path)!r} is on another storage than the destination {unsigned(destination)!r}. The two "
            "are published together, so they need one storage and one connection."
        )


def is_same_file(one: object, other: object) -> bool:
    """Return whether two paths name one file."""
    first, second = path_of(one), path_of(other)
    if is_local(first) != is_local(second):
        return False
    if is_local(first):
        here, there = (Path(path.path).expanduser() for path in (first, second))
        if os.path.realpath(here) == os.path.realpath(there):
            return True
        # Names that differ in case only may be one file, too.
        return here.exists() and there.exists() and here.samefile(there)
    return _is_same_store(first, second) and first.path.strip("/") == second.path.strip("/")


def _is_same_store(one: ObjectStoragePath, other: ObjectStoragePath) -> bool:
    """Return whether two paths that are not local are on one store, and reached by one connection."""
    connections = {conn_id_of(one), conn_id_of(other)} - {None}
    schemes = {_PACKAGES.get(path.protocol, path.protocol) for path in (one, other)}
    return len(connections) <= 1 and len(schemes) == 1
