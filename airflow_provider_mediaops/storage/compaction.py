"""
Which parts of a dataset are merged, so that a run of days does not leave a part a second.

Parts have levels, as the files of a log-structured store have: a commit is of level 0, and so many neighbours of one
level make one part of the next. So each record is written again only once a level. A part of half the largest size is
full: it stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.storage.parts import Part
    from airflow_provider_mediaops.storage.records import Extent


@dataclass(frozen=True, slots=True)
class Piece:
    """
    A part that may yet be merged.

    :param part: its name.
    :param before: the records before it.
    :param size: the length of its own records in bytes.
    :param level: how often its records were merged.
    """

    part: Part
    before: Extent
    size: int
    level: int = 0


@dataclass(frozen=True, slots=True)
class Tiers:
    """
    How parts are merged.

    :param fan_in: so many neighbours of one level make one of the next; at least two.
    :param largest: a merged part has fewer bytes of records than this.
    """

    fan_in: int = 64
    largest: int = 8 * 1024 * 1024

    def due(self, pieces: Sequence[Piece]) -> int:
        """
        Say what is to be merged after a commit.

        Always the last pieces, so that the merged part ends with the state that was saved last.

        :param pieces: what an attempt has written, in order.
        :returns: how many of the last pieces make one; 0 for none.
        """
        full = self.largest // 2
        due = size = level = 0
        while size < full:
            count, found = 0, size
            # What is merged of the levels below will be one of this level.
            units = 1 if due else 0
            while due + count < len(pieces):
                piece = pieces[-1 - due - count]
                if piece.level != level or piece.size >= full:
                    break
                count, found, units = count + 1, found + piece.size, units + 1
            if units < 2 or (units < self.fan_in and found < full):  # noqa: PLR2004
                break
            due, size, level = due + count, found, level + 1
        return due
