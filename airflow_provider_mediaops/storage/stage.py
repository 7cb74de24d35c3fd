"""The interface of the stages: that on the local disk, and that on an object store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_provider_mediaops.storage.companion import CompanionFile
    from airflow_provider_mediaops.storage.ownership import Receipt
    from airflow_provider_mediaops.storage.records import Extent

#: Writes the file that is published, from the committed records.
Convert = Callable[[Path], None]


class Stage(Protocol):
    """The place where records are committed before the dataset is published."""

    #: Whether an earlier attempt is resumed.
    resumed: bool
    #: The committed records.
    extent: Extent
    #: The state that was saved with the last commit.
    state: Any

    @property
    def current_receipt(self) -> Receipt | None:
        """The receipt of the file at the destination; None if its origin is unknown."""
        ...

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield the committed lines from the byte ``start`` on, where a line begins."""
        ...

    def read(self, start: int, size: int) -> bytes:
        """Return a part of the committed lines."""
        ...

    def identity(self) -> str:
        """Return a text that differs once the file at the destination is replaced; empty if there is none."""
        ...

    def renew(self) -> None:
        """Keep the destination while nothing is committed for long; raise if another task has it."""
        ...

    def append(self, data: bytes, rows: int, state: Any) -> None:
        """Commit lines and a state: both, or neither."""
        ...

    def publish(
        self,
        convert: Convert | None,
        summary: Mapping[str, Any],
        digest: str | None,
        companion: CompanionFile | None = None,
    ) -> dict[str, Any]:
        """Put the file at its destination in one step, then its companion; return the summary with its size."""
        ...

    def keep_published(self, receipt: Receipt, summary: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make the published file this task's own; return the summary with its size, or None if it is gone."""
        ...

    def close(self) -> None:
        """Release the destination; what is committed stays for the next attempt."""
        ...
