"""
Read the paths of captures from the rendered template fields of their task instance.

Airflow stores these fields when the task starts. Nobody can edit them later, unlike XComs. The files that the page
reads follow from them alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeGuard

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.arguments import read_flag, read_whole_number, unsigned
from airflow_provider_mediaops.cluster.capture.plan import MOST_CAPTURES, capture_paths, read_formats
from airflow_provider_mediaops.exceptions import InvalidArgumentError

#: A field that of Airflow's and our operators only ``CaptureHotThreadsOperator`` has.
OWN_FIELD = "when_cpu_above"

_NEEDED = frozenset({"destination", "formats", "captures", "cluster_conn_id", OWN_FIELD})

_TRUNCATED = "Truncated. You can change this behaviour in [core]max_templated_field_length."
_MASK = "***"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
_LOCAL = ("file", "local")
# No task writes there; reading there would be a request to any address.
_READ_ONLY = ("http", "https", "ftp")


class NothingToShowError(Exception):
    """There is no report to show: ``sentence`` has the reason and the remedy, for the reader of the page."""

    title = "There is no report to show"
    status = HTTPStatus.OK

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class NoAnswerError(NothingToShowError):
    """A store did not answer in time."""

    title = "No answer in time"
    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, store: str) -> None:
        super().__init__(f"{store} did not answer in time. Try again later.")
        metrics.count("pages.reads.no_answer")


@dataclass(frozen=True, slots=True)
class CaptureFields:
    """What the page uses of the rendered template fields: the paths of the captures' files, in their order."""

    texts: tuple[str, ...]
    # The JSON files; empty if the task writes none.
    documents: tuple[str, ...]
    # Whether the task asks for running tasks, which are in the JSON files.
    has_tasks: bool
    cluster: str


def is_capture(fields: Mapping[str, object] | None) -> TypeGuard[Mapping[str, object]]:
    """Return whether template fields are those of ``CaptureHotThreadsOperator``, or of a class derived from it."""
    return fields is not None and fields.keys() >= _NEEDED


def read_fields(fields: Mapping[str, object]) -> CaptureFields:
    """
    Read the rendered template fields of a task instance of ``CaptureHotThreadsOperator``.

    :raises NothingToShowError: if the paths of its captures do not follow from them.
    """
    destination = _destination(fields.get("destination"))
    try:
        formats = read_formats(fields.get("formats"))
        count = read_whole_number("captures", fields.get("captures", 1), minimum=1, maximum=MOST_CAPTURES)
        if "txt" not in formats:
            raise NothingToShowError(
                f"This task writes no text of its captures: formats is {', '.join(formats)}. Add txt to formats; the "
                "page is made of the text."
            )
        numbers = range(1, count + 1) if count > 1 else (None,)
        paths = [capture_paths(destination, formats, number) for number in numbers]
        has_tasks = read_flag("running_tasks", fields.get("running_tasks", False))
    except InvalidArgumentError as error:
        raise NothingToShowError(f"The files of this task are unknown: {error}") from error
    return CaptureFields(
        texts=tuple(path["txt"] for path in paths),
        documents=tuple(path["json"] for path in paths if "json" in path),
        has_tasks=has_tasks,
        cluster=cluster_of(fields),
    )


def cluster_of(fields: Mapping[str, object]) -> str:
    """Return the id of the connection to the cluster; empty if it is unknown."""
    cluster = fields.get("cluster_conn_id")
    return cluster if isinstance(cluster, str) else ""


def store_of(path: str) -> str:
    """Return the store of a file, with its connection and bucket. If it hangs, all its files do."""
    scheme = _SCHEME.match(path)
    if scheme is None or scheme[1] in _LOCAL:
        return "The local disk"
    return unsigned(scheme[0] + path[scheme.end() :].partition("/")[0])


def _destination(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise NothingToShowError("Airflow stored no destination of this task.")
    if value.startswith(_TRUNCATED):
        raise NothingToShowError(
            "Airflow stored only the beginning of the destination. Raise [core] max_templated_field_length, or shorten "
            "the path."
        )
    if _MASK in value:
        raise NothingToShowError(
            "Airflow masked a part of the destination, because it is a secret. Write captures to a path that contains "
            "none."
        )
    if not value.isprintable():
        raise NothingToShowError("The destination contains characters that no path of a capture has.")
    scheme = _SCHEME.match(value)
    name = scheme[1] if scheme else ""
    local_path = value[scheme.end() :] if scheme else value
    if ".." in local_path.split("/"):
        raise NothingToShowError("The destination contains “..”, and is not followed. Write a path without it.")
    if name in _READ_ONLY or "::" in value:
        raise NothingToShowError("The destination is not a place that a capture can be written to.")
    # fsspec takes file:////a for a relative path.
    is_absolute = local_path.startswith("/") and not (scheme and local_path.startswith("//"))
    if (not scheme or name in _LOCAL) and not is_absolute:
        raise NothingToShowError(
            f"The destination {unsigned(value)} is relative to the folder of the worker, which only the worker "
            "knows. Write an absolute path, or that of an object store."
        )
    return value
