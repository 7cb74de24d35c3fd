"""
A dataset on an object store: a claim is an empty object, its log are numbered segments that are never overwritten.

A publication is one conditional write where the client of the store has it: S3, Google Cloud Storage, Azure. Elsewhere,
and on a store that ignores conditions, the version is read just before the write: the race of one request.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_provider_mediaops.storage.errors import ConflictError, code_of, conflict_error, unconditional_error
from airflow_provider_mediaops.storage.files import (
    STALE_SECONDS,
    NamedFolder,
    Version,
    beside,
    content_tag,
    modified_time,
    put,
)
from airflow_provider_mediaops.storage.scratch import ByteRange, ScratchFile, digest_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.log import Claim
    from airflow_provider_mediaops.storage.scratch import NewFile

# The maximum of objects that one call removes.
_MAX_OBJECTS = 100
# A log is read in blocks, many at a time: it may have hundreds of segments, and one of them all changes of a
# dataset.
_BLOCK_BYTES = 1024 * 1024
_BLOCKS_AT_ONCE = 32
# A larger file is sent and read in several requests. S3 takes 10,000 parts of at least 5 MB.
_PART_BYTES = 16 * 1024 * 1024
# What S3 and its like reply if they know no conditions.
_UNKNOWN_CODES = {"NotImplemented", "501"}
# The codes of S3 and Azure for a condition that does not hold; the client of Google raises FileExistsError.
_CONFLICT_CODES = {"PreconditionFailed", "ConditionalRequestConflict", "ConditionNotMet", "412", "409"}


class StoreFolder(NamedFolder):
    """A folder of an object store that shows at once what was written. Errors name ``path``."""

    def __init__(self, path: ObjectStoragePath, folder: str) -> None:
        super().__init__(path)
        self._fs, self._folder = path.fs, folder
        self._write_if = conditional_write(self._fs)
        self._sizes: dict[str, int] = {}

    def names(self, folder: str = "") -> list[str]:
        """List this folder or one within it, as it is now; an absent one is empty."""
        with self._reading():
            # Some clients cache what they have listed.
            self._fs.invalidate_cache()
            try:
                found = self._fs.ls(f"{self._folder}/{folder}".rstrip("/"), detail=True)
            except FileNotFoundError:
                found = []
        self._sizes = {info["name"].rstrip("/").rpartition("/")[2]: int(info.get("size") or 0) for info in found}
        return list(self._sizes)

    def read(self, name: str) -> bytes | None:
        """Return a small object; None if there is none."""
        with self._reading():
            self._fs.invalidate_cache()
            try:
                content: bytes = self._fs.cat_file(f"{self._folder}/{name}")
            except FileNotFoundError:
                return None
        return content

    def put(self, name: str, content: bytes) -> None:
        """Write a small object."""
        put(self._path, f"{self._folder}/{name}", lambda target: self._fs.pipe_file(target, content), self.hint)

    def create(self, name: str, content: bytes, *, is_first: bool) -> None:
        """
        Create a small object by a conditional write; raise ConflictError if there is one.

        If nothing depends on it yet, ``is_first``, the store is tried: PermanentError if it cannot refuse to replace
        one.
        """
        with closing(ScratchFile()) as new:
            new.append(content)
            put(self._path, f"{self._folder}/{name}", lambda target: self._create(target, new), self.hint)
            if is_first:
                # A server may ignore the condition, although its client knows it: the second creation has to fail.
                with self._writing(), suppress(ConflictError):
                    self._create(f"{self._folder}/{name}", new)
                    raise unconditional_error(self._path)

    def _create(self, target: str, new: NewFile) -> None:
        try:
            self._write_if(target, new, None)
        except Exception as error:
            if _is_unconditional(error):
                raise unconditional_error(self._path) from error
            if isinstance(error, FileExistsError) or code_of(error) in _CONFLICT_CODES:
                raise conflict_error(self._path) from error
            raise

    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove objects of a folder."""
        paths = [f"{self._folder}/{folder}/{name}" for name in names]
        for start in range(0, len(paths), _MAX_OBJECTS):
            batch = paths[start : start + _MAX_OBJECTS]
            with self._writing(), suppress(FileNotFoundError):
                # Many stores remove a list with one request; but in a list, such characters are patterns.
                if not set("*?[") & set(self._folder):
                    self._fs.rm(batch)
                    continue
            for path in batch:
                with self._writing(), suppress(FileNotFoundError):
                    self._fs.rm_file(path)


class StoreBackend(StoreFolder):
    """A file on an object store."""

    hold_seconds = 5.0
    hold_bytes = 4 * 1024 * 1024

    def __init__(self, path: ObjectStoragePath, clock: Callable[[], float]) -> None:
        folder, _, name = path.path.rpartition("/")
        super().__init__(path, f"{folder}/{beside(name, 'staging')}")
        self._clock = clock
        self._claim = ""
        # All segments that were read or written here.
        self._spool = ScratchFile()

    def path_of(self, name: str) -> str:
        """Return the path of an object in the hidden folder."""
        # By the text: a path object would make one of two slashes.
        return f"{str(self._path).rpartition('/')[0]}/{self._folder.rpartition('/')[2]}/{name}"

    def claim(self, folder: str, claim: Claim) -> None:
        """Create the object of a claim."""
        self.put(f"{folder}/{claim}", b"")
        self._claim = f"{self._folder}/{folder}/{claim}"

    def append(self, number: int, content: Iterable[bytes], *, durable: bool) -> ByteRange:
        """Write a segment of the claim that was created here; return where it can be read."""
        del durable  # every object is
        part = self._spooled(content)
        target = f"{self._claim}-{number:06}"
        put(self._path, target, lambda name: self._send(name, part), self.hint)
        return part

    def _send(self, target: str, part: ByteRange, check: Callable[[], None] = lambda: None) -> None:
        """Write a part of a local file to an object, without a condition."""
        if part.end - part.start <= _PART_BYTES:
            content = b"".join(part.blocks())
            check()
            self._fs.pipe_file(target, content)
            return
        out = self._fs.open(target, "wb", block_size=_PART_BYTES, autocommit=False)
        # The client has registered it for a transaction, although there is none.
        with suppress(ValueError):
            self._fs.transaction.files.remove(out)
        try:
            for block in part.blocks():
                out.write(block)
            check()
            # Now the file appears; a few clients have shown it in `close`, or written it in place.
            out.close()
            out.commit()
        except BaseException:
            # So that no part of it appears, not even when Python collects the file object.
            with suppress(Exception):
                out.discard()
            with suppress(AttributeError):
                out.closed = True
            raise

    def _spooled(self, content: Iterable[bytes]) -> ByteRange:
        start = self._spool.size
        self._spool.write(content)
        return ByteRange(self._spool.descriptor, start, self._spool.size)

    def load(self, folder: str, names: Sequence[str]) -> Iterator[tuple[str, ByteRange]]:
        """Download objects of a log, and yield where each can be read; empty ones, such as claims, are left out."""
        blocks = [
            (name, start, min(start + _BLOCK_BYTES, size))
            for name in names
            if (size := self._sizes.get(name, 0))
            for start in range(0, size, _BLOCK_BYTES)
        ]
        parts: dict[str, ByteRange] = {}
        for at in range(0, len(blocks), _BLOCKS_AT_ONCE):
            batch = blocks[at : at + _BLOCKS_AT_ONCE]
            paths = [f"{self._folder}/{folder}/{name}" for name, _, _ in batch]
            with self._reading():
                contents = self._fs.cat_ranges(paths, [start for _, start, _ in batch], [end for _, _, end in batch])
                if error := next((each for each in contents if isinstance(each, Exception)), None):
                    raise error
            for (name, _, _), content in zip(batch, contents, strict=True):
                part = self._spooled([content])
                parts[name] = part._replace(start=parts.get(name, part).start)
        yield from parts.items()

    def version(self) -> Version | None:
        """Return the version of the object that is there now."""
        with self._reading():
            return self._current()

    def _current(self) -> Version | None:
        self._fs.invalidate_cache()
        try:
            info = self._fs.info(self._path.path)
        except FileNotFoundError:
            return None
        return None if info.get("type") == "directory" else Version(content_tag(info), int(info["size"]))

    def digest(self) -> str:
        """Return the SHA-256 of the object; empty if there is none."""
        with self._reading():
            found = self._current()
            if found is None:
                return ""
            starts = range(0, found.size, _PART_BYTES)
            # By name: the second place is start for some stores, and a version for S3.
            return digest_of(
                self._fs.cat_file(self._path.path, start=start, end=min(start + _PART_BYTES, found.size))
                for start in starts
            )

    def new_file(self) -> AbstractContextManager[NewFile]:
        """Open a temporary file."""
        return closing(ScratchFile())

    def publish(self, new: NewFile, replaces: Version | None) -> Version:
        """
        Write the object, conditionally if the client can; return the new version.

        Raise ConflictError if another version is there. If a reply was lost, that may be the new one.
        """
        return put(self._path, self._path.path, lambda _: self._replaced(new, replaces), self.hint)

    def _replaced(self, new: NewFile, replaces: Version | None) -> Version:
        # With conditions, too: a store may ignore them.
        self._check(replaces)
        try:
            tag = self._write_if(self._path.path, new, replaces.tag if replaces else None)
            return Version(tag, new.size) if tag else self._own_version(new)
        except Exception as error:
            if not _is_unconditional(error):
                # Each client has errors of its own for a condition that does not hold; the version shows it.
                self._check(replaces, error)
                raise
        self._send(self._path.path, new.content, lambda: self._check(replaces))
        return self._own_version(new)

    def _check(self, replaces: Version | None, cause: Exception | None = None) -> None:
        if self._current() != replaces:
            raise conflict_error(self._path) from cause

    def _own_version(self, new: NewFile) -> Version:
        """Return the version of what was just written, if the reply does not say it: only the content can."""
        found = self._current()
        # The second look shows that the content was read of this version: a rule of the protocol.
        if found is None or found.size != new.size or self.digest() != new.digest() or self._current() != found:
            raise conflict_error(self._path)
        return found

    def sweep(self) -> None:
        """Remove the objects in folders of owners that nobody has written to for long."""
        with self._reading():
            found: Mapping[str, Mapping[str, Any]] = self._fs.find(self._folder, detail=True)
        folders: dict[str, list[tuple[str, float | None]]] = {}
        for path, info in found.items():
            folder, _, name = path.rpartition(f"{self._folder.strip('/')}/")[2].partition("/")
            if name:
                folders.setdefault(folder, []).append((name, modified_time(info)))
        for folder, files in folders.items():
            if all(written is not None and self._clock() - written > STALE_SECONDS for _, written in files):
                self.remove(folder, [name for name, _ in files])

    def close(self) -> None:
        """Remove the local copies."""
        self._spool.close()


def _is_unconditional(error: Exception) -> bool:
    """Return whether a store, or its client, replies to a write that it knows no such condition."""
    return isinstance(error, NotImplementedError) or code_of(error) in _UNKNOWN_CODES


def conditional_write(fs: Any) -> Callable[[str, NewFile, str | None], str]:
    """
    Return the function that writes an object if it is of one version; it raises NotImplementedError if it cannot.

    It takes the path, the content, and the version; None for no object at all. It returns the new version, which is
    empty if the reply does not say it.
    """
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
    writes = {"s3": _write_s3, "abfs": _write_azure, "gs": _write_google}
    return partial(next((write for name, write in writes.items() if name in protocols), _create), fs)


def _write_s3(fs: Any, path: str, new: NewFile, tag: str | None) -> str:
    bucket, key, *_ = fs.split_path(path)
    target = {"Bucket": bucket, "Key": key}
    condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": f'"{tag}"'}
    if new.size <= _PART_BYTES:
        return content_tag(fs.call_s3("put_object", Body=b"".join(new.content.blocks()), **target, **condition))
    # The client's own upload in parts drops the condition and the reply.
    upload = {**target, "UploadId": fs.call_s3("create_multipart_upload", **target)["UploadId"]}
    try:
        parts = []
        for number, start in enumerate(range(0, new.size, _PART_BYTES), start=1):
            body = b"".join(ByteRange(new.descriptor, start, min(start + _PART_BYTES, new.size)).blocks())
            sent = fs.call_s3("upload_part", PartNumber=number, Body=body, **upload)
            parts.append({"PartNumber": number, "ETag": sent["ETag"]})
        parts_of_file = {"MultipartUpload": {"Parts": parts}}
        return content_tag(fs.call_s3("complete_multipart_upload", **parts_of_file, **upload, **condition))
    except BaseException:
        with suppress(Exception):
            fs.call_s3("abort_multipart_upload", **upload)
        raise


def _write_azure(fs: Any, path: str, new: NewFile, tag: str | None) -> str:
    with _reader(new) as content:
        if tag is None:
            return content_tag(fs.pipe_file(path, content, mode="create") or {})
        from azure.core import MatchConditions

        condition = {"etag": f'"{tag}"', "match_condition": MatchConditions.IfNotModified}
        # Some versions of the client return no reply.
        return content_tag(fs.pipe_file(path, content, **condition) or {})


def _write_google(fs: Any, path: str, new: NewFile, tag: str | None) -> str:
    # The client's own calls can only create, and drop the reply.
    bucket, key, *_ = fs.split_path(path)
    url = f"{fs._location}/upload/storage/v1/b/{quote(bucket)}/o"  # noqa: SLF001
    with _reader(new) as content:
        condition = {"uploadType": "media", "name": key, "ifGenerationMatch": tag or "0"}
        reply = fs.call("POST", url, data=content, json_out=True, **condition)
    return content_tag(reply)


def _create(fs: Any, path: str, new: NewFile, tag: str | None) -> str:
    """Create an object by a client that knows no other condition, if it knows that."""
    if tag is not None or new.size > _PART_BYTES or "mode" not in signature(fs.pipe_file).parameters:
        raise NotImplementedError
    fs.pipe_file(path, b"".join(new.content.blocks()), mode="create")
    return ""


class _Reader(io.FileIO):
    """A file that its reader cannot close: a client may send it a second time."""

    def close(self) -> None:
        """Stay open."""


@contextmanager
def _reader(new: NewFile) -> Iterator[io.FileIO]:
    os.lseek(new.descriptor, 0, os.SEEK_SET)
    file = _Reader(new.descriptor, "rb", closefd=False)
    yield file
    io.FileIO.close(file)
