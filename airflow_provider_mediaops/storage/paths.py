"""What a path means on any storage, and what is checked of it before any work is done."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import is_web_address, unsigned
from airflow_provider_mediaops.exceptions import InvalidArgumentError, InvalidConnectionError, PermanentError
from airflow_provider_mediaops.version_compat import AirflowNotFoundException, conn_id_of

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

_AMAZON = "apache-airflow-providers-amazon[s3fs]"
_GOOGLE = "apache-airflow-providers-google"
_AZURE = "apache-airflow-providers-microsoft-azure"
_SFTP = "apache-airflow-providers-sftp[sshfs]"
#: The packages that register a scheme with Airflow. Schemes of one package lead to the same files.
PACKAGES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _AMAZON),
    **dict.fromkeys(("gs", "gcs"), _GOOGLE),
    **dict.fromkeys(("abfs", "abfss", "adl"), _AZURE),
    **dict.fromkeys(("sftp", "ssh"), _SFTP),
}
_OTHER_PLACES = "Put the file on s3://, gs://, abfs:// or sftp://, or on a disk that the machines share."
# The addresses of Microsoft's tools and of Hadoop for files on Azure name the account's host.
_AZURE_HOST = re.compile(r"(abfss?|wasbs?|https)://[^/]*\.(dfs|blob)\.")


def path_of(text: object) -> ObjectStoragePath:
    """Return the path of a file on any storage; raise InvalidArgumentError if it can never name one."""
    # Importing it takes time, and this module is imported early.
    from airflow.sdk import ObjectStoragePath

    # ObjectStoragePath cannot be constructed from a local one.
    words = str(text)
    shown = unsigned(words)
    if _AZURE_HOST.match(words):
        raise InvalidArgumentError(
            f"Airflow does not read the path {shown!r}. Write abfs://<conn_id>@<container>/<path>: the account and its "
            "key are in a connection, whose id stands before the @."
        )
    if is_web_address(words):
        raise InvalidArgumentError(f"{shown!r} is a web address, not the path of a file. {_OTHER_PLACES}")
    try:
        path = ObjectStoragePath(words)
    except (ValueError, ImportError) as error:
        # An ImportError names the package that a scheme needs.
        message = f"{shown!r} is not the path of a file: {error}. Use file://, s3:// or another scheme of fsspec."
        raise InvalidArgumentError(message) from error
    if is_local(path):
        local_path_of(path)
    if not path.protocol and path.path.startswith("/") and not words.startswith("/"):
        # The universal_pathlib of Airflow 3.1 lets relative paths, and those of a home folder, begin at the root.
        path = ObjectStoragePath(str(Path.cwd() / _expanded(words)))
    return path


def local_path_of(path: ObjectStoragePath) -> Path:
    """Return a path on the local disk as one of the system."""
    if "\0" in path.path:
        raise InvalidArgumentError(f"{str(path)!r} is not the path of a file: it holds a NUL byte. Remove that byte.")
    return _expanded(path.path)


def _expanded(words: str) -> Path:
    try:
        # fsspec reads "~" as the home folder, so readers of the file do, too.
        return Path(words).expanduser()
    except RuntimeError as error:
        message = f"{words!r} is not the path of a file: there is no such home folder. Write the absolute path instead."
        raise InvalidArgumentError(message) from error


def is_local(path: ObjectStoragePath) -> bool:
    """Return whether a path is on the local disk."""
    return path.protocol in ("", "file", "local")


def lasting(path: object) -> str:
    """Return a path as other processes can open it: one on the local disk is absolute, without ``file://``."""
    found = path_of(path)
    return str(local_path_of(found).absolute()) if is_local(found) else str(path)


def absolute(path: str, role: str, warn: Callable[[str], None]) -> str:
    """
    Return a path that means the same file in every process of this machine; one on a store stays as it is.

    Raise InvalidArgumentError if it can never name a file. ``warn`` is told of a path without a beginning.
    """
    # Only some versions of Airflow keep a relative path relative in a path object, and expand ~, so the text decides.
    if not is_local(path_of(path)) or "://" in path or Path(path).is_absolute():
        return path
    found = str(_expanded(path).absolute())
    if not path.startswith("~"):
        warn(
            f"{role} {path!r} is relative to the folder in which the task runs, and means {found!r} here. Another "
            "worker or triggerer may have another folder: write an absolute path."
        )
    return found


def is_irregular(path: ObjectStoragePath) -> bool:
    """Return whether a path on the local disk leads to a folder, a pipe, a socket or a device."""
    with suppress(FileNotFoundError, NotADirectoryError):
        # The system follows links that have no path, too, such as /dev/stdout.
        return is_local(path) and not stat.S_ISREG(local_path_of(path).stat().st_mode)
    return False


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
    if package := PACKAGES.get(path.protocol):
        return (
            f"{start} here ({error}). Install {package} on all that open it: workers, triggerers and, for callbacks of "
            "DAGs, DAG processors."
        )
    return f"{start}. {_OTHER_PLACES}"


def _connection_advice(path: ObjectStoragePath, error: Exception) -> str:
    reason = f"({type(error).__name__}: {str(error)[:200].rstrip('.!')})"
    if conn_id := conn_id_of(path):
        return f"the connection {conn_id!r} is not complete or not right for {path.protocol}:// {reason}. Correct it."
    return (
        f"it names no connection, and this machine has no key of its own {reason}. Write the id of a connection before "
        f"the @: {path.protocol}://<conn_id>@{unsigned(path.path)}"
    )


def warn_if_deferred_to_local(destination: object, warn: Callable[[str], None]) -> None:
    """Warn if a deferred task's destination is on the local disk: the triggerer writes it, not the worker."""
    if is_local(path_of(destination)):
        warn(
            f"destination {unsigned(str(destination))} is on a local disk, and the task defers: the file will be on "
            "the triggerer's machine. Use an object store or a shared folder if another machine is to read it."
        )


def check_changes_path(path: str, destination: str) -> None:
    """Make sure that a file of changes can be published after a dataset; else raise InvalidArgumentError."""
    if is_same_file(path, destination):
        raise InvalidArgumentError(
            f"changes and destination are one file, {unsigned(path)!r}: give changes a path of its own."
        )
    if not _is_same_storage(path_of(path), path_of(destination)):
        raise InvalidArgumentError(
            f"changes {unsigned(path)!r} is on another storage than the destination {unsigned(destination)!r}. The two "
            "are published together, so they need one storage and one connection."
        )


def is_same_file(one: object, other: object) -> bool:
    """Return whether two paths name one file."""
    first, second = path_of(one), path_of(other)
    if not _is_same_storage(first, second):
        return False
    if is_local(first):
        here, there = local_path_of(first), local_path_of(second)
        # Names that differ in case only may be one file, too.
        is_one = here.exists() and there.exists() and here.samefile(there)
        return is_one or os.path.realpath(here) == os.path.realpath(there)
    return first.path.strip("/") == second.path.strip("/")


def _is_same_storage(one: ObjectStoragePath, other: ObjectStoragePath) -> bool:
    """Return whether two paths are on the local disk, or on one store and reached by one connection."""
    if is_local(one) or is_local(other):
        return is_local(one) and is_local(other)
    connections = {conn_id_of(one), conn_id_of(other)} - {None}
    schemes = {PACKAGES.get(path.protocol, path.protocol) for path in (one, other)}
    return len(connections) <= 1 and len(schemes) == 1
