"""Whose a dataset is: the task instance that writes it, and what it has published."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import DestinationInUseError

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


def _at(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
