"""Datasets that are staged commit by commit, resume where a dead attempt stopped, and appear whole or not at all."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.files import is_local
from airflow_provider_mediaops.storage.formats import FlatView, check_format, format_of, json_lines, write_table
from airflow_provider_mediaops.storage.ownership import overwritten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_provider_mediaops.storage.ownership import Owner, Receipt
    from airflow_provider_mediaops.storage.records import Extent

#: Writes the committed records to a file in the format of the dataset.
Convert = Callable[[Path], None]


class Stage(Protocol):
    """Where a dataset is staged: records that are committed, but not yet published."""

    #: Whether something of an earlier attempt was found.
    resumed: bool
    #: The committed records.
    extent: Extent
    #: What was saved with the last commit.
    state: Any
    #: The receipt of the file at the destination; None if its origin is unknown.
    last: Receipt | None

    def lines(self) -> Iterator[bytes]:
        """Yield the committed lines."""
        ...

    def append(self, data: bytes, rows: int, state: Any) -> None:
        """Commit lines and a state: both, or neither."""
        ...

    def publish(self, convert: Convert | None, summary: Mapping[str, Any], digest: str | None) -> dict[str, Any]:
        """Put the file at its destination in one step; return the summary with its size in bytes."""
        ...

    def keep_published(self, last: Receipt, summary: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make the published file this task's own; return the summary with its size, or None if it is gone."""
        ...

    def close(self) -> None:
        """Release the destination; what is committed stays for the next attempt."""
        ...


class Staging:
    """
    A dataset while it is written.

    :param stage: where it is staged.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        #: Whether something of an earlier attempt was found.
        self.resumed = stage.resumed
        #: The task's return value; ``path``, ``rows`` and ``bytes`` are added when the dataset is published.
        self.summary: dict[str, Any] = {}
        #: A digest of the content, or None. If it equals that of the published file, that file stays, and the summary
        #: says ``changed: False``.
        self.digest: str | None = None

    @property
    def rows(self) -> int:
        """The number of committed records."""
        return self._stage.extent.rows

    @property
    def state(self) -> Any:
        """The state of the last commit; None before the first."""
        return self._stage.state

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the committed records in order."""
        return map(parse_json, self._stage.lines())

    def commit(self, records: Sequence[Mapping[str, Any]], state: Any) -> None:
        """
        Append records and save a state with them. Whatever happens, the next attempt finds both, or neither.

        :param records: for example those of one page, as they came; may be empty.
        :param state: plain values from which the next attempt can resume.
        :raises OSError: if they cannot be written; the message names the destination. Earlier commits stay.
        :raises DestinationInUseError: if another task has taken over the destination.
        """
        self._stage.append(json_lines(records), len(records), state)


class Dataset:
    """
    Records in one file on any object storage, published in one step.

    While it is written, hidden files stand beside the destination (on an object store: objects), and one small file
    stays there as a receipt: ``.<name>.checkpoint``. What a task that never came back has left is removed when the
    destination is next written.

    :param destination: its path, for example ``s3://conn_id@bucket/key.parquet``; folders above it are made.
    :param view: the columns of CSV and Parquet; JSON lines hold the records as they came.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None goes by the suffix of the destination.
    :param clock: seconds since 1970.
    :raises ValueError: where neither the suffix nor ``format`` names a format.
    """

    def __init__(
        self,
        destination: str | ObjectStoragePath,
        *,
        view: FlatView,
        format: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._format = format_of(destination, format)
        self._destination = str(destination)
        # Of such a path itself it makes no other, where that is one of the local disk.
        self._path = ObjectStoragePath(self._destination)
        self._view = view
        self._clock = clock

    def published(self, owner: Owner) -> dict[str, Any] | None:
        """
        Find what this very task instance has published: its attempt may have died before Airflow knew that it was done.

        :param owner: the task instance; one that was cleared since is another.
        :returns: the summary, or None where there is none, or the file is gone or replaced.
        :raises OSError: where the destination cannot be read; the message names it.
        """
        if is_local(self._path):
            from airflow_provider_mediaops.storage.local import published_locally

            return published_locally(self._path, owner)
        from airflow_provider_mediaops.storage.object_store import published_in_store

        return published_in_store(self._path, owner)

    @contextmanager
    def staging(self, owner: Owner) -> Iterator[Staging]:
        """
        Write the dataset, going on from what an earlier attempt of the same owner has committed.

        The dataset is published when the block ends. Where the block raises, an older one stays, and so does what was
        committed, for the next attempt. What another owner has left is dropped.

        :param owner: the task instance and its parameters.
        :returns: a context manager that gives what to commit to.
        :raises DestinationInUseError: where another task is writing the destination at this moment.
        :raises OSError: where the destination cannot be written; before the block begins, or when it ends.
        :raises PermanentError: for Parquet, where pyarrow is not installed, and where a task that is mapped beside this
            one has published there; before the block begins.
        """
        check_format(self._format)
        stage = self._open(owner)
        try:
            if stage.last and owner.is_mapped_beside(stage.last.owner):
                raise overwritten(self._destination, stage.last.owner.task)
            staging = Staging(stage)
            yield staging
            staging.summary = self._publish(stage, staging, owner)
        finally:
            stage.close()

    def _open(self, owner: Owner) -> Stage:
        if is_local(self._path):
            from airflow_provider_mediaops.storage.local import LocalStage

            return LocalStage(self._path, owner)
        from airflow_provider_mediaops.storage.object_store import ObjectStage

        return ObjectStage(self._path, owner, self._clock)

    def _publish(self, stage: Stage, staging: Staging, owner: Owner) -> dict[str, Any]:
        summary = {"path": self._destination, "rows": staging.rows, **staging.summary}
        convert = None if self._format == "jsonl" else partial(self._convert, staging)
        if staging.digest is None:
            return stage.publish(convert, summary, None)
        digest = self._whole_digest(staging.digest, owner)
        last = stage.last
        if last and last.digest == digest:
            kept = stage.keep_published(last, {**summary, "changed": False})
            if kept is not None:
                return kept
        return stage.publish(convert, {**summary, "changed": True}, digest)

    def _convert(self, staging: Staging, file: Path) -> None:
        write_table(self._format, file, self._view, staging.records())

    def _whole_digest(self, digest: str, owner: Owner) -> str:
        # The same records make another file with other parameters, or where the columns are others.
        shape = [owner.parameters, self._format, *self._view.columns, digest]
        return hashlib.sha256("\0".join(shape).encode()).hexdigest()
