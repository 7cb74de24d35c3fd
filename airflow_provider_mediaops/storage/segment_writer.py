"""Write the commits of one attempt to an object store, as segments (see ``segments``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.records import resume_hint
from airflow_provider_mediaops.storage.segments import Position, Segment, content_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.records import Extent
    from airflow_provider_mediaops.storage.store_objects import StoreObjects


class SegmentWriter:
    """
    The segments of one attempt.

    :param objects: the objects of the destination.
    :param epoch: the epoch of the attempt's lease.
    :param token: the token of that lease.
    :param extent: the records that are committed already: the attempt resumes after them.
    :param segment_bytes: a segment with at least this many bytes of records is complete.
    """

    def __init__(self, objects: StoreObjects, epoch: int, token: str, extent: Extent, segment_bytes: int) -> None:
        self._objects = objects
        self._epoch, self._token = epoch, token
        self._segment_bytes = segment_bytes
        self._extent = extent
        self._after = Position.at_end_of(extent)
        self._number = self._serial = 0
        # The current segment: where it begins, its records, and its newest copy.
        self._start, self._data, self._copy = self._after, b"", ""
        #: The names of copies of which a longer one is written, so that they can be removed.
        self.superseded: list[str] = []

    def write(self, data: bytes, extent: Extent, state: Any) -> None:
        """
        Write the current segment under a new name, one commit longer (step 8).

        :param data: the lines of the commit.
        :param extent: all records up to their end.
        :param state: the state of the commit.
        :raises OSError: if the store refuses or cannot be reached; the message names the destination.
        """
        number, start, earlier, superseded = self._number, self._start, self._data, self._copy
        if len(earlier) >= self._segment_bytes or not superseded:
            number, start, earlier, superseded = number + 1, Position.at_end_of(self._extent), b"", ""
        # If this write fails, the store may have done it all the same. The next copy has another name, and a higher
        # serial number.
        self._serial += 1
        name = Segment(self._epoch, self._token, number, self._serial, self._after).name
        both = earlier + data
        self._objects.write_staged(name, content_of(start, extent, state, both), resume_hint(self._extent))
        if superseded:
            self.superseded.append(superseded)
        self._extent = extent
        self._number, self._start, self._data, self._copy = number, start, both, name
