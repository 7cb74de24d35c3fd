"""Name the files of captures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import read_texts, refused
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.cluster.capture.reason import TakenFor

#: The file formats of a capture, in this order: the text as it came, the report that was read from it, its stacks
#: for flame-graph tools, the same below their kinds of work, and a page for people.
FORMATS = ("txt", "json", "folded", "kinds", "html")
#: The most captures of one spike: their summaries share one XCom, and their reports one page.
MOST_CAPTURES = 50


def capture_paths(destination: str, formats: str | Sequence[str], number: int | None = None) -> dict[str, str]:
    """
    Name the files of a capture: the destination, its suffix exchanged for each format's own.

    :param destination: the path of the text; if it ends in no known suffix, one is appended.
    :param formats: any of :data:`FORMATS`, each once, in a list or in one text with commas.
    :param number: which of several captures this is; None if there is only one. All share one page.
    :returns: a path for each format, in the order in which they are written.
    :raises ValueError: for an unknown format, none at all, or a destination that names no file.
    """
    wanted = read_formats(formats)
    stem, dot, suffix = destination.rpartition(".")
    stem = stem if dot and suffix in FORMATS else destination
    if not stem or stem.endswith("/"):
        raise InvalidArgumentError(f"destination is the path of a file; not {destination!r}.")
    own = stem if number is None else f"{stem}.{number}"
    return {name: f"{stem if name == 'html' else own}.{name}" for name in FORMATS if name in wanted}


def read_formats(formats: object) -> tuple[str, ...]:
    """Read the formats of a capture."""
    wanted = read_texts("formats", formats)
    if not set(wanted) <= set(FORMATS) or len(set(wanted)) != len(wanted):
        raise refused("formats", formats, f"lists one or more of {', '.join(FORMATS)}, each once")
    return wanted


@dataclass(frozen=True, slots=True)
class CaptureDestination:
    """
    Where the captures of a spike go.

    :param path: the path of the text; its suffix is exchanged for each format's own.
    :param formats: any of :data:`FORMATS`, each once.
    :param captures: how many captures there will be; the files of several are numbered.
    :param taken_for: the task attempt or DAG run that the page names; None if there is none.
    :raises ValueError: for an unknown format, none at all, or a destination that names no file.
    """

    path: str
    formats: str | Sequence[str]
    captures: int = 1
    taken_for: TakenFor | None = None

    def __post_init__(self) -> None:
        self.paths(1)

    def paths(self, number: int) -> dict[str, str]:
        """Name the files of a capture."""
        return capture_paths(self.path, self.formats, number if self.captures > 1 else None)
