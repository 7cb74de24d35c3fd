"""Write captures of hot threads to files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.files import is_local, path_of, write_whole
from airflow_provider_mediaops.storage.path_checks import check_writable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture import Capture, CaptureDestination


class CaptureFiles:
    """
    The files of one or several captures of a spike: some for each capture, and one page for all.

    Readers see each file whole or not at all. An older file of the same name is replaced.

    :param destination: the names of the files.
    :param log: the logger for the paths of the files, and for warnings about what was captured.
    """

    def __init__(self, destination: CaptureDestination, log: Any) -> None:
        self._destination = destination
        self._log = log
        self._kept: dict[int, Capture] = {}

    def check(self) -> None:
        """
        Make sure that the files can be written, before there is anything to write.

        :raises OSError: if they cannot; the message names the file.
        """
        paths = [path_of(path) for path in self._destination.paths(1).values()]
        # The files of a store are written with the same permission.
        for path in paths if is_local(paths[0]) else paths[:1]:
            check_writable(path)

    def keep(self, capture: Capture, number: int) -> dict[str, Any]:
        """
        Write the files of a capture, its text first.

        :param capture: the capture.
        :param number: its number in the series, from 1.
        :returns: its ``paths`` by format, the time when it was ``taken``, and its summary.
        :raises OSError: if a file cannot be written; the message names it.
        """
        paths = self._destination.paths(number)
        own = {name: path for name, path in paths.items() if name != "html"}
        for name, path in own.items():
            _write(path, capture.content(name))
        if "html" in paths:
            self._kept[number] = capture
        for warning in capture.warnings():
            self._log.warning("%s", warning)
        where = ", ".join(own.values()) or "for the page"
        self._log.info("Captured the hot threads of %d node(s): %s", len(capture.report.nodes), where)
        taken = capture.taken and capture.taken.isoformat(timespec="milliseconds")
        return {"paths": paths, "taken": taken, **capture.summary()}

    def finish(self) -> None:
        """
        Write the page of all captures, if HTML was asked for.

        :raises OSError: if it cannot be written; the message names it.
        """
        if self._kept:
            path = self._destination.paths(1)["html"]
            _write(path, self._destination.page(self._kept))
            self._log.info("Wrote the page of %d capture(s): %s", len(self._kept), path)


def _write(path: str, content: bytes) -> None:
    write_whole(path_of(path), content)
