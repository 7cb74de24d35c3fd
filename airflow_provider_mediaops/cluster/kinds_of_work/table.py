"""Read the table of the kinds of work, `kinds.ini`, which explains its fields."""

from __future__ import annotations

from configparser import ConfigParser
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class KindOfWork(NamedTuple):
    """One kind of work."""

    id: str  # its family, a dot and its own name
    rank: int  # decides between several kinds of one stack: the highest wins
    label: str
    look: str  # what to look at next
    example: str = ""  # a frame that tells it; empty if only pools do
    frames: tuple[str, ...] = ()  # the names, one of which is in a frame that tells it
    unless: tuple[str, ...] = ()  # the names that exclude it, anywhere in the stack
    within: int = 0  # how many of the innermost frames count; 0 counts all
    pools: tuple[str, ...] = ()  # whose threads do this if no frame tells more

    @property
    def family(self) -> str:
        """Return the name of its family."""
        return self.id.partition(".")[0]


#: The kind of a stack in which no frame tells one, of a thread whose pool tells none.
OTHER = KindOfWork("other", 0, "Other: no frame tells a known kind", "Read the stack in the flame graph.")


@cache
def kinds_of_work() -> tuple[KindOfWork, ...]:
    """Return the kinds of the table."""
    table = ConfigParser(delimiters=("=",), interpolation=None)
    table.read_string(files(__package__).joinpath("kinds.ini").read_text("utf-8"))
    return tuple(_read_kind(name, **table[name]) for name in table.sections())


def _read_kind(
    name: str,
    *,
    rank: str,
    label: str,
    look: str,
    example: str = "",
    frames: str = "",
    unless: str = "",
    within: str = "0",
    pools: str = "",
) -> KindOfWork:
    return KindOfWork(
        id=name,
        rank=int(rank),
        label=label,
        look=" ".join(look.split()),
        example=example,
        frames=tuple(frames.split()),
        unless=tuple(unless.split()),
        within=int(within),
        pools=tuple(filter(None, pools.split("\n"))),
    )


def label_of_id(kind_id: str) -> str:
    """Return a kind in words; an id that this version does not know stands for itself."""
    return next((kind.label for kind in (*kinds_of_work(), OTHER) if kind.id == kind_id), kind_id)
