"""Write the JSON file of a capture, and read its head: when and why it was taken, and which tasks ran."""

from __future__ import annotations

import json
import re
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import read_iso_time
from airflow_provider_mediaops.cluster.kinds_of_work import works_of
from airflow_provider_mediaops.cluster.plain_values import value_at

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, Unparsed

# Merges of each shard are a kind of their own.
_MOST_KINDS = 100
# What begins a file, up to the value of each. What is behind them may take megabytes.
_HEAD = re.compile(r'\s*[{,]\s*"(capture|running_tasks)"\s*:\s*')
_DECODER = json.JSONDecoder()


def json_of(capture: Capture) -> bytes:
    """Return the content of the file."""
    taken = capture.taken or capture.report.taken
    parts = {
        # First, so that a reader who needs no more than this finds it in the first bytes of a large file.
        "capture": {
            "taken": taken and taken.isoformat(timespec="milliseconds"),
            "reason": capture.reason,
            "cause": capture.cause,
            "nodes_asked": capture.selectors and list(capture.selectors),
        },
        "running_tasks": capture.running_tasks and capture.running_tasks.to_dict(),
        "statistics": capture.statistics,
        "kinds": [kind.to_dict() for kind in capture.kinds[:_MOST_KINDS]],
        "nodes": capture.report.nodes,
        "unparsed": capture.report.unparsed,
    }
    known = {name: part for name, part in parts.items() if part is not None}
    written = BytesIO()
    # Piece by piece, and node by node: all at once take several times the memory of the text.
    for piece in json.JSONEncoder(indent=1, allow_nan=False, default=_plain).iterencode(known):
        written.write(piece.encode("ascii"))
    return written.getvalue()


def _plain(part: HotNode | Unparsed) -> dict[str, Any]:
    """Return a part of a report in plain values, with the kinds of work of each thread."""
    values = part.to_dict()
    for thread, shown in zip(getattr(part, "threads", ()), values.get("threads", ()), strict=True):
        shown["kinds"] = [work.to_dict() for work in works_of(thread)]
    return values


def read_head(start: str) -> dict[str, Any]:
    """Return ``capture`` and ``running_tasks`` of the beginning of a file; None for one that does not end within it."""
    values: dict[str, Any] = {}
    position = max(start.find("{"), 0)
    while named := _HEAD.match(start, position):
        values[named[1]] = None
        try:
            values[named[1]], position = _DECODER.raw_decode(start, named.end())
        except (ValueError, RecursionError):
            break
    return values


def taken_of(document: object) -> datetime | None:
    """Return when the capture of a file, or of its head, was taken; None if it is unknown."""
    return read_iso_time(value_at(document, "capture", "taken"))
