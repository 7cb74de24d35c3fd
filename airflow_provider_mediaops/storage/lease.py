"""
The lease of a destination on an object store: an object beside it, which becomes a receipt when it is published.

Object stores have no locks, so a lease expires: it holds until its owner has written nothing for 15 minutes. Each lease
has an epoch, higher than that of every lease before it, and a random token. Both are in the names of all objects that
its owner stages, so one attempt's objects are not taken for another's.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.errors import lease_unreadable_error, unknown_version_error
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.ownership import Owner, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_mediaops.storage.segments import Segment

T = TypeVar("T")

_VERSION = 1
_TOKEN = re.compile("[0-9a-f]*")
_LATEST_TIME = datetime(9999, 1, 1, tzinfo=timezone.utc).timestamp()
#: Seconds without a write by its owner, after which another task may acquire a lease.
STALE_AFTER_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Lease:
    """
    The content of the lease object.

    :param owner: the task that writes the destination; None if no task does.
    :param since: when the lease was acquired, in seconds since 1970, by its owner's clock.
    :param released: whether the owner has released it, so that any task may acquire it at once.
    :param token: the token in the names of the objects of the attempt that holds it, or held it last.
    :param epoch: the number of the lease; 0 for one that nobody has acquired.
    :param earlier: the tokens of the attempts that this one resumes, oldest first.
    :param last_receipt: the latest receipt. It may describe an earlier file than that at the destination. None if there
        was no file, or no receipt.
    """

    owner: Owner | None = None
    since: float = 0.0
    released: bool = False
    token: str = ""
    epoch: int = 0
    earlier: tuple[str, ...] = ()
    last_receipt: Receipt | None = None

    def to_bytes(self) -> bytes:
        """Return the content of the object."""
        return json_line({"version": _VERSION, **asdict(self)})

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Lease:
        """
        Parse the content of the object.

        :param data: the content.
        :param name: the path of the object, for messages.
        :raises ValueError: if it is no lease.
        :raises PermanentError: if another version of this package has written it.
        """
        try:
            fields: Mapping[str, Any] = parse_json(data)
            version = fields["version"]
            if version != _VERSION:
                raise unknown_version_error(name, version)
            return cls(
                owner=Owner.from_dict(fields["owner"]) if fields["owner"] else None,
                since=seconds_since_1970(fields["since"]),
                released=_checked(fields["released"], bool),
                token=_token(fields["token"]),
                epoch=_epoch(fields["epoch"]),
                earlier=tuple(map(_token, _checked(fields["earlier"], list))),
                last_receipt=Receipt.from_dict(receipt) if (receipt := fields["last_receipt"]) else None,
            )
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError("a field is missing or of another type") from error

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of all attempts whose objects count, oldest first."""
        return (*self.earlier, self.token)

    def is_free_for(self, owner: Owner) -> bool:
        """
        Return whether a task may acquire this lease, whatever its age.

        :param owner: the task. A later attempt of the owner's task may: Airflow runs one at a time.
        """
        return self.owner is None or self.released or self.owner.task == owner.task

    def acquired_by(
        self, owner: Owner, token: str, since: float, segments: Iterable[Segment], found_receipt: Receipt | None
    ) -> Lease:
        """
        Return the next lease.

        :param owner: the task that acquires it.
        :param token: the new token.
        :param since: the time, in seconds since 1970.
        :param segments: the staged objects, so that the epoch is higher than any even if the lease was removed.
        :param found_receipt: the latest receipt, if there is a file at the destination. A lease that resumes keeps that
            of the first one: all that is staged is judged by it, even if the file has been removed since.
        """
        staged = list(segments)
        epoch = 1 + max([self.epoch, *(segment.epoch for segment in staged)])
        earlier: tuple[str, ...] = ()
        last_receipt = found_receipt
        if self.owner and owner.continues(self.owner, self.last_receipt):
            # The last attempt may be staging its first object just now, so it counts in any case.
            written = {segment.token for segment in staged}
            earlier = (*(each for each in self.earlier if each in written), self.token)
            last_receipt = self.last_receipt
        return Lease(owner, since, token=token, epoch=epoch, earlier=earlier, last_receipt=last_receipt)


def _checked(value: Any, kind: type[T]) -> T:
    # JSON's true is an int for isinstance, too.
    if type(value) is not kind:
        raise TypeError("a field is of another type")
    checked: T = value
    return checked


def _token(value: Any) -> str:
    if not _TOKEN.fullmatch(_checked(value, str)):
        raise ValueError("a token is not hexadecimal")
    return str(value)


def _epoch(value: Any) -> int:
    if (epoch := _checked(value, int)) < 0:
        raise ValueError("its epoch is negative")
    return epoch


def seconds_since_1970(value: Any) -> float:
    """
    Return a time that was written by a lease's owner.

    :param value: the number, or its digits.
    :raises ValueError: if it is no number; or no date, as which messages show it, and the time when the lease expires.
    :raises TypeError: for other types.
    """
    if not 0.0 <= (seconds := float(value)) <= _LATEST_TIME:
        raise ValueError("its time is no date")
    return seconds


def parse_lease(content: bytes | None, name: str, destination: object) -> Lease:
    """
    Parse the object that holds the lease of a destination.

    :param content: its content; None if there is none.
    :param name: its path, for messages.
    :param destination: the destination, for messages.
    :returns: the lease; one without an owner if there is no object.
    :raises DestinationInUseError: if it cannot be understood.
    :raises PermanentError: if another version of this package has written it.
    """
    if content is None:
        return Lease()
    try:
        return Lease.from_bytes(content, name)
    except ValueError as error:
        raise lease_unreadable_error(destination, name, str(error)) from error
