"""An object store in memory, with or without conditional writes, in time that a test makes up."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, TypeVar

from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

#: ``conditions``: it checks them, as S3 does. ``ignores``: its client sends them, and it does not check.
#: ``refuses``: it replies that it knows none. ``none``: its client has none.
Kind = Literal["conditions", "ignores", "refuses", "none"]


StoreT = TypeVar("StoreT", bound=MemoryFileSystem)


class ClientError(Exception):
    """An error as the S3 client raises it below s3fs."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


def refused(code: str) -> OSError:
    """Return the error that s3fs makes of a refusal."""
    error = OSError(errno.EINVAL, code)
    error.__cause__ = ClientError(code)
    return error


class FakeStore(MemoryFileSystem):  # type: ignore[misc]  # fsspec publishes no types
    """
    Objects in memory, whose versions are digests of their content. Its client keeps what it has listed.

    :param conditional: whether it checks conditions as S3 does; otherwise it knows none.
    :param clock: its time in seconds since 1970; without one it does not say when an object was written.
    """

    cachable = False
    store: MutableMapping[str, Any]
    pseudo_dirs: list[str]

    def __init__(
        self,
        *,
        conditional: bool = True,
        clock: Callable[[], float] | None = None,
        objects: MutableMapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.clock = clock
        self.check_conditions(conditional)
        self.store, self.pseudo_dirs = {} if objects is None else objects, [""]
        self.blocks = self.discarded = 0
        self._listed: dict[str, list[dict[str, Any]]] = {}
        self.parts: list[bytes] = []
        self.on_block: Callable[[], object] = lambda: None
        #: Called before each request, with its name and the path; returns whether the reply to a write is lost.
        self.on_request: Callable[[str, str], object] = lambda _name, _path: False
        #: Called with the path and the content of an object that was written.
        self.on_written: Callable[[str, bytes], object] = lambda _path, _value: None
        #: Whether it replies to a condition that it knows none.
        self.refuses_conditions = False
        #: The error of each write to a path that it refuses.
        self.refusal: Exception | None = None
        self.refuses: Callable[[str], bool] = lambda _: True

    def check_conditions(self, conditional: bool) -> None:  # noqa: FBT001
        """Check the conditions of writes from now on, or be a store that knows none."""
        self.conditional, self.protocol = conditional, ("memory", "s3") if conditional else "memory"

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self._write("pipe_file", path, value, **options)

    def _write(self, name: str, path: str, value: bytes, **options: Any) -> None:
        is_lost = self.on_request(name, path)
        self._replace(path, value, **options)
        self.on_written(path, value)
        if is_lost:
            raise TimeoutError("the reply was lost")

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.lstrip("/").partition("/")
        return bucket, key, None

    def call_s3(self, method: str, **fields: Any) -> dict[str, Any]:
        """Answer a request of the client of S3: a file in one request, or in parts."""
        path = f"/{fields['Bucket']}/{fields['Key']}"
        conditions = {name: fields[name] for name in ("IfMatch", "IfNoneMatch") if name in fields}
        if method == "create_multipart_upload":
            self.parts.clear()
            return {"UploadId": "upload"}
        if method == "upload_part":
            self.blocks += 1
            self.on_block()
            self.parts.append(fields["Body"])
            return {"ETag": '"part"'}
        if method == "abort_multipart_upload":
            self.discarded += 1
            return {}
        if method == "put_object":
            self._write(method, path, fields["Body"], **conditions)
        else:
            self.commit_upload(path, b"".join(self.parts), **conditions)
        return {"ETag": self.store[path].version}

    def commit_upload(self, path: str, value: bytes, **options: Any) -> None:
        """Make an uploaded file appear."""
        self._write("commit_upload", path, value, **options)

    def _replace(self, path: str, value: bytes, **options: Any) -> None:
        there = self.store.get(path)
        if self.refusal and self.refuses(path):
            raise self.refusal
        if self.refuses_conditions and options:
            raise refused("NotImplemented")
        if self.conditional:
            if "IfNoneMatch" in options and there is not None:
                raise refused("PreconditionFailed")
            if "IfMatch" in options and (there is None or there.version != options["IfMatch"]):
                raise refused("PreconditionFailed") if there else FileNotFoundError(path)
        file = MemoryFile(self, path, value)
        file.version = f'"{hashlib.md5(value, usedforsecurity=False).hexdigest()}"'
        file.written = self.clock() if self.clock else None
        self.store[path] = file

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        self.on_request("open", path)
        return super().open(path, mode, **options)

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        """Write a local file, which appears at the end of the upload."""
        self.blocks += 1
        self._write("put_file", rpath, Path(lpath).read_bytes())

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        self.on_request("info", path)
        return self._described(path) if path in self.store else super().info(path, **options)

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:  # noqa: FBT001, FBT002  as fsspec has it
        self.on_request("ls", path)
        if path not in self._listed:
            found = super().ls(path, detail=True, **options)
            infos = [self._described(info["name"]) if info["name"] in self.store else info for info in found]
            self._listed[path] = infos
        return self._listed[path] if detail else [info["name"] for info in self._listed[path]]

    def invalidate_cache(self, path: str | None = None) -> None:
        self._listed.clear()

    def find(self, path: str, maxdepth: int | None = None, detail: bool = False, **options: Any) -> Any:  # noqa: FBT001, FBT002
        self.on_request("find", path)
        found = super().find(path, maxdepth=maxdepth, detail=True, **options)
        return (
            {name: self._described(name) if name in self.store else self.info(name) for name in found}
            if detail
            else list(found)
        )

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        self.on_request("cat_file", path)
        content: bytes = super().cat_file(path, start, end, **options)
        return content

    def rm_file(self, path: str) -> None:
        is_lost = self.on_request("rm_file", path)
        super().rm_file(path)
        if is_lost:
            raise TimeoutError("the reply was lost")

    def rm(self, path: str | list[str], recursive: bool = False, **options: Any) -> None:  # noqa: FBT001, FBT002
        if recursive:
            super().rm(path, recursive=True, **options)
            return
        for each in [path] if isinstance(path, str) else path:
            # As S3 does, it passes over those that are gone.
            if each in self.store:
                self.rm_file(each)

    def _described(self, path: str) -> dict[str, Any]:
        file = self.store[path]
        described = {"name": path, "size": file.size, "type": "file", "ETag": file.version}
        if file.written is not None:
            described["LastModified"] = datetime.fromtimestamp(file.written, timezone.utc)
        return described

    @property
    def names(self) -> list[str]:
        """The names of all objects."""
        return sorted(self.store)


def store_of(kind: Kind) -> FakeStore:
    """Return a store of a kind."""
    store = FakeStore(conditional=kind != "none")
    store.conditional, store.refuses_conditions = kind == "conditions", kind == "refuses"
    return store


@contextmanager
def attached(store: StoreT, conn_id: str) -> Iterator[StoreT]:
    """Attach a store as ``memory://conn_id@…`` until the block ends."""
    attach("memory", conn_id, fs=store)
    try:
        yield store
    finally:
        _STORE_CACHE.pop(f"memory-{conn_id}", None)
