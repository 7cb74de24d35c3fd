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
#: The most characters of tasks that are read for a page.
MAX_TASKS_CHARACTERS = 12_000_000


class StoredTasks:
    """The tasks of the captures of a task instance."""

    def __init__(self, fields: CaptureFields) -> None:
        self._documents = fields.documents if fields.has_tasks else ()
        self._room = MAX_TASKS_CHARACTERS
        #: Sentences about tasks that cannot be shown.
        self.missing: list[str] = []
        if fields.has_tasks and not fields.documents:
            self.missing.append(
                "The tasks that ran meanwhile are not shown here: they are in the JSON file of a capture, and this "
                "task writes none. Add json to formats."
            )

    def read(self, number: int, text: TextVersion) -> RunningTasks | None:
        """Read the tasks of a capture, whose text is given; None if there are none to show. May block."""
        if not self._documents:
            return None
        try:
            return self._read(self._documents[number], text)
        except NothingToShowError as error:
            self.missing.append(f"The tasks that ran meanwhile are not shown: {error.sentence}")
            return None

    def _read(self, document: str, text: TextVersion) -> RunningTasks:
        read = read_text(document, max_bytes=MAX_START_BYTES, is_whole=False)
        path, written = read.version.path, read.version.modified
        # A capture's text is written before its JSON file.
        if text.modified is not None and written is not None and written < text.modified:
            raise NothingToShowError(f"{path} is older than the text beside it, hence of another capture.")
        head = read_head(read.text)
        self._room -= head.characters
        if head.is_cut_in("running_tasks") or self._room < 0:
            raise NothingToShowError(f"{path} says more about tasks than this page reads. Open the .html beside it.")
        try:
            return RunningTasks.from_dict(head.values.get("running_tasks"))
        except ValueError as error:
            raise NothingToShowError(f"{path} holds no tasks.") from error
