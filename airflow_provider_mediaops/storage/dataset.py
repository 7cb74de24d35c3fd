"""Datasets that are staged commit by commit, resume where a dead attempt stopped, and appear whole or not at all."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import DestinationReplacedError
from airflow_provider_mediaops.storage.errors import (
    mapped_overwrite_error,
    naming_path,
    replaced_error,
    superseded_error,
)
from airflow_provider_mediaops.storage.files import PART, Version, file_digest, modified_time
from airflow_provider_mediaops.storage.formats import (
    CsvFormulas,
    FlatView,
    check_format,
    format_of,
    json_line,
    write_table,
)
from airflow_provider_mediaops.storage.local import LocalBackend
from airflow_provider_mediaops.storage.log import Frame, History, Log, claims_in
from airflow_provider_mediaops.storage.object_store import StoreBackend
from airflow_provider_mediaops.storage.ownership import Owner  # noqa: TC001 msgspec reads the type of a field
from airflow_provider_mediaops.storage.paths import check_store, is_local, lasting, path_of
from airflow_provider_mediaops.storage.scratch import ScratchFile
from airflow_provider_mediaops.storage.source_file import InvalidSourceError
from airflow_provider_mediaops.storage.source_list import read_records

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.log import Backend
    from airflow_provider_mediaops.storage.scratch import NewFile

_MANIFEST = "manifest.json"
# A folder of another owner is removed if nobody has written to it for this long.
_STALE_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Manifest:
    """Who has published the file at the destination."""

    owner: Owner
    # A digest of its content; empty if none was given.
    fingerprint: str
    file: Version


class Staging(Log):
    """A dataset while it is written: its log, and what is published of it."""

    def __init__(self, dataset: Dataset, owner: Owner, backend: Backend, changes: Backend | None) -> None:
        super().__init__(backend, owner.folder, dataset.destination, owner.turn)
        self._dataset, self._owner, self._changes_backend = dataset, owner, changes
        #: The task's return value; ``path``, ``rows`` and ``bytes`` are added when the dataset is published.
        self.summary: dict[str, Any] = {}
        #: A digest of the content, or None. If it equals that of the published file, that file stays, and the summary
        #: says ``changed: False``.
        self.digest: str | None = None
        #: Writes the file of changes, if there is one. If the published file stays, so does that of its changes.
        self.changes: Callable[[Path], None] | None = None
        self._noted: Version | None = None
        self._noted_changes: Version | None = None
        #: Who has published the dataset that this one replaces; None if there is none, or its origin is unknown.
        self.replaced: Manifest | None = None
        if self.finished is None:
            self._note()

    def _note(self) -> None:
        """Note what is to be replaced. What was published before this is of a frame that was read, or another's."""
        self._noted = self._backend.version()
        self._noted_changes = self._changes_backend.version() if self._changes_backend else None
        self.replaced = self._manifest_of(self._noted)
        if self.replaced and self._owner.is_mapped_beside(self.replaced.owner):
            raise mapped_overwrite_error(self._dataset.destination, self.replaced.owner.task)
        if self._noted is None or self._is_of_another(self.replaced):
            return
        # An attempt has published it, and died: the newest that fits.
        if done := next((done for done in self.done_frames if self._is_file_of(done, self._noted)), None):
            self._publish_rest(done, self._noted)

    def _manifest_of(self, version: Version | None) -> Manifest | None:
        """Return the manifest of a version; None if there is none, if it is damaged, or if it is of another version."""
        import msgspec

        try:
            manifest = msgspec.json.decode(self._backend.read(_MANIFEST) or b"", type=Manifest)
        except msgspec.MsgspecError:
            return None
        return manifest if manifest.file == version else None

    def _is_of_another(self, manifest: Manifest | None) -> bool:
        """Return whether another task has published a file: if its content is the same, the step to it was another."""
        return manifest is not None and manifest.owner.folder != self._owner.folder

    def _is_file_of(self, done: Frame, version: Version) -> bool:
        """Return whether the file at the destination, which is of a version, has the content that a frame names."""
        fields = done.value()
        return bool(version.size == fields["size"] and file_digest(self._dataset.path) == fields["sha256"])

    @property
    def replaced_version(self) -> str:
        """A text that differs for each version of the file that is replaced; empty if there is none."""
        return "/".join(map(str, self._noted)) if self._noted else ""

    def unverified_records(self) -> Iterator[str]:
        """Yield the records of the file at the destination as JSON texts, whatever has written it."""
        return read_records(self._dataset.path, self._dataset.format)

    def replaced_records(self) -> Iterator[str]:
        """Yield the records of the dataset that this one replaces, unless it was replaced since it was noted."""
        self._check_noted()
        try:
            yield from self.unverified_records()
        except (OSError, InvalidSourceError):
            # Of a file that is replaced while it is read, parts of both may come, or none.
            self._check_noted()
            raise
        self._check_noted()

    def _check_noted(self) -> None:
        if self._backend.version() != self._noted:
            raise replaced_error(self._dataset.destination)

    def publish(self) -> dict[str, Any]:
        """Publish the dataset, then its changes; return the summary."""
        self.flush()
        dataset = self._dataset
        summary = {"path": lasting(dataset.destination), "rows": self.rows, **self.summary}
        fingerprint = "" if self.digest is None else dataset.fingerprint(self.digest, self._owner)
        kept = self._noted if fingerprint and self.replaced and self.replaced.fingerprint == fingerprint else None
        if self.digest is not None:
            summary["changed"] = not kept
        with self._backend.new_file() as new, closing(ScratchFile()) as changes:
            if self.changes is not None:
                summary["changes"] = None if kept else lasting(dataset.changes)
                if not kept:
                    self.changes(changes.open_path)
            if not kept:
                self._convert(new)
            summary["bytes"] = kept.size if kept else new.size
            done = self.finish(
                {
                    "fingerprint": fingerprint,
                    "size": summary["bytes"],
                    "sha256": "" if kept else new.digest(),
                    "changes": self.changes is not None and not kept,
                    "summary": summary,
                },
                changes.content,
            )
            if not kept:
                return self._publish_rest(done, self._published(done, new))
            self._check_noted()
            return self._publish_rest(done, kept)

    def _convert(self, new: NewFile) -> None:
        """Write the file that is to be published."""
        dataset = self._dataset
        place = dataset.destination if is_local(dataset.path) else tempfile.gettempdir()
        with naming_path(place, "written", self._backend.hint):
            if dataset.format == "jsonl":
                new.write(self.blocks())
            else:
                write_table(dataset.format, new.open_path, dataset.view, self.records(), dataset.csv_formulas)

    def _published(self, done: Frame, new: NewFile) -> Version:
        """Replace the noted version; return the new one."""
        self.check()
        try:
            return self._backend.publish(new, self._noted)
        except DestinationReplacedError:
            found = self._backend.version()
            if found is None or self._is_of_another(self._manifest_of(found)) or not self._is_file_of(done, found):
                raise
            # It is there: only the reply was lost.
            return found

    def _publish_rest(self, done: Frame, version: Version) -> dict[str, Any]:
        """Do what is left once the file is at the destination; return the summary."""
        fields = done.value()
        if self._changes_backend and fields["changes"]:
            self._publish_changes(self._changes_backend, done)
        self.check()
        self._backend.put(_MANIFEST, json_line(Manifest(self._owner, fields["fingerprint"], version)))
        summary: dict[str, Any] = fields["summary"]
        self.end(summary)
        self.finished = summary
        with suppress(OSError), naming_path(self._dataset.path, "written"):
            self._sweep()
        return summary

    def _publish_changes(self, backend: Backend, done: Frame) -> None:
        path = self._dataset.changes
        with backend.new_file() as new:
            with naming_path(path, "written", self._backend.hint):
                new.write(done.lines.blocks())
            self.check()
            try:
                backend.publish(new, self._noted_changes)
            except DestinationReplacedError:
                if file_digest(path_of(path)) != new.digest():
                    raise

    def _sweep(self) -> None:
        """Remove what nobody has written to for seven days: folders of owners, and files whose writers died."""
        fs, top = self._dataset.path.fs, self._backend.folder
        folders: dict[str, dict[str, Mapping[str, Any]]] = {}
        for path, info in fs.find(top, detail=True).items():
            folder, _, name = path.rpartition(f"{top.strip('/')}/")[2].rpartition("/")
            if folder:
                folders.setdefault(folder, {})[name] = info
            elif name.endswith(PART) and self._is_stale(info):
                self._backend.remove("", [name])
        for folder, files in folders.items():
            if all(map(self._is_stale, files.values())):
                self._backend.remove(folder, files)

    def _is_stale(self, info: Mapping[str, Any]) -> bool:
        written = modified_time(info)
        return written is not None and self._dataset.clock() - written > _STALE_SECONDS


class Dataset:
    """
    Records in one file on any object storage, published in one step.

    It is staged in a hidden folder beside the destination, ``.<name>.staging``. A small file of each task that has
    published stays there for seven days, and what a task has left that was never retried.

    Raise ValueError if the destination can never name a file, or neither its suffix nor ``format`` names a format.
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
        self.format = format_of(destination, format)
        self.csv_formulas = csv_formulas
        self.destination = str(destination)
        self.path = path_of(destination)
        # The path of the file of changes that is published after it; None for none.
        self.changes = changes
        self.view = view
        self.clock = clock

    def published(self, owner: Owner) -> dict[str, Any] | None:
        """
        Return the summary of the dataset that a task instance has published, whatever is at the destination now.

        An attempt may have died between publishing and Airflow's record of its success; what it had left to do is done.
        None if it has not published, or was cleared since.
        """
        check_store(self.path, "destination")
        with closing(backend_of(self.path)) as backend:
            names = backend.names(owner.folder)
            if not claims_in(names):
                return None
            history = History(backend, owner.folder, names)
            summary = history.summary(owner.turn)
            if summary is not None or not history.done:
                return summary
        with self._staged(owner) as staging:
            return staging.finished

    @contextmanager
    def staging(self, owner: Owner) -> Iterator[Staging]:
        """
        Write the dataset, resuming from what an earlier attempt of the same owner has committed.

        The dataset is published when the block ends. If the block raises, an older dataset stays, and the commits stay
        for the next attempt. DestinationInUseError: another attempt of the same owner has begun since.
        DestinationReplacedError: somebody else has published since.
        """
        with self._staged(owner) as staging:
            if staging.finished is not None:
                raise superseded_error(self.destination)
            try:
                yield staging
            except BaseException:
                with suppress(Exception):
                    staging.flush()
                raise
            staging.summary = staging.publish()

    def check(self, owner: Owner) -> None:
        """Make sure that the dataset can be written, as :meth:`staging` does, and leave it for another process."""
        with self._staged(owner):
            pass

    def keep(self, owner: Owner, name: str, content: bytes) -> str:
        """Keep a file for the attempts of an owner until one has published; return its path. :meth:`check` first."""
        with closing(backend_of(self.path)) as backend:
            backend.put(f"{owner.folder}/{name}", content)
            # By the text: a path object would make one of two slashes.
            parent, name_of_folder = self.destination.rpartition("/")[0], backend.folder.rpartition("/")[2]
            top = backend.folder if is_local(self.path) else f"{parent}/{name_of_folder}"
            return f"{top}/{owner.folder}/{name}"

    @contextmanager
    def _staged(self, owner: Owner) -> Iterator[Staging]:
        check_format(self.format)
        check_store(self.path, "destination")
        with closing(backend_of(self.path)) as backend:
            if self.changes is None:
                yield Staging(self, owner, backend, None)
                return
            path = path_of(self.changes)
            check_store(path, "changes")
            with closing(backend_of(path)) as changes:
                yield Staging(self, owner, backend, changes)

    def fingerprint(self, digest: str, owner: Owner) -> str:
        """Return a digest of the whole file: with other parameters or columns, the same records make another one."""
        shape = [owner.parameters, self.format, *self.view.columns, digest]
        return hashlib.sha256("\0".join(shape).encode()).hexdigest()


def backend_of(path: ObjectStoragePath) -> Backend:
    """Return the operations for a file."""
    return LocalBackend(path) if is_local(path) else StoreBackend(path)
