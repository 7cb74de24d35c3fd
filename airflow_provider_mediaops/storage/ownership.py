"""Whose a dataset is: the task instance that writes it, and what it has published."""

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
    :param clears: a figure that Airflow raises when the task is cleared (``max_tries``), and that its retries share.
    :param run_start: when its run began, which tells it from a deleted run of the same name; it is not compared where a
        stage is gone on with.
    """

    task: str
    parameters: str
    clears: int = 0
    run_start: str = ""

    def continues(self, other: Owner) -> bool:
        """
        Say whether this is another attempt at the same.

        :param other: who began.
        :returns: True where task and parameters are the same; a task that was cleared after a failure goes on too.
        """
        return (self.task, self.parameters) == (other.task, other.parameters)

    def is_mapped_beside(self, other: Owner) -> bool:
        """
        Say whether both are of one mapped task in one run, so that one's dataset is no older version of the other's.

        :param other: who has published.
        :returns: True where the map index and the parameters differ, but nothing else; a clear in between makes it
            another attempt at the whole.
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
    What was published at a destination.

    :param owner: by whom.
    :param summary: what the task returns of it; plain values.
    :param digest: the digest of its content, where one was given.
    :param identity: tells whether the file is still the one that was published.
    """

    owner: Owner
    summary: Mapping[str, Any]
    digest: str | None
    identity: str

    def to_dict(self) -> dict[str, Any]:
        """Give the receipt as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any] | None) -> Receipt | None:
        """Give the receipt that :meth:`to_dict` described, or None for None."""
        return cls(**{**fields, "owner": Owner(**fields["owner"])}) if fields else None


def overwritten(destination: object, writer: str) -> PermanentError:
    """
    Make the error of a mapped task whose destination another one, mapped beside it, has published.

    :param destination: the path.
    :param writer: who has published it.
    :returns: the error; it says what to do.
    """
    return PermanentError(
        f"{destination} is the dataset of {writer}, mapped beside this task in the same run, and would be lost: give "
        "each mapped task a destination of its own, for example with {{ ti.map_index }} in it.",
        service="storage",
    )


def in_use(destination: object, holder: str, since: float, ends: float | None = None) -> DestinationInUseError:
    """
    Make the error of a destination that another task is writing.

    :param destination: the path.
    :param holder: the task that has it.
    :param since: its last sign of life, in seconds since 1970.
    :param ends: when it counts as dead without another; None where the system frees the destination as it dies.
    :returns: the error; it says what to do.
    """
    what = "This attempt ends; it can be repeated when that one is done, or give each task a destination of its own."
    if ends is not None:
        what = f"If that task is dead, the destination is free at {_at(ends)}. {what}"
    return DestinationInUseError(
        f"{destination} is being written by {holder or 'another task'}, last heard of at {_at(since)}. {what}",
        service="storage",
    )


def taken_away(destination: object, claim: str) -> DestinationInUseError:
    """
    Make the error of a destination whose claim is not there any more.

    :param destination: the path.
    :param claim: the object that held the claim.
    :returns: the error; it says what to do.
    """
    return DestinationInUseError(
        f"{destination} is no longer this task's: the object {claim}, which says whose it is, was removed, or another "
        "task has published there. This attempt ends; the next one begins anew.",
        service="storage",
    )


def _at(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
