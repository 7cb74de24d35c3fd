"""
The objects of one destination on an object store, and the requests for them.

Writes can carry a condition: replace only the version that was read before, or only create. It is sent if the store's
client knows it: s3fs and adlfs know both (adlfs for files of one block), most other clients only the second, some none.
A store or client that ignores a condition writes all the same, so the protocol in ``object_store`` does not rely on
conditions alone.
"""

from __future__ import annotations

import inspect
import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.storage.files import beside, put, translating_errors
from airflow_provider_mediaops.storage.object_info import content_tag, modified_time
from airflow_provider_mediaops.storage.records import read_blocks, write_at
from airflow_provider_mediaops.storage.refusals import code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from airflow.sdk import ObjectStoragePath

# The maximum of objects that one call removes or reads, and of the bytes that it reads.
_MAX_OBJECTS = 100
_MAX_BYTES = 16 * 1024 * 1024
#: A file with more bytes than this is uploaded in blocks.
BLOCK_BYTES = 8 * 1024 * 1024
# The codes of S3 and Azure for a condition that did not hold, and of S3 for a store that knows no conditions.
_CONFLICT_CODES = {"PreconditionFailed", "ConditionalRequestConflict", "ConditionNotMet", "412", "409"}
_UNKNOWN_CODES = {"NotImplemented", "501"}


class ConflictError(Exception):
    """The store refused a write: the object is no longer the version that was to be replaced."""


@dataclass(frozen=True, slots=True)
class Found:
    """
    An object that was read.

    :param content: its content; None if there is none.
    :param version: its version; empty if there is none, or the store does not say.
    :param modified: the time of its last write by the store's clock; None if the store does not say.
    """

    content: bytes | None = None
    version: str = ""
    modified: float | None = None

    @property
    def condition(self) -> str | None:
        """The version that a write has to replace: empty for none at all, None for any."""
        return self.version if self.version or self.content is None else None


class StoreObjects:
    """
    The objects of one destination.

    :param path: the destination.
    :param block_bytes: a file with more bytes than this is uploaded in several requests; on S3 at least 5 MiB.
    """

    def __init__(self, path: ObjectStoragePath, block_bytes: int = BLOCK_BYTES) -> None:
        folder, _, name = path.path.rpartition("/")
        self.path = path
        self.lease = f"{folder}/{beside(name, 'checkpoint')}"
        self.folder = f"{folder}/{beside(name, 'parts')}"
        self._block_bytes = block_bytes
        self._conditions = _conditions_of(path.fs)

    @property
    def checks_creation(self) -> bool:
        """Whether the client can ask the store to create an object only if there is none; the store may ignore it."""
        return bool(self._conditions(""))

    def read(self, name: str, max_bytes: int | None = None) -> Found:
        """
        Read an object, and its version.

        :param name: its path.
        :param max_bytes: the rest of a larger object is left out; None for no bound.
        """
        with translating_errors(self.path, "read"):
            # Some clients cache what they have listed.
            self.path.fs.invalidate_cache()
            try:
                # In this order, a write in between can only make ours fail.
                info = self.path.fs.info(name)
                is_larger = max_bytes is not None and (info.get("size") or 0) > max_bytes
                part = {"start": 0, "end": max_bytes} if is_larger else {}
                content = self.path.fs.cat_file(name, **part)
                return Found(content, content_tag(info), modified_time(info))
            except FileNotFoundError:
                return Found()

    def info(self, name: str) -> Mapping[str, Any]:
        """
        Return the properties of an object; none if it does not exist.

        :param name: its path.
        """
        with translating_errors(self.path, "read"):
            self.path.fs.invalidate_cache()
            try:
                found: Mapping[str, Any] = self.path.fs.info(name)
            except FileNotFoundError:
                return {}
        return found

    def identity(self, name: str | None = None) -> str:
        """
        Return a text that differs once an object is replaced; empty if there is none.

        :param name: its path; None for the destination.
        """
        info = self.info(name or self.path.path)
        return f"{info.get('size')}:{content_tag(info)}" if info else ""

    def write(self, name: str, content: bytes, replaces: str | None = None, hint: str = "") -> None:
        """
        Write an object in one request.

        :param name: its path.
        :param content: its content.
        :param replaces: the version to replace; empty to create it, None to replace any.
        :param hint: a sentence for the reader of an error.
        :raises ConflictError: if the store checks conditions, and another version is there.
        """
        self._conditionally(name, replaces, hint, lambda options: self.path.fs.pipe_file(name, content, **options))

    def upload(self, target: str, file: int, replaces: str | None, check: Callable[..., None], hint: str = "") -> None:
        """
        Upload a file, so that it appears whole or not at all.

        :param target: the path of the object.
        :param file: the descriptor of the file to upload.
        :param replaces: the version to replace; empty to create it, None to replace any.
        :param check: raises if the upload is to be given up. It is called with ``fresh=False`` before each
            block of a long upload, and with ``fresh=True`` before each of the last requests.
        :param hint: a sentence for the reader of an error.
        :raises ConflictError: if the store checks conditions, and another version is there.
        """
        size = os.fstat(file).st_size
        if size <= self._block_bytes:
            self.write(target, b"".join(read_blocks(file, 0, size)), replaces, hint)
            return
        self._conditionally(target, replaces, hint, lambda options: self._upload_blocks(target, file, options, check))

    def _upload_blocks(self, target: str, file: int, options: Mapping[str, Any], check: Callable[..., None]) -> None:
        fs = self.path.fs
        mode = "xb" if options.get("mode") == "create" else "wb"
        others = {name: value for name, value in options.items() if name != "mode"}
        out = fs.open(target, mode, block_size=self._block_bytes, autocommit=False, **others)
        # The client has registered it for a transaction, although there is none.
        with suppress(ValueError):
            fs.transaction.files.remove(out)
        try:
            for block in read_blocks(file, 0, os.fstat(file).st_size):
                check(fresh=False)
                out.write(block)
            check(fresh=True)
            out.close()
            # Now the file appears; a few clients have shown it in `close`, or written it in place.
            check(fresh=True)
            out.commit()
        except BaseException:
            _discard(out)
            raise

    def _conditionally(
        self, name: str, replaces: str | None, hint: str, send: Callable[[Mapping[str, Any]], None]
    ) -> None:
        failures: list[Exception] = []

        def attempt(_: str) -> None:
            options = {} if replaces is None else self._conditions(replaces)
            try:
                send(options)
            except MediaOpsError as error:
                # Raised by the check, to end the upload.
                failures.append(error)
            except Exception as error:
                code = code_of(error)
                if options and code in _UNKNOWN_CODES:
                    self._conditions = _no_conditions
                    send({})
                elif options and _is_conflict(error, code, replaces):
                    failures.append(ConflictError(name))
                else:
                    raise

        put(self.path, name, attempt, hint)
        for failure in failures:
            # Outside `put`, which would name it an error of the store.
            raise failure

    def staged(self) -> dict[str, Mapping[str, Any]]:
        """Return the names of the objects in the folder of segments, with their properties."""
        with translating_errors(self.path, "read"):
            self.path.fs.invalidate_cache()
            try:
                found = self.path.fs.ls(self.folder, detail=True)
            except FileNotFoundError:
                return {}
        return {info["name"].rpartition("/")[2]: info for info in found}

    def write_staged(self, name: str, content: bytes, hint: str) -> None:
        """
        Write an object in the folder of segments.

        :param name: its name there.
        :param content: its content.
        :param hint: a sentence for the reader of an error.
        """
        self.write(f"{self.folder}/{name}", content, hint=hint)

    def download(self, name: str, size: int, file: int) -> None:
        """
        Copy an object in the folder of segments to a local file, block by block.

        :param name: its name there.
        :param size: its size in bytes.
        :param file: the descriptor of the file.
        """
        for start in range(0, size, _MAX_BYTES):
            with translating_errors(self.path, "read"):
                # By name: the second place is start for some stores, and a version for S3.
                end = min(start + _MAX_BYTES, size)
                block = self.path.fs.cat_file(f"{self.folder}/{name}", start=start, end=end)
            write_at(file, block, start)

    def fetch(self, names: Sequence[str], sizes: Mapping[str, int]) -> Iterator[bytes | None]:
        """
        Read objects in the folder of segments, in batches.

        :param names: their names there.
        :param sizes: their sizes in bytes.
        :returns: their contents in the same order; None for one that is gone.
        """
        rest = iter(names)
        while batch := list(_next_batch(rest, sizes)):
            with translating_errors(self.path, "read"):
                contents = self.path.fs.cat_ranges([f"{self.folder}/{name}" for name in batch], None, None)
                for content in contents:
                    if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                        raise content
            yield from (None if isinstance(content, Exception) else content for content in contents)

    def remove(self, names: Iterable[str]) -> None:
        """
        Remove objects from the folder of segments; ignore errors.

        :param names: their names there. They no longer count; a later attempt removes the rest.
        """
        paths = [f"{self.folder}/{name}" for name in names]
        for start in range(0, len(paths), _MAX_OBJECTS):
            with suppress(OSError), translating_errors(self.path, "written"):
                self._remove(paths[start : start + _MAX_OBJECTS])

    def _remove(self, paths: list[str]) -> None:
        # Many stores remove a list with one request; but in a list, such characters are patterns.
        if not set("*?[") & set(self.folder):
            self.path.fs.rm(paths)
            return
        for path in paths:
            self.path.fs.rm_file(path)


def _next_batch(names: Iterator[str], sizes: Mapping[str, int]) -> Iterator[str]:
    size = 0
    for name in islice(names, _MAX_OBJECTS):
        yield name
        size += sizes[name]
        if size >= _MAX_BYTES:
            return


def _discard(out: Any) -> None:
    """Abort an upload, so that no part of it appears, not even when Python collects the file object."""
    with suppress(Exception):
        out.discard()
    with suppress(AttributeError):
        out.closed = True


def _conditions_of(fs: Any) -> Callable[[str], Mapping[str, Any]]:
    """Return the function that makes the client's options for the condition to replace one version only."""
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    if "s3" in protocols:
        return _s3_conditions
    if "abfs" in protocols:
        return _azure_conditions
    with suppress(TypeError, ValueError):
        if "mode" in inspect.signature(fs.pipe_file).parameters:
            return _creation_only
    return _no_conditions


def _s3_conditions(version: str) -> Mapping[str, Any]:
    return {"IfMatch": version} if version else {"IfNoneMatch": "*"}


def _azure_conditions(version: str) -> Mapping[str, Any]:
    if not version:
        return {"mode": "create"}
    from azure.core import MatchConditions

    return {"etag": version, "match_condition": MatchConditions.IfNotModified}


def _creation_only(version: str) -> Mapping[str, Any]:
    return {} if version else {"mode": "create"}


def _no_conditions(_: str) -> Mapping[str, Any]:
    return {}


def _is_conflict(error: Exception, code: str, replaces: str | None) -> bool:
    if isinstance(error, FileExistsError) or code in _CONFLICT_CODES:
        return True
    return bool(replaces) and isinstance(error, FileNotFoundError)
