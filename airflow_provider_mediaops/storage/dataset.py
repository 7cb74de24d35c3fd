"""Datasets that are staged commit by commit, resume where a dead attempt stopped, and appear whole or not at all."""

from __future__ import annotations

import hashlib
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.backend import Version, backend_of
from airflow_provider_mediaops.storage.claims import claims_in
from airflow_provider_mediaops.storage.errors import (
    ConflictError,
    finished_meanwhile_error,
    mapped_overwrite_error,
    replaced_error,
    superseded_error,
)
from airflow_provider_mediaops.storage.files import is_local, lasting, naming_path, path_of
from airflow_provider_mediaops.storage.formats import (
    CsvFormulas,
    FlatView,
    check_format,
    format_of,
    json_line,
    json_lines,
    write_table,
)
from airflow_provider_mediaops.storage.log import DoneFrame, Log, is_outdated, read_logs, summary_of
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.storage.path_checks import check_store
from airflow_provider_mediaops.storage.scratch import ByteRange, ScratchFile
from airflow_provider_mediaops.storage.source_file import InvalidSourceError
from airflow_provider_mediaops.storage.source_list import read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.backend import Backend
    from airflow_provider_mediaops.storage.scratch import NewFile

_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """
    Who has published the file at the destination.

    :param owner: the task instance.
    :param fingerprint: a digest of its content; empty if none was given.
    """

    owner: Owner
    fingerprint: str

    @classmethod
    def from_bytes(cls, content: bytes | None, version: Version | None) -> Manifest | None:
        """Parse a manifest; None if there is none, if it cannot be understood, or if it describes another file."""
        try:
            fields = parse_json(content or b"")
            owner, fingerprint = Owner.from_dict(fields["owner"]), fields["fingerprint"]
            is_described = version is not None and Version.of(fields["file"]) == version
        except (KeyError, TypeError, ValueError):
            return None
        return cls(owner, fingerprint) if is_described and isinstance(fingerprint, str) else None

    def to_bytes(self, version: Version) -> bytes:
        """Return the content of the manifest of a file."""
        return json_line({"owner": asdict(self.owner), "fingerprint": self.fingerprint, "file": version.fields()})


class Staging:
    """A dataset while it is written."""

    def __init__(self, dataset: Dataset, owner: Owner, backend: Backend, changes: Backend | None) -> None:
        self._dataset, self._owner = dataset, owner
        self._backend, self._changes_backend = backend, changes
        self._log = Log(backend, owner.folder, dataset.destination)
        #: Whether an earlier attempt is resumed.
        self.resumed = self._log.resumed
        #: The task's return value; ``path``, ``rows`` and ``bytes`` are added when the dataset is published.
        self.summary: dict[str, Any] = {}
        #: A digest of the content, or None. If it equals that of the published file, that file stays, and the summary
        #: says ``changed: False``.
        self.digest: str | None = None
        #: Writes the file of changes, if there is one. If the published file stays, so does that of its changes.
        self.changes: Callable[[Path], None] | None = None
        #: The summary, if an earlier attempt had left nothing but to publish, or not even that.
        self.finished = summary_of(self._log.logs, owner.turn)
        if is_outdated(self._log.logs, owner.turn):
            raise superseded_error(dataset.destination)
        self._noted: Version | None = None
        self._noted_changes: Version | None = None
        self._replaced: Manifest | None = None
        if self.finished is None:
            self._note()
        # It may take much memory.
        self._log.logs = {}

    def _note(self) -> None:
        """Note what is to be replaced. What was published before this is of a frame that was read, or another's."""
        self._noted = self._backend.version()
        self._noted_changes = self._changes_backend.version() if self._changes_backend else None
        self._replaced = self._manifest_of(self._noted)
        if self._replaced and self._owner.is_mapped_beside(self._replaced.owner):
            raise mapped_overwrite_error(self._dataset.destination, self._replaced.owner.task)
        if self._is_of_another(self._replaced):
            return
        for done in self._log.done:
            if self._noted and self._is_file_of(done, self._noted):
                # An attempt has published it, and died: the newest that fits.
                self._publish_rest(done, self._noted)
                return

    def _manifest_of(self, version: Version | None) -> Manifest | None:
        return Manifest.from_bytes(self._backend.read(_MANIFEST), version)

    def _is_of_another(self, manifest: Manifest | None) -> bool:
        """Return whether another task has published a file: if its content is the same, the step to it was another."""
        return manifest is not None and manifest.owner.folder != self._owner.folder

    def _is_file_of(self, done: DoneFrame, version: Version) -> bool:
        """Return whether the file at the destination, which is of a version, has the content that a frame names."""
        return bool(version.size == done.fields["size"] and self._backend.digest() == done.fields["sha256"])

    @property
    def rows(self) -> int:
        """The number of committed records."""
        return self._log.rows

    @property
    def state(self) -> Any:
        """The state of the last commit; None before the first."""
        return self._log.state

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the committed records in order."""
        return map(parse_json, self.lines())

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield the committed records from a place on, in bytes, as JSON without a line end."""
        return self._log.lines(start)

    def line(self, start: int, size: int) -> bytes:
        """Return the committed record that begins at a place, in bytes, as JSON."""
        return self._log.read(start, size)

    @property
    def replaced(self) -> Manifest | None:
        """Who has published the dataset that this one replaces; None if there is none, or its origin is unknown."""
        return self._replaced

    @property
    def replaced_version(self) -> str:
        """A text that differs for each version of the file that is replaced; empty if there is none."""
        return "/".join(map(str, self._noted.fields())) if self._noted else ""

    def unverified_records(self) -> Iterator[str]:
        """
        Yield the records of the file at the destination as JSON texts, whatever has written it.

        :raises InvalidSourceError: if it is not a file of the format of the dataset.
        """
        return self._dataset.read_published()

    def replaced_records(self) -> Iterator[str]:
        """
        Yield the records of the dataset that this one replaces, as JSON texts.

        :raises DestinationReplacedError: if it was replaced since this attempt began.
        :raises InvalidSourceError: if it is damaged.
        """
        self._check_noted()
        try:
            yield from self._dataset.read_published()
        except (OSError, InvalidSourceError):
            # Of a file that is replaced while it is read, parts of both may come, or none.
            self._check_noted()
            raise
        self._check_noted()

    def _check_noted(self) -> None:
        if self._backend.version() != self._noted:
            raise replaced_error(self._dataset.destination)

    def commit(self, records: Sequence[Mapping[str, Any]], state: Any) -> None:
        """
        Add records and a state. If the process dies, the next attempt finds both, or neither.

        On an object store, commits are held back for five seconds at most, or 4 MB.

        :param records: for example those of one page, as they came; may be empty.
        :param state: plain values from which the next attempt can resume.
        :raises OSError: if they cannot be written; the message names the destination. Earlier commits stay.
        :raises PermanentError: if one of them is too long to be read again.
        :raises DestinationInUseError: if a newer attempt has begun.
        """
        self._log.commit(json_lines(records), len(records), state)

    def flush(self) -> None:
        """Write the commits that are held back."""
        self._log.flush()

    def discard(self) -> None:
        """
        Begin anew: nothing that is committed counts any more. A published dataset stays.

        :raises OSError: if the destination cannot be written; the message names it.
        :raises DestinationInUseError: if a newer attempt has begun.
        """
        self._log.discard()
        self.resumed = False

    def publish(self) -> dict[str, Any]:
        """Publish the dataset, then its changes; return the summary."""
        self.flush()
        dataset = self._dataset
        summary = {"path": _lasting(dataset.destination), "rows": self.rows, **self.summary}
        fingerprint = "" if self.digest is None else dataset.fingerprint(self.digest, self._owner)
        kept = bool(fingerprint and self._replaced and self._replaced.fingerprint == fingerprint)
        has_changes = self.changes is not None and not kept
        if self.changes is not None:
            summary["changes"] = _lasting(str(dataset.changes)) if has_changes else None
        if self.digest is not None:
            summary["changed"] = not kept
        with self._backend.new_file() as new, self._lines_of_changes(has_changes=has_changes) as changes:
            size = self._noted.size if kept and self._noted else self._converted(new)
            done = self._log.finish(
                {
                    "fingerprint": fingerprint,
                    "size": size,
                    "sha256": "" if kept else new.digest(),
                    "kept": kept,
                    "changes": has_changes,
                    "summary": {**summary, "bytes": size},
                },
                changes,
            )
            return self._publish_rest(done, self._published(done, new))

    @contextmanager
    def _lines_of_changes(self, *, has_changes: bool) -> Iterator[ByteRange | None]:
        if not has_changes or self.changes is None:
            yield None
            return
        with closing(ScratchFile()) as file:
            self.changes(_path_to(file.descriptor))
            yield ByteRange(file.descriptor, 0, file.size)

    def _converted(self, new: NewFile) -> int:
        """Write the file that is to be published; return its size."""
        with naming_path(self._dataset.writing_place, "written", self._backend.hint):
            if self._dataset.format == "jsonl":
                _write_blocks(new, self._log.blocks())
            else:
                self._dataset.write_table(_path_to(new.descriptor), self.lines())
        return new.size

    def _published(self, done: DoneFrame, new: NewFile) -> Version:
        """Replace the noted version; return the new one."""
        if done.fields["kept"] and self._noted:
            self._check_noted()
            return self._noted
        self._log.check()
        try:
            return self._backend.publish(new, self._noted)
        except ConflictError as error:
            found = self._backend.version()
            if found is None or self._is_of_another(self._manifest_of(found)) or not self._is_file_of(done, found):
                raise replaced_error(self._dataset.destination) from error
            # It is there: only the reply was lost.
            return found

    def _publish_rest(self, done: DoneFrame, version: Version) -> dict[str, Any]:
        """Do what is left once the file is at the destination; return the summary."""
        if self._changes_backend and done.fields["changes"]:
            self._publish_changes(self._changes_backend, done)
        self._log.check()
        manifest = Manifest(self._owner, done.fields["fingerprint"])
        self._backend.put(_MANIFEST, manifest.to_bytes(version))
        summary = dict(done.fields["summary"])
        self._log.end(summary, self._owner.turn)
        self.finished = summary
        with suppress(OSError):
            self._backend.sweep()
        return summary

    def _publish_changes(self, backend: Backend, done: DoneFrame) -> None:
        with backend.new_file() as new:
            with naming_path(str(self._dataset.changes), "written", self._backend.hint):
                _write_blocks(new, done.lines.blocks())
            self._log.check()
            try:
                backend.publish(new, self._noted_changes)
            except ConflictError as error:
                if backend.digest() != new.digest():
                    raise replaced_error(self._dataset.changes) from error


class Dataset:
    """
    Records in one file on any object storage, published in one step.

    It is staged in a hidden folder beside the destination, ``.<name>.staging``. A small file of each task that has
    published stays there for seven days, and what a task has left that was never retried.

    :param destination: its path, for example ``s3://conn_id@bucket/key.parquet``; missing folders are created.
    :param view: the columns of CSV and Parquet; JSON lines hold the records as they came.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None means the suffix of the destination.
    :param csv_formulas: ``escape`` puts ``'`` before a text in CSV that a spreadsheet would take for a formula.
    :param changes: the path of the file of changes that is published after it; None for none.
    :param clock: returns seconds since 1970.
    :raises ValueError: if neither the suffix nor ``format`` names a format.
    :raises InvalidArgumentError: if the destination can never name a file.
    """

    def __init__(
        self,
        destination: str | ObjectStoragePath,
        *,
        view: FlatView,
        format: str | None = None,
        csv_formulas: CsvFormulas = "keep",
        changes: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        #: The format in which it is published.
        self.format = format_of(destination, format)
        self._csv_formulas = csv_formulas
        #: Its path, as it was given.
        self.destination = str(destination)
        self._path = path_of(destination)
        #: The path of the file of changes.
        self.changes = changes
        self._view = view
        self._clock = clock

    def published(self, owner: Owner) -> dict[str, Any] | None:
        """
        Return the summary of the dataset that a task instance has published, whatever is at the destination now.

        An attempt may have died between publishing and Airflow's record of its success; what it had left to do is done.

        :param owner: the task instance; once a task was cleared after its success, there is nothing to return.
        :returns: the summary; None if it has not published.
        :raises OSError: if the destination cannot be read or written; the message names it.
        :raises DestinationReplacedError: if somebody else publishes meanwhile.
        :raises PermanentError: if another version of this package has written the log.
        """
        check_store(self._path, "destination")
        with closing(backend_of(self._path, self._clock)) as backend:
            names = backend.names(owner.folder)
            if not claims_in(names):
                return None
            logs = read_logs(backend, owner.folder, names)
            summary = summary_of(logs, owner.turn)
            if summary is not None or not any(log.done for log in logs.values()):
                return summary
        with self._staged(owner) as staging:
            return staging.finished

    @contextmanager
    def staging(self, owner: Owner) -> Iterator[Staging]:
        """
        Write the dataset, resuming from what an earlier attempt of the same owner has committed.

        The dataset is published when the block ends. If the block raises, an older dataset stays, and the commits stay
        for the next attempt.

        :returns: a context manager with the staging to commit to.
        :raises DestinationInUseError: if another attempt of the same owner has begun since; at each commit, and when
            the block ends.
        :raises DestinationReplacedError: if somebody else has published since; when the block ends.
        :raises OSError: if the destination cannot be written; before the block begins, or when it ends.
        :raises PermanentError: for Parquet, if pyarrow is not installed; if a task mapped beside this one has published
            there; if another version of this package has staged there. Before the block begins.
        """
        with self._staged(owner) as staging:
            if staging.finished is not None:
                raise finished_meanwhile_error(self.destination)
            try:
                yield staging
            except BaseException:
                with suppress(Exception):
                    staging.flush()
                raise
            staging.summary = staging.publish()

    def check(self, owner: Owner) -> None:
        """
        Make sure that the dataset can be written, and leave it as it is for another process of the same task.

        :raises OSError: as :meth:`staging` does before its block begins; likewise the other errors.
        """
        with self._staged(owner):
            pass

    def keep(self, owner: Owner, name: str, content: bytes) -> str:
        """
        Keep a file for the attempts of an owner until one has published; :meth:`check` comes first.

        :param name: its name, which no other file of the owner has.
        :returns: its path.
        :raises OSError: if it cannot be written; the message names the destination.
        """
        with closing(backend_of(self._path, self._clock)) as backend:
            backend.put(f"{owner.folder}/{name}", content)
            return backend.path_of(f"{owner.folder}/{name}")

    @contextmanager
    def _staged(self, owner: Owner) -> Iterator[Staging]:
        check_format(self.format)
        check_store(self._path, "destination")
        with closing(backend_of(self._path, self._clock)) as backend:
            if self.changes is None:
                yield Staging(self, owner, backend, None)
                return
            with closing(backend_of(path_of(self.changes), self._clock)) as changes:
                yield Staging(self, owner, backend, changes)

    def read_published(self) -> Iterator[str]:
        """Yield the records of the file at the destination as JSON texts."""
        return read_records(self._path, self.format)

    def write_table(self, file: Path, lines: Iterable[bytes]) -> None:
        """Write records as a table."""
        write_table(self.format, file, self._view, map(parse_json, lines), self._csv_formulas)

    @property
    def writing_place(self) -> str:
        """Where the file to be published is written, for errors."""
        return self.destination if is_local(self._path) else tempfile.gettempdir()

    def fingerprint(self, digest: str, owner: Owner) -> str:
        """Return a digest of the whole file: with other parameters or columns, the same records make another one."""
        shape = [owner.parameters, self.format, *self._view.columns, digest]
        return hashlib.sha256("\0".join(shape).encode()).hexdigest()


def _path_to(descriptor: int) -> Path:
    # This path leads to the open file, even if its name has been taken since.
    return Path(f"/dev/fd/{descriptor}")


def _write_blocks(new: NewFile, blocks: Iterable[bytes]) -> None:
    for block in blocks:
        new.append(block)


def _lasting(text: str) -> str:
    path = path_of(text)
    return lasting(path) if is_local(path) else text
