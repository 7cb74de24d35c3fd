"""Write captures of hot threads to files."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.files import (
    beside,
    is_local,
    naming_path,
    path_of,
    put,
    target_of,
    translating_errors,
    write_whole,
)

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

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
        for path in map(path_of, self._destination.paths(1).values()):
            if not is_local(path):
                _probe_store(path)
                return
            with naming_path(path, "written"):
                target = target_of(path)
                with suppress(FileNotFoundError):
                    target.lstat()  # raises if the name is too long, for example
                probe = target.with_name(beside(target.name, f"{secrets.token_hex(4)}.part"))
                probe.touch(exist_ok=False)
                probe.unlink()

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


def _probe_store(path: ObjectStoragePath) -> None:
    # Permission to write can only be found out by writing.
    folder, _, name = path.path.rpartition("/")
    probe = f"{folder}/{beside(name, f'{secrets.token_hex(4)}.probe')}"
    put(path, probe, lambda target: path.fs.pipe_file(target, b""))
    with translating_errors(path, "written"):
        path.fs.rm_file(probe)
