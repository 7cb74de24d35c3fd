"""The names below the hidden folder of a dataset: which attempt has written what."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What follows the claim in the name of the frame that ends a log.
LAST = "last"

_NAME = re.compile(r"([0-9]{4,18})-([0-9a-f]{8})(?:-([0-9]{6,18}|last))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """One attempt: the highest one is in force."""

    number: int  # one higher than the highest that the attempt has listed
    token: str  # makes two attempts with one number differ

    def __str__(self) -> str:
        return f"{self.number:04}-{self.token}"


def new_token() -> str:
    """Return eight random digits."""
    return secrets.token_hex(4)


def read_name(name: str) -> tuple[Claim, str] | None:
    """Return the claim in a name, and what follows it: nothing, the number of a segment, or ``last``."""
    found = _NAME.fullmatch(name)
    return (Claim(int(found[1]), found[2]), found[3] or "") if found else None


def claims_in(names: Iterable[str]) -> set[Claim]:
    """Return the claims that a listing shows."""
    return {found[0] for name in names if (found := read_name(name))}


def next_claim(names: Iterable[str]) -> Claim:
    """Return a claim that is higher than all that a listing shows."""
    return Claim(1 + max((claim.number for claim in claims_in(names)), default=0), new_token())


def segment_name(claim: Claim, number: int) -> str:
    """Return the name of the object that holds one frame."""
    return f"{claim}-{number:06}"


def last_name(claim: Claim) -> str:
    """Return the name of the frame that ends a log."""
    return f"{claim}-{LAST}"
