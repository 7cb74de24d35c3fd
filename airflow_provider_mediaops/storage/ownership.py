"""The owner of a dataset (the task instance that writes it), the receipt of what it has published, and their errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import DestinationInUseError, PermanentError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Owner:
    """
    The task instance that writes a dataset, and how.

    :param task: the task instance: DAG, run, task and map index.
    :param parameters: a digest of everything that decides what the dataset holds.
    :param clears: a number that Airflow raises when the task is cleared (``max_tries``), and that its retries share.
    :param run_start: when its run began, which distinguishes it from a deleted run of the same name. It is not compared
        when an attempt resumes.
    """

    task: str
    parameters: str
    clears: int = 0
    run_start: str = ""

    def continues(self, other: Owner) -> bool:
        """
        Check whether this is another attempt at the same dataset, so that it resumes.

        :param other: the owner of the earlier attempt.
        :returns: True if task and parameters are the same; a task that was cleared after a failure resumes too.
        """
        return (self.task, self.parameters) == (other.task, other.parameters)

    def is_mapped_beside(self, other: Owner) -> bool:
        """
        Check whether both are instances of one mapped task in one run, so that neither dataset replaces the other.

        :param other: the owner of the published dataset.
        :returns: True if the map index and the parameters differ, but nothing else; after a clear both are new
            attempts at the whole.
        """
        task, _, index = self.task.rpartition("/")
        its_task, _, its_index = other.task.rpartition("/")
        if self.parameters == other.parameters or index == its_index:
            return False
        if not (index.isdecimal() and its_index.isdecimal()):
            return False
        return (task, self.clears, self.run_start) == (its_task, other.clears, other.run_start)


@dataclass(frozen=True, slots=True)
class Receipt:
    """
    The record of a published dataset.

    :param owner: the task that published it.
    :param summary: the return value of the task; plain values.
    :param digest: the digest of its content, if one was given.
    :param identity: differs once the file is replaced.
    """

    owner: Owner
    summary: Mapping[str, Any]
    digest: str | None
    identity: str

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any] | None) -> Receipt | None:
        """Return the receipt of the values from :meth:`to_dict`, or None for None."""
        return cls(**{**fields, "owner": Owner(**fields["owner"])}) if fields else None


def overwritten(destination: object, writer: str) -> PermanentError:
    """
    Return the error for a mapped task whose destination another instance of the same task has published.

    :param destination: the path.
    :param writer: the task that has published it.
    """
    return PermanentError(
        f"{destination} is the dataset of {writer}, mapped beside this task in the same run, and would be lost: give "
        "each mapped task a destination of its own, for example with {{ ti.map_index }} in it.",
        service="storage",
    )


def in_use(destination: object, holder: str, since: float, ends: float | None = None) -> DestinationInUseError:
    """
    Return the error for a destination that another task is writing.

    :param destination: the path.
    :param holder: the task that is writing it.
    :param since: its last sign of life, in seconds since 1970.
    :param ends: when it counts as dead without another; None if the system frees the destination when it dies.
    """
    what = "This attempt ends; it can be repeated when that one is done, or give each task a destination of its own."
    if ends is not None:
        what = f"If that task is dead, the destination is free at {_at(ends)}. {what}"
    return DestinationInUseError(
        f"{destination} is being written by {holder or 'another task'}, last heard of at {_at(since)}. {what}",
        service="storage",
    )


def taken_away(destination: object, lease: str) -> DestinationInUseError:
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


def not_understood(destination: object, lease: str, why: str) -> DestinationInUseError:
    """
    Return the error for a destination whose lease cannot be understood.

    :param destination: the path.
    :param lease: the object that holds the lease.
    :param why: what is wrong with it.
    """
    return DestinationInUseError(
        f"{destination} may be in use: the object {lease}, which names its writer, cannot be understood ({why}). A "
        "newer version of this provider may have written it: then upgrade this worker. If no task writes the "
        "destination, remove that object and repeat the task.",
        service="storage",
    )


def replaced_newer(destination: object, writer: str) -> DestinationInUseError:
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


def _at(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
