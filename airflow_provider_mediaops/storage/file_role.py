"""What a file is to the user who named it: a list, or a dataset of this package. Errors call it by that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.storage.files import naming_path
from airflow_provider_mediaops.storage.formats import MAX_LINE_BYTES

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

# The bytes that a row in CSV takes for each of the same row as JSON: the quotes of the record are doubled, and its
# fields are columns, too.
_CSV_FACTOR = 4


@dataclass(frozen=True, slots=True)
class FileRole:
    """
    What a file is to the user.

    :param name: the word before its path in a message.
    :param noun: the word for its content.
    :param max_row_bytes: the longest row; a longer one would fill the memory.
    :param is_list: whether it is the user's own: it may be compressed, and its columns are kept by ``keep_columns``.
    """

    name: str
    noun: str
    max_row_bytes: int
    is_list: bool

    def of(self, path: object) -> str:
        """Return the word and the path of a file as they stand in a message."""
        return f"{self.name} {unsigned(str(path))}"

    def naming(self, path: ObjectStoragePath) -> AbstractContextManager[None]:
        """Name a file in an error of the system or of a store."""
        return naming_path(self.of(path), "read")

    def advice(self, text: str) -> str:
        """Return an advice that applies to lists alone; nothing for a dataset."""
        return text if self.is_list else ""


#: A list, in a format of the user's choice.
LIST = FileRole("source", "list", 16 * 1024 * 1024, is_list=True)
#: A dataset as this package writes it.
DATASET = FileRole("dataset", "dataset", _CSV_FACTOR * MAX_LINE_BYTES, is_list=False)
