"""Keep the captures of a series on the disk until their page is written, so that they do not add up in memory."""

from __future__ import annotations

import json
import tempfile
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, overload

from airflow_provider_mediaops.cluster.folded import tally_of
from airflow_provider_mediaops.cluster.models import NodeCpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.folded import Tally
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
    from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
    from airflow_provider_mediaops.cluster.statistics import NodeStatistics

# A series that takes less when compressed needs no file.
_MOST_IN_MEMORY_BYTES = 1 << 20
_CHUNK_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True)
class SpooledCapture:
    """
    A capture whose text is on the disk; one of the captures of a page.

    :param taken: when it was asked for.
    :param remarks: sentences about how it was taken.
    :param path: the file that holds its text; None if there is none.
    :param tally: the threads of its report, counted by their kinds.
    :param read_cpu: reads the CPU of the nodes; None if it is unknown.
    :param read_tasks: reads the tasks that ran on the nodes; None if nobody asked for them.
    :param read_nodes: reads the statistics of the nodes; None if they are not known.
    """

    taken: datetime | None
    remarks: tuple[str, ...]
    path: str | None
    cause: str
    tally: Tally
    read_text: Callable[[], str]
    read_cpu: Callable[[], str] | None
    read_tasks: Callable[[], str] | None = None
    read_nodes: Callable[[], str] | None = None

    @property
    def text(self) -> str:
        """The text, read from the disk at each access."""
        return self.read_text()

    @property
    def report(self) -> HotThreadsReport:
        """The report, parsed at each access."""
        from airflow_provider_mediaops.cluster.hot_threads import parse

        return parse(self.text)

    @property
    def cpu(self) -> list[NodeCpu] | None:
        """The CPU of the nodes, read from the disk at each access."""
        if self.read_cpu is None:
            return None
        return [NodeCpu(**{**node, "roles": tuple(node["roles"])}) for node in json.loads(self.read_cpu())]

    @property
    def running_tasks(self) -> RunningTasks | None:
        """The tasks that ran on the nodes, read from the disk at each access."""
        if self.read_tasks is None:
            return None
        from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks

        return RunningTasks.from_dict(json.loads(self.read_tasks()))

    @property
    def statistics(self) -> Sequence[NodeStatistics] | None:
        """The statistics of the nodes, read from the disk at each access."""
        return None if self.read_nodes is None else json.loads(self.read_nodes())


class CaptureSpool(Sequence[SpooledCapture]):
    """
    The captures of a series, compressed in a temporary file without a name, which ends with this object.

    In memory are, of each capture, its remarks and its position in the file.
    """

    def __init__(self) -> None:
        self._captures: list[SpooledCapture] = []
        self._file = tempfile.SpooledTemporaryFile(max_size=_MOST_IN_MEMORY_BYTES)  # noqa: SIM115 closed by finalize
        self.close = weakref.finalize(self, self._file.close)

    def add(self, capture: Capture, path: str | None) -> None:
        """
        Add a capture.

        :param path: the file that holds its text; None if there is none.
        :raises OSError: if the temporary file cannot be written; the message names its folder.
        """
        try:
            read_text = self._write(capture.text)
            nodes = capture.stats and [node.to_dict() for node in capture.stats.nodes]
            read_cpu = None if nodes is None else self._write(json.dumps(nodes))
            tasks = capture.running_tasks
            read_tasks = None if tasks is None else self._write(json.dumps(tasks.to_dict()))
            read_nodes = None if capture.statistics is None else self._write(json.dumps(capture.statistics))
        except OSError as error:
            message = f"The captures of a page cannot be kept in {tempfile.gettempdir()}: {error.strerror or error}"
            raise OSError(error.errno, f"{message}. Make room there, or set TMPDIR to another folder") from error
        tally = tally_of(capture.report)
        about = (capture.taken, capture.all_remarks, path, capture.cause, tally)
        self._captures.append(SpooledCapture(*about, read_text, read_cpu, read_tasks, read_nodes))

    def __len__(self) -> int:
        return len(self._captures)

    @overload
    def __getitem__(self, number: int) -> SpooledCapture: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[SpooledCapture]: ...

    def __getitem__(self, number: int | slice) -> SpooledCapture | Sequence[SpooledCapture]:
        return self._captures[number]

    def _write(self, text: str) -> Callable[[], str]:
        start = self._file.seek(0, 2)
        for piece in _compressed(text):
            self._file.write(piece)
        return partial(_read, self._file, start, self._file.tell() - start)


def _read(file: IO[bytes], start: int, size: int) -> str:
    file.seek(start)
    return zlib.decompress(file.read(size)).decode("utf-8", "surrogateescape")


def _compressed(text: str) -> Iterable[bytes]:
    # In pieces, so that neither the bytes of a large text nor its compressed form are in memory as a whole.
    compressor = zlib.compressobj(1)
    for start in range(0, len(text), _CHUNK_CHARACTERS):
        yield compressor.compress(text[start : start + _CHUNK_CHARACTERS].encode("utf-8", "surrogateescape"))
    yield compressor.flush()
