"""What a path means on any storage, and what is checked of it before any work is done."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import is_web_address, shown, unsigned
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
    named = shown(unsigned(words))
    if _AZURE_HOST.match(words):
        raise InvalidArgumentError(
            f"Airflow does not read the path {named}. Write abfs://<conn_id>@<container>/<path>: the account and its "
            "key are in a connection, whose id stands before the @."
        )
    if is_web_address(words):
        raise InvalidArgumentError(f"{named} is a web address, not the path of a file. {_OTHER_PLACES}")
    try:
        path = ObjectStoragePath(words)
    except (ValueError, ImportError, TypeError) as error:
        # An ImportError names the package that a scheme needs. Some clients want more than a path, a TypeError says.
        message = f"{named} is not the path of a file: {error}. Use file://, s3:// or another scheme of fsspec."
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
        message = f"{shown(str(path))} is not the path of a file: it holds a NUL byte. Remove that byte."
        raise InvalidArgumentError(message)
    return _expanded(path.path)


def _expanded(words: str) -> Path:
    try:
        # fsspec reads "~" as the home folder, so readers of the file do, too.
        return Path(words).expanduser()
    except RuntimeError as error:
        message = (
            f"{shown(words)} is not the path of a file: there is no such home folder. Write the absolute path instead."
        )
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

    start = f"{role} {unsigned(str(path))} cannot be opened"
    correction = f"write the id of another before the @: {path.protocol}://<conn_id>@{unsigned(path.path)}"
    try:
        path.fs  # noqa: B018 the store is opened here
    except AirflowNotFoundException as error:
        # Behind a colon stands a password, if somebody takes the place of the id for that of a login.
        conn_id = str(conn_id_of(path)).partition(":")[0]
        message = f"{start}: there is no connection {conn_id!r}. Create it, or {correction}"
        raise InvalidConnectionError(message) from error
    except (ImportError, ValueError, AirflowException) as error:
        reason = str(error)[:200].rstrip(".!")
        if isinstance(error, ImportError) or "No filesystem registered" in str(error):
            advice = _OTHER_PLACES
            if package := PACKAGES.get(path.protocol):
                everywhere = "workers, triggerers and, for callbacks of DAGs, DAG processors"
                advice = f"Install {package} on all that open it: {everywhere}."
            message = f"{start}: Airflow has no support for {path.protocol}:// here ({reason}). {advice}"
            raise PermanentError(message) from error
        raise InvalidConnectionError(
            f"{start}: its connection, or this machine's own key if it names none, is not complete or not right "
            f"({type(error).__name__}: {reason}). Correct it, or {correction}"
        ) from error


def warn_if_deferred_to_local(destination: object, warn: Callable[[str], None]) -> None:
    """Warn if a deferred task's destination is on the local disk: the triggerer writes it, not the worker."""
    if is_local(path_of(destination)):
        warn(
            f"destination {unsigned(str(destination))} is on a local disk, and the task defers: the file will be on "
            "the triggerer's machine. Use an object store or a shared folder if another machine is to read it."
        )


def is_same_file(one: object, other: object) -> bool:
    """Return whether two paths name one file."""
    first, second = path_of(one), path_of(other)
    if is_local(first) and is_local(second):
        here, there = local_path_of(first), local_path_of(second)
        is_one = False
        try:
            # Names that differ in case only may be one file, too.
            is_one = here.exists() and there.exists() and here.samefile(there)
        except OSError as error:
            # Of another error, such as a folder that this process may not read, the task itself will say more.
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidArgumentError(
                    f"{shown(error.filename)} is not the path of a file: {error.strerror}. Give the path of a file, "
                    "not its content."
                ) from error
        return is_one or os.path.realpath(here) == os.path.realpath(there)
    connections = {conn_id_of(first), conn_id_of(second)} - {None}
    stores = {"local" if is_local(path) else PACKAGES.get(path.protocol, path.protocol) for path in (first, second)}
    return len(connections) <= 1 and len(stores) == 1 and first.path.strip("/") == second.path.strip("/")
