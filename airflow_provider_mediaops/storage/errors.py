"""The errors of a destination that another task writes or has written."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import DestinationInUseError, PermanentError

if TYPE_CHECKING:
    from pathlib import Path


def mapped_overwrite_error(destination: object, writer: str, kind: str = "dataset") -> PermanentError:
    """
    Return the error for a mapped task whose destination another instance of the same task writes or has published.

    :param destination: the path.
    :param writer: the other task.
    :param kind: what the task writes, in a word.
    """
    return PermanentError(
        f"{destination} is the {kind} of {writer}, mapped beside this task in the same run, and would be lost: give "
        "each mapped task a destination of its own, for example with {{ ti.map_index }} in it.",
        service="storage",
    )


def in_use_error(destination: object, holder: str, since: float, ends: float | None = None) -> DestinationInUseError:
    """
    Return the error for a destination that another task is writing.

    :param destination: the path.
    :param holder: the task that is writing it.
    :param since: the time of its last write, in seconds since 1970.
    :param ends: the time at which its lease expires; None if the system frees the destination when the task dies.
    """
    advice = "This attempt ends; it can be repeated when that one is done, or give each task a destination of its own."
    if ends is not None:
        advice = f"If that task is dead, the destination is free at {_at(ends)}. {advice}"
    return DestinationInUseError(
        f"{destination} is being written by {holder or 'another task'}, last heard of at {_at(since)}. {advice}",
        service="storage",
    )


def lease_removed_error(destination: object, lease: str) -> DestinationInUseError:
    """
    Return the error for a destination whose lease is gone.

    :param destination: the path.
    :param lease: the object that held the lease.
    """
    return DestinationInUseError(
        f"{destination} is no longer this task's: the object {lease}, which names its writer, was removed, or another "
        "task has published there. This attempt ends; the next one starts anew.",
        service="storage",
    )


def unknown_version_error(file: object, version: object) -> PermanentError:
    """
    Return the error for a journal or a lease of a version that this package does not know.

    :param file: its path.
    :param version: its version.
    """
    return PermanentError(
        f"{file} has version {str(version)[:20]!r}, which this version of airflow-provider-mediaops does not know (it "
        "knows 1). Install the version that wrote it, or a later one; or, if no task writes there, delete it, "
        "and what is staged is written anew.",
        service="storage",
    )


def lease_unreadable_error(destination: object, lease: str, why: str) -> DestinationInUseError:
    """
    Return the error for a destination whose lease is damaged.

    :param destination: the path.
    :param lease: the object that holds the lease.
    :param why: the fault.
    """
    return DestinationInUseError(
        f"{destination} may be in use: the object {lease}, which names its writer, cannot be understood ({why}). It "
        "may be incomplete because it is being written. If no task writes the destination, remove that object and "
        "repeat the task.",
        service="storage",
    )


def newer_replaced_error(destination: object, writer: str) -> DestinationInUseError:
    """
    Return the error of an attempt whose upload ended so late that it replaced a newer file.

    :param destination: the path.
    :param writer: the task that had published the newer file.
    """
    return DestinationInUseError(
        f"{destination} was published by {writer} while this task's own upload was under way, and the upload replaced "
        f"it: the store does not check conditions of writes. Run {writer} again to restore its file.",
        service="storage",
    )


def out_of_reach_error(destination: object, companion: str, writer: str, publication: str) -> PermanentError:
    """
    Return the error for a publication that another attempt has begun, and that this one does not finish.

    :param destination: the path of the dataset.
    :param companion: the path of the file that was to be published with it.
    :param writer: the task that is said to have begun it.
    :param publication: the object that says so.
    """
    return PermanentError(
        f"{destination} was published by {writer!r}, which ended before it could publish {companion!r} with it. This "
        "task writes only below the folder of the destination, and to the folder of its own second file, so it leaves "
        f"both as they are. Clear that task: it finishes what it began. If you do not know it, remove the object "
        f"{publication}, and find out who wrote it.",
        service="storage",
    )


def unconditional_error(record: object) -> PermanentError:
    """
    Return the error for a record on a store where two tasks could create it at once.

    :param record: its path.
    """
    return PermanentError(
        f"{record} cannot be kept: its store, or the store's client, does not refuse to create a file that is there, "
        "so two tasks could do the same work at once. Choose a folder on S3, Google Cloud Storage, Azure or another "
        "store with conditional writes, or on a disk that all workers share.",
        service="storage",
    )


def files_changed_error(destination: object, file: Path) -> DestinationInUseError:
    """
    Return the error of an attempt whose files were removed or replaced by somebody else.

    :param destination: the path that the attempt writes.
    :param file: the file that is no longer the attempt's.
    """
    return DestinationInUseError(
        f"{destination} is no longer this task's: {file} was removed, replaced or changed while the task was writing. "
        "This attempt ends, and publishes nothing; the next one starts with what it finds. Leave the hidden files "
        "beside a destination alone while a task writes it.",
        service="storage",
    )


def replaced_meanwhile_error(destination: object) -> DestinationInUseError:
    """
    Return the error of an attempt at whose destination another file appeared while it read the older one.

    :param destination: the path.
    """
    return DestinationInUseError(
        f"{destination} was replaced by another task or program after this attempt began, so it is not known what it "
        "would replace. This attempt ends, and publishes nothing; the next one starts with what it finds.",
        service="storage",
    )


def finished_meanwhile_error(destination: object) -> DestinationInUseError:
    """
    Return the error of an attempt that finds its own task's dataset published since it began.

    :param destination: the path.
    """
    return DestinationInUseError(
        f"{destination} was published by another attempt of this task just after this one began. This attempt ends; "
        "the next one returns the other's result.",
        service="storage",
    )


def _at(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
