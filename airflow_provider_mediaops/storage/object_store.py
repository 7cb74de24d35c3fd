"""
A dataset on an object store: a claim is an empty object, its log are numbered segments that are never overwritten.

A publication is one conditional write where the client of the store has it: S3, Google Cloud Storage, Azure. Elsewhere,
and on a store that ignores conditions, the version is read just before the write: the race of one upload.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_provider_mediaops.exceptions import DestinationReplacedError
from airflow_provider_mediaops.storage.errors import code_of, replaced_error, unconditional_error
from airflow_provider_mediaops.storage.files import NamedFolder, Version, beside, content_tag, file_digest, put
from airflow_provider_mediaops.storage.scratch import ByteRange, ScratchFile

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
# A larger file is sent in several requests. S3 takes 10,000 parts of at least 5 MB.
_PART_BYTES = 16 * 1024 * 1024
#: In the place of the version that is replaced: whatever is there.
ANY = "*"
# What S3 and its like reply if they know no conditions.
_UNKNOWN_CODES = {"NotImplemented", "501"}
# The codes of S3 and Azure for a condition that does not hold; the client of Google raises FileExistsError.
_CONFLICT_CODES = {"PreconditionFailed", "ConditionalRequestConflict", "ConditionNotMet", "412", "409"}


class StoreFolder(NamedFolder):
    """A folder of an object store that shows at once what was written. Errors name ``path``."""

    def __init__(self, path: ObjectStoragePath, folder: str) -> None:
        super().__init__(path, folder)
        self._fs = path.fs
        self._write_if = conditional_write(self._fs)
        self._sizes: dict[str, int] = {}

    def names(self, folder: str = "") -> list[str]:
        """List this folder or one within it, as it is now; an absent one is empty."""
        found: list[dict[str, Any]] = []
        with self._reading(), suppress(FileNotFoundError):
            # Some clients cache what they have listed.
            self._fs.invalidate_cache()
            found = self._fs.ls(f"{self.folder}/{folder}".rstrip("/"), detail=True)
        self._sizes = {info["name"].rstrip("/").rpartition("/")[2]: int(info.get("size") or 0) for info in found}
        return list(self._sizes)

    def read(self, name: str) -> bytes | None:
        """Return a small object; None if there is none."""
        with self._reading(), suppress(FileNotFoundError):
            self._fs.invalidate_cache()
            content: bytes = self._fs.cat_file(f"{self.folder}/{name}")
            return content
        return None

    def put(self, name: str, content: bytes) -> None:
        """Write a small object."""
        self._send(name, lambda target: self._fs.pipe_file(target, content))

    def _send(self, name: str, send: Callable[[str], object]) -> None:
        put(self._path, f"{self.folder}/{name}", send, self.hint)

    def create(self, name: str, content: bytes, *, is_first: bool) -> None:
        """
        Create a small object by a conditional write; raise DestinationReplacedError if there is one.

        If nothing depends on it yet, ``is_first``, the store is tried: PermanentError if it cannot refuse to replace
        one.
        """
        with closing(ScratchFile()) as new:
            new.write([content])
            self._send(name, partial(self._create, new))
            if is_first:
                # A server may ignore the condition, although its client knows it: the second creation has to fail.
                with self._writing(), suppress(DestinationReplacedError):
                    self._create(new, f"{self.folder}/{name}")
                    raise unconditional_error(self._path)

    def _create(self, new: NewFile, target: str) -> None:
        try:
            self._write_if(target, new, None)
        except Exception as error:
            if _is_unconditional(error):
                raise unconditional_error(self._path) from error
            if isinstance(error, FileExistsError) or code_of(error) in _CONFLICT_CODES:
                raise replaced_error(self._path) from error
            raise

    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove objects of a folder."""
        paths = [f"{self.folder}/{folder}/{name}" for name in names]
        # Many stores remove a list with one request; but in a list, such characters are patterns.
        has_signs = bool(set("*?[") & set(self.folder))
        size = 1 if has_signs else _MAX_OBJECTS
        for start in range(0, len(paths), size):
            with self._writing(), suppress(FileNotFoundError):
                if has_signs:
                    self._fs.rm_file(paths[start])
                else:
                    self._fs.rm(paths[start : start + size])


class StoreBackend(StoreFolder):
    """A file on an object store."""

    hold_seconds = 5.0
    hold_bytes = 4 * 1024 * 1024

    def __init__(self, path: ObjectStoragePath) -> None:
        folder, _, name = path.path.rpartition("/")
        super().__init__(path, f"{folder}/{beside(name, 'staging')}")
        self._claim = ""
        # All segments that were read or written here.
        self._spool = ScratchFile()

    def claim(self, folder: str, claim: Claim) -> None:
        """Create the object of a claim."""
        self._claim = f"{folder}/{claim}"
        self.put(self._claim, b"")

    def append(self, number: int, content: Iterable[bytes], *, durable: bool) -> ByteRange:
        """Write a segment of the claim that was created here; return where it can be read."""
        del durable  # every object is
        part = self._spool.write(content)
        self._send(f"{self._claim}-{number:06}", lambda target: self._write(target, part))
        return part

    def _write(self, target: str, part: ByteRange) -> None:
        """Write a segment."""
        if part.end - part.start <= _PART_BYTES:
            self._fs.pipe_file(target, part.read())
            return
        with closing(ScratchFile()) as file:
            file.write(part.blocks())
            self._write_if(target, file, ANY)

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
            batch, starts, ends = map(list, zip(*blocks[at : at + _BLOCKS_AT_ONCE], strict=True))
            with self._reading():
                contents = self._fs.cat_ranges([f"{self.folder}/{folder}/{name}" for name in batch], starts, ends)
                if error := next((each for each in contents if isinstance(each, Exception)), None):
                    raise error
            for name, content in zip(batch, contents, strict=True):
                part = self._spool.write([content])
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

    def new_file(self) -> AbstractContextManager[NewFile]:
        """Open a temporary file."""
        return closing(ScratchFile())

    def publish(self, new: NewFile, replaces: Version | None) -> Version:
        """
        Replace a version, or none, by a new file; raise DestinationReplacedError if another one is there.

        If the reply to the write was lost, that may be the new one.
        """
        return put(self._path, self._path.path, partial(self._replaced, new, replaces), self.hint)

    def _replaced(self, new: NewFile, replaces: Version | None, target: str) -> Version:
        # With conditions, too: a store may ignore them.
        self._check(replaces)
        try:
            tag = self._write_if(target, new, replaces.tag if replaces else None)
            return Version(tag, new.size) if tag else self._own_version(new)
        except Exception as error:
            if not _is_unconditional(error):
                # Each client has errors of its own for a condition that does not hold; the version shows it.
                self._check(replaces, error)
                raise
        self._check(replaces)
        self._write_if(target, new, ANY)
        return self._own_version(new)

    def _check(self, replaces: Version | None, cause: Exception | None = None) -> None:
        if self._current() != replaces:
            raise replaced_error(self._path) from cause

    def _own_version(self, new: NewFile) -> Version:
        """Return the version of what was just written, if the reply does not say it: only the content can."""
        found = self._current()
        # The second look shows that the content was read of this version: a rule of the protocol.
        if found is None or found.size != new.size or file_digest(self._path) != new.digest():
            raise replaced_error(self._path)
        self._check(found)
        return found

    def close(self) -> None:
        """Remove the local copies."""
        self._spool.close()


def _is_unconditional(error: Exception) -> bool:
    """Return whether a store, or its client, replies to a write that it knows no such condition."""
    return isinstance(error, NotImplementedError) or code_of(error) in _UNKNOWN_CODES


def conditional_write(fs: Any) -> Callable[[str, NewFile, str | None], str]:
    """
    Return the function that writes an object if it is of one version; it raises NotImplementedError if it cannot.

    It takes the path, the content, and the version: None for no object at all, :data:`ANY` for whatever is there. It
    returns the new version, which is empty if the reply does not say it. A large file is not held in memory.
    """
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
    writes = {"s3": _write_s3, "abfs": _write_azure, "gs": _write_google}
    return partial(next((write for name, write in writes.items() if name in protocols), _write_other), fs)


def _write_s3(fs: Any, path: str, new: NewFile, tag: str | None) -> str:
    bucket, key, *_ = fs.split_path(path)
    target = {"Bucket": bucket, "Key": key}
    condition = {} if tag == ANY else {"IfNoneMatch": "*"} if tag is None else {"IfMatch": f'"{tag}"'}
    if new.size <= _PART_BYTES:
        return content_tag(fs.call_s3("put_object", Body=new.content.read(), **target, **condition))
    # The client's own upload in parts drops the condition and the reply.
    upload = {**target, "UploadId": fs.call_s3("create_multipart_upload", **target)["UploadId"]}
    try:
        parts = []
        for number, start in enumerate(range(0, new.size, _PART_BYTES), start=1):
            sent = fs.call_s3("upload_part", PartNumber=number, Body=new.read(start, _PART_BYTES), **upload)
            parts.append({"PartNumber": number, "ETag": sent["ETag"]})
        parts_of_file = {"MultipartUpload": {"Parts": parts}}
        return content_tag(fs.call_s3("complete_multipart_upload", **parts_of_file, **upload, **condition))
    except BaseException:
        with suppress(Exception):
            fs.call_s3("abort_multipart_upload", **upload)
        raise


def _write_azure(fs: Any, path: str, new: NewFile, tag: str | None) -> str:
    condition: dict[str, Any] = {"mode": "create"} if tag is None else {}
    if tag not in (None, ANY):
        from azure.core import MatchConditions

        condition = {"etag": f'"{tag}"', "match_condition": MatchConditions.IfNotModified}
    with _reader(new) as content:
        # Some versions of the client return no reply.
        return content_tag(fs.pipe_file(path, content, **condition) or {})


def _write_google(fs: Any, path: str, new: NewFile, tag: str | None) -> str:
    # The client's own calls can only create, and drop the reply.
    bucket, key, *_ = fs.split_path(path)
    url = f"{fs._location}/upload/storage/v1/b/{quote(bucket)}/o"  # noqa: SLF001
    with _reader(new) as content:
        condition = {} if tag == ANY else {"ifGenerationMatch": tag or "0"}
        reply = fs.call("POST", url, data=content, json_out=True, uploadType="media", name=key, **condition)
    return content_tag(reply)


def _write_other(fs: Any, path: str, new: NewFile, tag: str | None) -> str:
    if tag != ANY:
        raise NotImplementedError
    fs.put_file(str(new.open_path), path)
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
