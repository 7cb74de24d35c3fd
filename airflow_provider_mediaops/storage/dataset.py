"""Datasets that are staged commit by commit, resume where a dead attempt stopped, and appear whole or not at all."""

from __future__ import annotations

import hashlib
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.errors import mapped_overwrite_error, replaced_meanwhile_error
from airflow_provider_mediaops.storage.files import is_local, lasting, path_of
from airflow_provider_mediaops.storage.formats import (
    CsvFormulas,
    FlatView,
    check_csv_formulas,
    check_format,
    format_of,
    json_lines,
    write_table,
)
from airflow_provider_mediaops.storage.path_checks import check_store
from airflow_provider_mediaops.storage.records import check_lines
from airflow_provider_mediaops.storage.source_lines import InvalidSourceError
from airflow_provider_mediaops.storage.sources import read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.companion import CompanionFile
    from airflow_provider_mediaops.storage.ownership import Owner, Receipt
    from airflow_provider_mediaops.storage.stage import Convert, Stage

# While the replaced dataset is read, its place is renewed once for this number of records.
_RECORDS_PER_RENEWAL = 1_000


class Staging:
    """
    A dataset while it is written.

    :param stage: the place where it is staged.
    :param reopen: removes what is staged there, and returns the place again.
    :param read: yields the records of the file at the destination as JSON texts.
    """

    def __init__(self, stage: Stage, reopen: Callable[[], Stage], read: Callable[[], Iterator[str]]) -> None:
        #: The place where it is staged.
        self.stage = stage
        self._reopen = reopen
        self._read = read
        #: Whether an earlier attempt is resumed.
        self.resumed = stage.resumed
        #: The task's return value; ``path``, ``rows`` and ``bytes`` are added when the dataset is published.
        self.summary: dict[str, Any] = {}
        #: A digest of the content, or None. If it equals that of the published file, that file stays, and the summary
        #: says ``changed: False``.
        self.digest: str | None = None
        #: Writes the file that is published, if that is not a table of the records.
        self.convert: Convert | None = None
        #: A file that is published together with the dataset, or None. If the published file stays, so does the
        #: companion's.
        self.companion: CompanionFile | None = None

    @property
    def rows(self) -> int:
        """The number of committed records."""
        return self.stage.extent.rows

    @property
    def state(self) -> Any:
        """The state of the last commit; None before the first."""
        return self.stage.state

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the committed records in order."""
        return map(parse_json, self.stage.lines())

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """
        Yield the committed records in order, as JSON without a line end.

        :param start: where to begin, in bytes: each record takes its length and one more.
        """
        return self.stage.lines(start)

    def line(self, start: int, size: int) -> bytes:
        """
        Return a committed record as JSON.

        :param start: where it begins, in bytes.
        :param size: its length.
        """
        return self.stage.read(start, size)

    @property
    def replaced(self) -> Receipt | None:
        """The receipt of the dataset that this one replaces; None if there is none, or its origin is unknown."""
        return self.stage.current_receipt

    def is_file_there(self) -> bool:
        """Return whether there is a file at the destination, whatever it is."""
        return bool(self.stage.identity())

    def unverified_records(self) -> Iterator[str]:
        """
        Yield the records of the file at the destination as JSON texts, whatever has written it.

        :raises InvalidSourceError: if it is no file of the format of the dataset.
        """
        return self._read()

    def replaced_records(self) -> Iterator[str]:
        """
        Yield the records of the dataset that this one replaces, as JSON texts.

        :raises DestinationInUseError: if it was replaced since this attempt began.
        :raises InvalidSourceError: if it is damaged.
        """
        self._check_replaced()
        try:
            for number, record in enumerate(self._read()):
                if number % _RECORDS_PER_RENEWAL == 0:
                    self.stage.renew()
                yield record
        except (OSError, InvalidSourceError):
            # Of a file that is replaced while it is read, parts of both may come, or none.
            self._check_replaced()
            raise
        self._check_replaced()

    def _check_replaced(self) -> None:
        receipt = self.stage.current_receipt
        if receipt is None or self.stage.identity() != receipt.identity:
            raise replaced_meanwhile_error(receipt.summary.get("path") if receipt else "The dataset")

    def commit(self, records: Sequence[Mapping[str, Any]], state: Any) -> None:
        """
        Append records and save a state with them. Whatever happens, the next attempt finds both, or neither.

        :param records: for example those of one page, as they came; may be empty.
        :param state: plain values from which the next attempt can resume.
        :raises OSError: if they cannot be written; the message names the destination. Earlier commits stay.
        :raises PermanentError: if one of them is too long to be read again.
        :raises DestinationInUseError: if another task has taken over the destination.
        """
        self.commit_lines(json_lines(records), len(records), state)

    def commit_lines(self, lines: bytes, rows: int, state: Any) -> None:
        """
        Append records that are JSON already, as :meth:`commit` does.

        :param lines: the records, each on a line of its own that ends.
        :param rows: how many they are.
        :param state: plain values from which the next attempt can resume.
        :raises PermanentError: if one of them is too long to be read again.
        """
        check_lines(lines)
        self.stage.append(lines, rows, state)

    def discard(self) -> None:
        """
        Remove everything that is committed, and begin anew. A published dataset stays.

        :raises OSError: if the destination cannot be written; the message names it.
        :raises DestinationInUseError: if another task has taken over the destination.
        """
        self.stage = self._reopen()
        self.resumed = False


class Dataset:
    """
    Records in one file on any object storage, published in one step.

    While it is written, there are hidden files (on an object store: objects) beside the destination. One small file
    stays as a receipt: ``.<name>.checkpoint``. The next task that writes the destination removes the staged files of a
    task that was never retried.

    :param destination: its path, for example ``s3://conn_id@bucket/key.parquet``; missing folders are created.
    :param view: the columns of CSV and Parquet; JSON lines hold the records as they came.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None means the suffix of the destination.
    :param csv_formulas: ``escape`` puts ``'`` before a text in CSV that a spreadsheet would take for a formula.
    :param companion: the path of the file that is published together with it; None for none. On an object store, what
        another attempt has begun to publish is finished in the folder of this file, and below that of the destination.
    :param clock: returns seconds since 1970.
    :raises ValueError: if neither the suffix nor ``format`` names a format, or ``csv_formulas`` is unknown.
    :raises InvalidArgumentError: if the destination can never name a file.
    """

    def __init__(
        self,
        destination: str | ObjectStoragePath,
        *,
        view: FlatView,
        format: str | None = None,
        csv_formulas: CsvFormulas = "keep",
        companion: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._format = format_of(destination, format)
        check_csv_formulas(csv_formulas)
        self._csv_formulas = csv_formulas
        self._destination = str(destination)
        self._path = path_of(destination)
        self._companion = path_of(companion) if companion else None
        self._view = view
        self._clock = clock

    def published(self, owner: Owner) -> dict[str, Any] | None:
        """
        Return the summary of the dataset that a task instance has published, if it has.

        An attempt may have died between publishing and Airflow's record of its success.

        :param owner: the task instance; a task that was cleared since counts as another one.
        :returns: the summary; None if there is none, or the file is gone or was replaced.
        :raises OSError: if the destination cannot be read; the message names it.
        :raises PermanentError: if another version of this package has written the receipt.
        """
        check_store(self._path, "destination")
        if is_local(self._path):
            from airflow_provider_mediaops.storage.local import published_locally

            return published_locally(self._path, owner)
        from airflow_provider_mediaops.storage.object_store import published_in_store

        return published_in_store(self._path, owner, self._clock, self._companion)

    @contextmanager
    def staging(self, owner: Owner) -> Iterator[Staging]:
        """
        Write the dataset, resuming from what an earlier attempt of the same owner has committed.

        The dataset is published when the block ends. If the block raises, an older dataset stays, and the commits stay
        for the next attempt. Commits of another owner are removed.

        :param owner: the task instance and its parameters.
        :returns: a context manager with the staging to commit to.
        :raises DestinationInUseError: if another task is writing the destination, or has begun to since; before the
            block begins, or when it ends.
        :raises OSError: if the destination cannot be written; before the block begins, or when it ends.
        :raises PermanentError: for Parquet, if pyarrow is not installed; if a task mapped beside this one has published
            there; if another version of this package has staged there. Before the block begins.
        """
        with ExitStack() as opened:
            staging = self._staged(owner, opened)
            yield staging
            staging.summary = self._publish(staging, owner)

    def check(self, owner: Owner) -> None:
        """
        Make sure that the dataset can be written, and leave it as it is for another process of the same task.

        :param owner: the task instance and its parameters.
        :raises DestinationInUseError: as :meth:`staging` does before its block begins; likewise the other errors.
        """
        with ExitStack() as opened:
            self._staged(owner, opened)

    def _staged(self, owner: Owner, opened: ExitStack) -> Staging:
        check_format(self._format)
        check_store(self._path, "destination")
        stage = opened.enter_context(closing(self._open(owner)))
        if stage.current_receipt and owner.is_mapped_beside(stage.current_receipt.owner):
            raise mapped_overwrite_error(self._destination, stage.current_receipt.owner.task)
        read = partial(read_records, self._path, self._format)
        return Staging(stage, partial(self._reopened, owner, opened), read)

    def _reopened(self, owner: Owner, opened: ExitStack) -> Stage:
        opened.close()
        # With other parameters, the same task begins anew.
        self._open(replace(owner, parameters="")).close()
        return opened.enter_context(closing(self._open(owner)))

    def _open(self, owner: Owner) -> Stage:
        if is_local(self._path):
            from airflow_provider_mediaops.storage.local import LocalStage

            return LocalStage(self._path, owner)
        from airflow_provider_mediaops.storage.object_store import ObjectStage

        return ObjectStage(self._path, owner, self._clock, companion=self._companion)

    def _publish(self, staging: Staging, owner: Owner) -> dict[str, Any]:
        stage = staging.stage
        summary = {"path": _lasting(self._destination), "rows": staging.rows, **staging.summary}
        convert = staging.convert
        if convert is None and self._format != "jsonl":
            convert = partial(self._convert, staging)
        companion = staging.companion
        published = {**summary, companion.key: _lasting(companion.path)} if companion else summary
        if staging.digest is None:
            return stage.publish(convert, published, None, companion)
        digest = self._whole_digest(staging.digest, owner)
        receipt = stage.current_receipt
        if receipt and receipt.digest == digest:
            kept_as = {**summary, companion.key: None} if companion else summary
            kept = stage.keep_published(receipt, {**kept_as, "changed": False})
            if kept is not None:
                return kept
        return stage.publish(convert, {**published, "changed": True}, digest, companion)

    def _convert(self, staging: Staging, file: Path) -> None:
        records = map(self._view.parse, staging.lines())
        write_table(self._format, file, self._view, records, self._csv_formulas)

    def _whole_digest(self, digest: str, owner: Owner) -> str:
        # With other parameters or columns, the same records make another file.
        shape = [owner.parameters, self._format, *self._view.columns, digest]
        return hashlib.sha256("\0".join(shape).encode()).hexdigest()


def _lasting(text: str) -> str:
    path = path_of(text)
    return lasting(path) if is_local(path) else text
