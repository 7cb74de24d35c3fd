"""What a stage of a dataset does, wherever it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_provider_mediaops.storage.ownership import Receipt
    from airflow_provider_mediaops.storage.records import Extent

#: Writes the committed records to a file in the format of the dataset.
Convert = Callable[[Path], None]


class Stage(Protocol):
    """What is written of a dataset so far, where no reader looks for it."""

    #: Whether something of an earlier attempt was found.
    resumed: bool
    #: How much is committed.
    extent: Extent
    #: What was saved with the last commit.
    state: Any
    #: The receipt of the file at the destination, unless that is of unknown origin.
    last: Receipt | None

    def lines(self) -> Iterator[bytes]:
        """Give the lines that are committed."""
        ...

    def append(self, data: bytes, rows: int, state: Any) -> None:
        """Commit lines and a state: all of it, or nothing."""
        ...

    def publish(self, convert: Convert | None, summary: Mapping[str, Any], digest: str | None) -> dict[str, Any]:
        """Put the file at its destination in one step; give the summary with its size in bytes."""
        ...

    def keep_published(self, last: Receipt, summary: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take over what was published before as this task's own, with its size; None where it is gone meanwhile."""
        ...

    def close(self) -> None:
        """Let go of the destination; what is committed stays for the next attempt."""
        ...
