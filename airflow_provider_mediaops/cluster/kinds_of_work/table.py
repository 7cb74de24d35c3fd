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
    without_index: str = ""  # a sentence behind the advice if the thread's name says no index

    @property
    def family(self) -> str:
        """Return the name of its family."""
        return self.id.partition(".")[0]

    def advice(self, *, knows_index: bool = False) -> str:
        """Return what to look at next."""
        return self.look if knows_index else f"{self.look} {self.without_index}".rstrip()


#: The kind of a stack in which no frame tells one, of a thread whose pool tells none.
OTHER = KindOfWork("other", 0, "Other: no frame tells a known kind", "Read the stack in the flame graph.")

#: The kind of a stack in which no frame tells one, and whose innermost frame waits: the pool would tell of work.
WAIT = KindOfWork(
    "idle.wait", 0, "Idle: the thread waits, and no frame tells for what", "Read the stack in the flame graph."
)


@cache
def kinds_of_work() -> tuple[KindOfWork, ...]:
    """Return the kinds of the table."""
    return read_kinds(files(__package__).joinpath("kinds.ini").read_text("utf-8"))


def label_of_id(kind_id: str) -> str:
    """Return a kind in words; an id that this version does not know stands for itself."""
    return next((kind.label for kind in (*kinds_of_work(), OTHER, WAIT) if kind.id == kind_id), kind_id)


def read_kinds(text: str) -> tuple[KindOfWork, ...]:
    """
    Read a table of kinds.

    Raise ValueError for an unknown field or a value that is not a number, configparser.Error if it is not an INI file,
    or a kind is in it twice.
    """
    table = ConfigParser(delimiters=("=",), interpolation=None)
    table.read_string(text)
    known = {*KindOfWork._fields} - {"id"}
    for name in table.sections():
        if unknown := set(table[name]) - known:
            raise ValueError(f"The kind {name} has no field {', '.join(sorted(unknown))}.")
    return tuple(
        KindOfWork(
            id=name,
            rank=int(values["rank"]),
            label=values["label"],
            look=" ".join(values["look"].split()),
            example=values.get("example", ""),
            frames=tuple(values.get("frames", "").split()),
            unless=tuple(values.get("unless", "").split()),
            within=int(values.get("within", "0")),
            pools=tuple(filter(None, values.get("pools", "").split("\n"))),
            without_index=values.get("without_index", ""),
        )
        for name, values in ((name, table[name]) for name in table.sections())
    )
