"""
Who has an object store's destination, as one object beside it: a claim while it is written, then a receipt.

Object stores have no locks, so a claim is a matter of time: it holds until its owner has shown no sign of life for a
while. Every part that is written is such a sign.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.ownership import Owner, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_VERSION = 1
#: Seconds without a sign of life after which another task may take a destination over.
STALE_AFTER = 900.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """
    One attempt at a dataset.

    :param token: marks the parts that it wrote.
    :param upto: the number of the last of its parts that counts; None for the attempt that writes now.
    """

    token: str
    upto: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """
    The name of one part: a commit as an object.

    :param number: its place, from 1.
    :param token: the attempt that wrote it.
    :param written: when, in whole seconds since 1970.
    """

    number: int
    token: str
    written: int

    @property
    def name(self) -> str:
        """The object's name, below the folder of parts."""
        return f"{self.number:08d}.{self.token}.{self.written}"

    @classmethod
    def of(cls, name: str) -> Part | None:
        """Read a name; None for that of another thing."""
        words = name.split(".")
        if len(words) != 3 or not (words[0].isdecimal() and words[2].isdecimal()):  # noqa: PLR2004
            return None
        return cls(int(words[0]), words[1], int(words[2]))


@dataclass(frozen=True, slots=True)
class Claim:
    """
    What the object beside a destination says.

    :param owner: who writes the destination, or is to go on; None where nobody does.
    :param since: when it was claimed, in seconds since 1970.
    :param released: whether the owner has let go of it, so that anyone may take it over.
    :param attempts: the owner's attempts, in order.
    :param last: the receipt of what was published before.
    """

    owner: Owner | None = None
    since: float = 0.0
    released: bool = False
    attempts: tuple[Attempt, ...] = ()
    last: Receipt | None = None

    def to_bytes(self) -> bytes:
        """Give the content of the object."""
        last = self.last.to_dict() if self.last else None
        return json_line({"version": _VERSION, **asdict(replace(self, last=None)), "last": last})

    @classmethod
    def from_bytes(cls, data: bytes) -> Claim:
        """Read the object; an empty claim where it cannot be read."""
        import pydantic_core

        try:
            fields: Mapping[str, Any] = pydantic_core.from_json(data)
            if fields["version"] != _VERSION:
                return cls()
            return cls(
                owner=Owner(**fields["owner"]) if fields["owner"] else None,
                since=fields["since"],
                released=fields["released"],
                attempts=tuple(Attempt(**each) for each in fields["attempts"]),
                last=Receipt.from_dict(fields["last"]),
            )
        except (ValueError, KeyError, TypeError):
            return cls()

    @property
    def token(self) -> str:
        """The mark of the attempt that writes now."""
        return self.attempts[-1].token if self.attempts else ""

    def seen(self, parts: Iterable[Part]) -> float:
        """
        Say when its owner gave a sign of life last.

        :param parts: the parts that are there.
        :returns: seconds since 1970.
        """
        return max([self.since, *(float(part.written) for part in parts if part.token == self.token)])

    def counting(self, parts: Iterable[Part]) -> list[Part]:
        """
        Pick the parts that count: an attempt that was thought dead and wrote on has left others.

        :param parts: the parts that are there.
        :returns: those of each attempt up to where the next took over, in order, without a gap.
        """
        by_place = {(part.number, part.token): part for part in parts}
        found: list[Part] = []
        for attempt in self.attempts:
            while attempt.upto is None or len(found) < attempt.upto:
                part = by_place.get((len(found) + 1, attempt.token))
                if part is None:
                    break
                found.append(part)
        return found

    def taken_over(self, owner: Owner, token: str, since: float, upto: int) -> Claim:
        """
        Give the claim of the next attempt.

        :param owner: who makes it.
        :param token: its mark.
        :param since: when it begins.
        :param upto: the number of the last part that it goes on from.
        """
        earlier = [*self.attempts[:-1], *(replace(each, upto=upto) for each in self.attempts[-1:])]
        ends = [0, *(each.upto or 0 for each in earlier)]
        kept = [each for each, before in zip(earlier, ends, strict=False) if (each.upto or 0) > before]
        return Claim(owner, since, released=False, attempts=(*kept, Attempt(token)), last=self.last)
