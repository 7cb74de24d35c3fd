"""The owner of a dataset (the task instance that writes it), and the receipt of a published dataset."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

# Enough for late attempts. Each lease and each journal repeats them, so more would make these longer.
_MOST_EARLIER_OWNERS = 10


def task_of(context: Mapping[str, Any]) -> str | None:
    """
    Return the task instance of a context: DAG, run, task and map index.

    :param context: the task's.
    :returns: the text; None outside of a task.
    """
    instance = context.get("ti")
    if instance is None:
        return None
    map_index = -1 if instance.map_index is None else instance.map_index
    return f"{instance.dag_id}/{instance.run_id}/{instance.task_id}/{map_index}"


@dataclass(frozen=True, slots=True)
class Owner:
    """
    The task instance that writes a dataset, with its parameters.

    :param task: the task instance: DAG, run, task and map index.
    :param parameters: a digest of all parameters that determine the content of the dataset.
    :param clears: a number that Airflow sets when the task is cleared (``max_tries``), and that its retries share. It
        grows, unless the task is given fewer retries.
    :param run_start: when its run began, or began anew by a clear after its end; in ISO 8601 and UTC. It distinguishes
        the run from a deleted one of the same name, of which an attempt resumes all the same.
    """

    task: str
    parameters: str
    clears: int = 0
    run_start: str = ""

    @classmethod
    def from_dict(cls, fields: Any) -> Owner:
        """
        Return the owner that a file names.

        :param fields: its fields, as they were read. Anybody may have changed the file.
        :returns: the owner.
        :raises TypeError: if they are not those of an owner.
        :raises ValueError: if a text cannot be encoded.
        """
        owner = cls(**fields)
        texts = (owner.task, owner.parameters, owner.run_start)
        if type(owner.clears) is not int or not all(isinstance(text, str) for text in texts):
            raise TypeError("a field of an owner is of another type")
        for text in texts:
            # It is shown to people: no lone surrogate.
            text.encode()
        return owner

    def continues(self, other: Owner, found_receipt: Receipt | None) -> bool:
        """
        Return whether this is another attempt at the same dataset, which resumes it.

        :param other: the owner of the earlier attempt.
        :param found_receipt: the latest receipt when the earlier attempt began. It is judged by that, and not by the
            file of today, which it may have replaced itself before it died.
        :returns: True if task and parameters are the same; a task that was cleared after a failure resumes, too. False
            if the task was cleared since, and the earlier attempt was superfluous: when it began, the same task had
            published in an attempt that is no earlier, by the start of the run and then by its clears.
        """
        if (self.task, self.parameters) != (other.task, other.parameters):
            return False
        # A retry always resumes. Its clears may be lower than those of the attempt that published: a task can be given
        # fewer retries.
        if other == self:
            return True
        writers = found_receipt.owners if found_receipt else ()
        return not any(other._is_superfluous_after(writer) for writer in writers)

    def _is_superfluous_after(self, writer: Owner) -> bool:
        """Return whether this attempt is not later than one of the same task that has published."""
        if (self.task, self.parameters) != (writer.task, writer.parameters):
            return False
        # A clear of a finished run begins the run anew; so does a run that is made again after it was deleted.
        return (self.run_start, self.clears) <= (writer.run_start, writer.clears)

    def is_mapped_beside(self, other: Owner) -> bool:
        """
        Return whether both are instances of one mapped task in one run, which may not replace each other's datasets.

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
    :param earlier_owners: the tasks that published the files before it, newest first, as far as they are known.
    """

    owner: Owner
    summary: Mapping[str, Any]
    digest: str | None
    identity: str
    earlier_owners: tuple[Owner, ...] = ()

    @property
    def owners(self) -> tuple[Owner, ...]:
        """The tasks that have published, newest first."""
        return (self.owner, *self.earlier_owners)

    def after(self, latest: Receipt | None) -> Receipt:
        """
        Return this receipt with the tasks that published before it.

        :param latest: the latest receipt before it; None if there is none.
        :returns: the receipt. It names each task once, and ten earlier ones at most.
        """
        # An attempt that was thought dead may begin once more when another task has published since.
        before = latest.owners if latest else ()
        others = tuple(owner for owner in before if owner != self.owner)
        return replace(self, earlier_owners=others[:_MOST_EARLIER_OWNERS])

    @classmethod
    def from_dict(cls, fields: Any) -> Receipt:
        """
        Return the receipt that a file holds.

        :param fields: its fields, as they were read. Anybody may have changed the file.
        :raises KeyError: if a field is missing.
        :raises TypeError: if a field is missing or of another type.
        :raises ValueError: if a text cannot be encoded, or the identity is empty, which is that of no file.
        """
        earlier = tuple(map(Owner.from_dict, fields["earlier_owners"]))
        receipt = cls(**{**fields, "owner": Owner.from_dict(fields["owner"]), "earlier_owners": earlier})
        if not (isinstance(receipt.summary, dict) and isinstance(receipt.identity, str)):
            raise TypeError("a field of a receipt is of another type")
        if not receipt.identity:
            raise ValueError("a receipt without a file")
        return receipt


@dataclass(frozen=True, slots=True)
class DatasetWork:
    """
    Base class of what a task is to write, in plain values that may travel from the task to a triggerer.

    :param owner: the task instance that writes the dataset, and its parameters: the fields of :class:`Owner`.
    :param destination: the path of the dataset.
    """

    owner: dict[str, Any]
    destination: str

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """
        Return what :meth:`to_dict` described.

        :param values: its fields.
        :raises TypeError: if they are not those of this version of the package.
        """
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    def owned_by(self) -> Owner:
        """Return the owner of the dataset."""
        return Owner(**self.owner)
