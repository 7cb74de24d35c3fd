"""A capture that waits for its page with its text compressed, so that those of a series hardly add up in memory."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.folded import tally_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.folded import Tally
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
    from airflow_provider_mediaops.cluster.models import NodeCpu
    from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
    from airflow_provider_mediaops.cluster.statistics import NodeStatistics

_CHUNK_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True)
class PackedCapture:
    """One of the captures of a page; what is None is unknown."""

    packed: bytes  # the text, compressed
    tally: Tally  # the threads of the report, counted by their kinds
    taken: datetime | None = None
    cpu: Sequence[NodeCpu] | None = None  # of the nodes at that moment
    remarks: tuple[str, ...] = ()
    path: str | None = None  # of the file that holds the whole text
    cause: str = ""  # why it was taken; empty if it is unknown
    running_tasks: RunningTasks | None = None
    statistics: Sequence[NodeStatistics] | None = None

    @classmethod
    def of(cls, capture: Capture, path: str | None = None) -> PackedCapture:
        """Pack a capture."""
        return cls(
            packed=_packed(capture.text),
            tally=tally_of(capture.report),
            taken=capture.taken,
            cpu=capture.stats.nodes if capture.stats else None,
            remarks=capture.all_remarks,
            path=path,
            cause=capture.cause,
            running_tasks=capture.running_tasks,
            statistics=capture.statistics,
        )

    @property
    def text(self) -> str:
        """The text, decompressed at each access."""
        return zlib.decompress(self.packed).decode("utf-8", "surrogatepass")

    @property
    def report(self) -> HotThreadsReport:
        """The report, parsed at each access."""
        from airflow_provider_mediaops.cluster.hot_threads import parse

        return parse(self.text)


def _packed(text: str) -> bytes:
    # In pieces, so that the bytes of a large text are not in memory as a whole.
    compressor = zlib.compressobj(1)
    pieces = [
        compressor.compress(text[start : start + _CHUNK_CHARACTERS].encode("utf-8", "surrogatepass"))
        for start in range(0, len(text), _CHUNK_CHARACTERS)
    ]
    return b"".join([*pieces, compressor.flush()])
