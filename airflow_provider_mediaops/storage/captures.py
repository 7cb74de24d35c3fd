"""Captures of hot threads, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.cluster.capture import Capture


def write_capture(capture: Capture, paths: Mapping[str, str], log: Any) -> None:
    """
    Write the files of a capture, each whole or not at all.

    :param capture: what was captured.
    :param paths: the path for each format.
    :param log: the logger that is told what was written, and what a person should know of it.
    :raises OSError: where a file cannot be written; the message names it.
    """
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    for format, path in paths.items():
        write_whole(ObjectStoragePath(path), capture.content(format))
    for warning in capture.warnings():
        log.warning("%s", warning)
    log.info("Captured the hot threads of %d node(s): %s", len(capture.report.nodes), ", ".join(paths.values()))
