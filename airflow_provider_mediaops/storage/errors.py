"""The errors of a destination that another task writes or has written."""

from __future__ import annotations

import errno

from airflow_provider_mediaops.exceptions import DestinationInUseError, DestinationReplacedError, PermanentError


class ConflictError(Exception):
    """For the inside: another version is at the path than the one that was to be replaced."""


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


def superseded_error(destination: object) -> DestinationInUseError:
    """
    Return the error of an attempt whose claim is no longer the highest.

    :param destination: the path that the attempt writes.
    """
    return DestinationInUseError(
        f"{destination} is being written by a newer attempt of this task. This attempt ends; what it has staged counts "
        "for the newer one.",
        service="storage",
    )


def removed_error(destination: object) -> OSError:
    """
    Return the error of an attempt whose claim somebody has removed.

    :param destination: the path that the attempt writes.
    """
    what = f"the hidden folder beside {destination} was removed while the task wrote; the next attempt starts anew"
    return OSError(errno.ESTALE, what)


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


def locked_error(destination: object) -> DestinationInUseError:
    """
    Return the error for a file that another process keeps locked.

    :param destination: the path.
    """
    return DestinationInUseError(
        f"{destination} is being published by another process, which has held its lock for half a minute: it may have "
        "been stopped. This attempt ends; the next one publishes what is staged. If no task is at work, end that "
        "process.",
        service="storage",
    )


def replaced_error(destination: object) -> DestinationReplacedError:
    """
    Return the error of an attempt at whose destination another file appeared since it began.

    :param destination: the path.
    """
    return DestinationReplacedError(
        f"{destination} was published by another run or program after this attempt began. This attempt ends, and "
        "replaces nothing; the next one begins from the file as it is then, and repeats no request. If two tasks write "
        "there on purpose, give each a destination of its own, or set max_active_runs=1.",
        service="storage",
    )


def unknown_version_error(file: object, version: object) -> PermanentError:
    """
    Return the error for a log of a version that this package does not know.

    :param file: its path.
    :param version: its version.
    """
    return PermanentError(
        f"{file} has version {str(version)[:20]!r}, which this version of airflow-provider-mediaops does not know (it "
        "knows 1). Install the version that wrote it, or a later one; or, if no task writes there, delete it, "
        "and what is staged is written anew.",
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
