"""
Who has an object store's destination, as one object beside it: a claim while it is written, then a receipt.

Object stores have no locks, so a claim is a matter of time: it holds until its owner has shown no sign of life for a
while. Every part that is written is such a sign.

A claim is written once for an attempt, and only then does the attempt list what it goes on from. So whoever finds the
claim still his own knows that the next attempt will see all that he has written up to then.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.ownership import Owner, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_mediaops.storage.parts import Part

_VERSION = 1
#: Seconds without a sign of life after which another task may take a destination over.
STALE_AFTER = 900.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """
    An attempt that others have followed.

    :param token: marks the parts that it wrote.
    :param after: the number of the commit that it went on after; 0 for the first.
    """

    token: str
    after: int


@dataclass(frozen=True, slots=True)
class Claim:
    """
    What the object beside a destination says.

    :param owner: who writes the destination, or is to go on; None where nobody does.
    :param since: when it was claimed, in seconds since 1970.
    :param released: whether the owner has let go of it, so that anyone may take it over.
    :param token: marks the parts of the attempt that writes now.
    :param earlier: the attempts before it whose parts may count, in order.
    :param last: the receipt of what was published before.
    """

    owner: Owner | None = None
    since: float = 0.0
    released: bool = False
    token: str = ""
    earlier: tuple[Attempt, ...] = ()
    last: Receipt | None = None

    def to_bytes(self) -> bytes:
        """Give the content of the object."""
        last = self.last.to_dict() if self.last else None
        return json_line({"version": _VERSION, **asdict(replace(self, last=None)), "last": last})

    @classmethod
    def from_bytes(cls, data: bytes) -> Claim:
        """Read the object; an empty claim where it cannot be read."""
        try:
            fields: Mapping[str, Any] = parse_json(data)
            if fields["version"] != _VERSION:
                return cls()
            return cls(
                owner=Owner(**fields["owner"]) if fields["owner"] else None,
                since=fields["since"],
                released=fields["released"],
                token=fields["token"],
                earlier=tuple(Attempt(**each) for each in fields["earlier"]),
                last=Receipt.from_dict(fields["last"]),
            )
        except (ValueError, KeyError, TypeError):
            return cls()

    def seen(self, parts: Iterable[Part]) -> float:
        """
        Say when its owner gave a sign of life last.

        :param parts: the parts that are there.
        :returns: seconds since 1970.
        """
        return max([self.since, *(float(part.written) for part in parts if part.token == self.token)])

    def counting(self, parts: Iterable[Part]) -> list[Part]:
        """
        Pick the parts that count: all commits up to the first that is missing, each once.

        There may be others: small ones that a merged part has replaced, and what an attempt that was thought dead has
        written or merged after the next one began.

        :param parts: the parts that are there.
        :returns: those that count, in order.
        """
        # Of parts with one beginning the longest comes last, and of several tries at one the newest.
        in_order = sorted(parts, key=lambda part: (part.last, part.written))
        begun = self._begun(in_order)
        found: list[Part] = []
        reached = 0
        for index, attempt in enumerate(begun):
            upto = min((later.after for later in begun[index + 1 :]), default=math.inf)
            own = {part.first: part for part in in_order if part.token == attempt.token and part.last <= upto}
            while part := own.get(reached + 1):
                found.append(part)
                reached = part.last
        return found

    def taken_over(self, owner: Owner, token: str, since: float, parts: Iterable[Part]) -> Claim:
        """
        Give the claim of the next attempt; where that goes on, the names of its parts are to say.

        :param owner: who makes it.
        :param token: its mark.
        :param since: when it begins.
        :param parts: the parts that are there.
        """
        return Claim(owner, since, released=False, token=token, earlier=self._begun(parts), last=self.last)

    def _begun(self, parts: Iterable[Part]) -> tuple[Attempt, ...]:
        """Give the attempts whose parts may count; the last one, only where it has written any."""
        after = next((part.after for part in parts if part.token == self.token), None)
        return self.earlier if after is None else (*self.earlier, Attempt(self.token, after))
