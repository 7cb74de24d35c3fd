"""The errors of a destination that another task writes or has written. Each names it without what is secret."""

from __future__ import annotations

import errno

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import DestinationInUseError, DestinationReplacedError, PermanentError


class ConflictError(DestinationReplacedError):
    """Another version is at a path than the one that was to be replaced. Who catches it can look at that version."""


def conflict_error(path: object) -> ConflictError:
    """Return the error of a write that would have replaced another version than the one that was read."""
    return ConflictError(
        f"{_shown(path)} was replaced by another task or program meanwhile. This attempt replaces nothing; the next "
        "one begins from the file as it is then.",
        service="storage",
    )


def mapped_overwrite_error(destination: object, writer: str, kind: str = "dataset") -> PermanentError:
    """Return the error for a mapped task whose destination another instance of it writes or has published."""
    return PermanentError(
        f"{_shown(destination)} is the {kind} of {writer}, another mapped instance of this task in the same run, and "
        "would be lost: give each mapped task a destination of its own, for example with {{ ti.map_index }} in it.",
        service="storage",
    )


def superseded_error(destination: object) -> DestinationInUseError:
    """Return the error of an attempt whose claim is no longer the highest, or whose dataset another has published."""
    return DestinationInUseError(
        f"{_shown(destination)} is being written, or has just been published, by another attempt of this task. This "
        "attempt ends; what it has staged counts for the other one.",
        service="storage",
    )


def removed_error(destination: object) -> OSError:
    """Return the error of an attempt whose claim somebody has removed."""
    what = f"the hidden folder beside {_shown(destination)} was removed while the task wrote"
    return OSError(errno.ESTALE, f"{what}; the next attempt starts anew")


def locked_error(destination: object) -> DestinationInUseError:
    """Return the error for a file that another process keeps locked."""
    return DestinationInUseError(
        f"{_shown(destination)} is being published by another process, which has held its lock for half a minute: it "
        "may have been stopped. This attempt ends; the next one publishes what is staged. If no task is at work, end "
        "that process.",
        service="storage",
    )


def replaced_error(destination: object) -> DestinationReplacedError:
    """Return the error of an attempt at whose destination another file appeared since it began."""
    return DestinationReplacedError(
        f"{_shown(destination)} was published by another run or program after this attempt began. This attempt ends, "
        "and replaces nothing; the next one begins from the file as it is then, and repeats no request. If two tasks "
        "write there on purpose, give each a destination of its own, or set max_active_runs=1.",
        service="storage",
    )


def unknown_version_error(file: object, version: object) -> PermanentError:
    """Return the error for a log of a version that this package does not know."""
    return PermanentError(
        f"{_shown(file)} has version {str(version)[:20]!r}, which this version of airflow-provider-mediaops does not "
        "know (it knows 1). Install the version that wrote it, or a later one; or, if no task writes there, delete it, "
        "and what is staged is written anew.",
        service="storage",
    )


def unconditional_error(record: object, reason: str = "") -> PermanentError:
    """Return the error for a record that two tasks could create at once where it is."""
    reason = reason or "its store, or the store's client, does not refuse to create a file that is there"
    return PermanentError(
        f"{_shown(record)} cannot be kept: {reason}, so two tasks could do the same work at once. Choose a folder on "
        "S3, Google Cloud Storage, Azure or another store with conditional writes, or on a disk with hard links (ext4, "
        "XFS, NFS) that all workers share.",
        service="storage",
    )


def _shown(path: object) -> str:
    return unsigned(str(path))
