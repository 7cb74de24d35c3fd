"""Read the tasks that ran on the hot nodes from the JSON files beside the texts of captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.capture.json_head import read_head
from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
from airflow_provider_mediaops.plugin.reading import read_text
from airflow_provider_mediaops.plugin.rendered_fields import NothingToShowError

if TYPE_CHECKING:
    from airflow_provider_mediaops.plugin.reading import TextVersion
    from airflow_provider_mediaops.plugin.rendered_fields import CaptureFields

#: The most bytes of a JSON file that are read. Tasks stand at its beginning.
MAX_START_BYTES = 4_000_000
# The same of all JSON files of a page.
_MAX_BYTES = 12_000_000


def read_tasks(fields: CaptureFields, number: int, text: TextVersion) -> RunningTasks | None:
    """
    Read the tasks of a capture, whose text is given; None if the task did not ask for them. May block.

    :raises NothingToShowError: if they are not there, or cannot be read.
    """
    if not fields.has_tasks:
        return None
    if not fields.documents:
        raise NothingToShowError(
            "they are in the JSON file of a capture, and this task writes none. Add json to formats."
        )
    max_bytes = min(MAX_START_BYTES, _MAX_BYTES // len(fields.documents))
    read = read_text(fields.documents[number], max_bytes=max_bytes, is_whole=False)
    path, written = read.version.path, read.version.modified
    # A capture's text is written before its JSON file.
    if text.modified is not None and written is not None and written < text.modified:
        raise NothingToShowError(f"{path} is older than the text beside it, hence of another capture.")
    head = read_head(read.text)
    if head.cut == "running_tasks":
        raise NothingToShowError(f"{path} says more about tasks than this page reads. Open the .html beside it.")
    try:
        return RunningTasks.from_dict(head.values.get("running_tasks"))
    except ValueError as error:
        raise NothingToShowError(f"{path} holds no tasks.") from error
