"""An object store in memory whose versions are digests of the content, with and without conditional writes."""

from __future__ import annotations

import errno
import hashlib
import io
from typing import TYPE_CHECKING, Any, Literal

from fsspec.spec import AbstractFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

#: ``conditions``: it checks them, as S3 does. ``ignores``: its client sends them, and it does not check. ``creation``:
#: it checks only whether there is an object. ``refuses``: it replies that it knows none. ``none``: its client has none.
Kind = Literal["conditions", "ignores", "creation", "refuses", "none"]


class ReplyError(OSError):
    """What a client makes of a refusal."""

    def __init__(self, code: str) -> None:
        super().__init__(errno.EIO, code)
        self.response = {"Error": {"Code": code}}


class MemoryStore(AbstractFileSystem):  # type: ignore[misc]  # fsspec publishes no types
    """Objects in memory."""

    cachable = False

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.protocol = ("memory", "s3") if kind in ("conditions", "ignores", "refuses") else "memory"
        self.objects: dict[str, bytes] = {}
        self.times: dict[str, float] = {}
        #: How often each object was written.
        self.writes: dict[str, int] = {}
        #: Called before each request, with its name and the path; returns whether the reply to a write is lost, so that
        #: the client sends it again.
        self.on_request: Callable[[str, str], object] = lambda _name, _path: False
        #: The time of writes.
        self.now = 1_800_000_000.0

    def _described(self, path: str) -> dict[str, Any]:
        content = self.objects[path]
        tag = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return {"name": path, "size": len(content), "type": "file", "ETag": f'"{tag}"', "mtime": self.times[path]}

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        self.on_request("info", path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self._described(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:  # noqa: FBT001, FBT002  as fsspec has it
        self.on_request("ls", path)
        start = f"{path.rstrip('/')}/"
        found: dict[str, dict[str, Any]] = {}
        for name in self.objects:
            if name.startswith(start):
                first, below, _rest = name[len(start) :].partition("/")
                folder = {"name": start + first, "size": 0, "type": "directory"}
                found[first] = folder if below else self._described(name)
        if not found:
            raise FileNotFoundError(path)
        return list(found.values()) if detail else [each["name"] for each in found.values()]

    def find(self, path: str, detail: bool = False, **_: Any) -> Any:  # noqa: FBT001, FBT002
        self.on_request("find", path)
        found = {name: self._described(name) for name in self.objects if name.startswith(f"{path}/")}
        return found if detail else list(found)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        self.on_request("cat_file", path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path][start:end]

    def cat_ranges(self, paths: list[str], *_: Any, **__: Any) -> list[bytes | Exception]:
        found: list[bytes | Exception] = []
        for path in paths:
            try:
                found.append(self.cat_file(path))
            except FileNotFoundError as error:
                found.append(error)
        return found

    def pipe_file(self, path: str, value: Any) -> None:
        self.on_request("pipe_file", path)
        self._write(path, value)

    def _write(self, path: str, value: Any) -> None:
        self.objects[path] = bytes(value)
        self.times[path] = self.now
        self.writes[path] = self.writes.get(path, 0) + 1

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.lstrip("/").partition("/")
        return bucket, key, None

    def call_s3(self, method: str, **fields: Any) -> dict[str, Any]:
        assert method == "put_object", "one request is enough for files of tests"
        path = f"/{fields['Bucket']}/{fields['Key']}"
        if self.on_request("put_object", path):
            self._put_if(path, fields)
        self._put_if(path, fields)
        return {"ETag": self._described(path)["ETag"]}

    def _put_if(self, path: str, fields: dict[str, Any]) -> None:
        there = self.objects.get(path)
        if self.kind == "refuses":
            raise ReplyError("NotImplemented")
        if self.kind == "conditions":
            if "IfNoneMatch" in fields and there is not None:
                raise ReplyError("PreconditionFailed")
            if "IfMatch" in fields and (there is None or self._described(path)["ETag"] != fields["IfMatch"]):
                raise ReplyError("PreconditionFailed")
        self._write(path, fields["Body"])

    def rm_file(self, path: str) -> None:
        self.on_request("rm_file", path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        del self.objects[path]

    def rm(self, path: str | list[str], **_: Any) -> None:
        for each in [path] if isinstance(path, str) else path:
            if each in self.objects:
                self.rm_file(each)

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        assert mode == "rb"
        return io.BytesIO(self.cat_file(path))

    def invalidate_cache(self, path: str | None = None) -> None:
        """Have no cache."""

    def copy_of_objects(self) -> MemoryStore:
        """Return another store with the same objects."""
        other = store_of(self.kind)
        other.objects, other.writes, other.times = dict(self.objects), dict(self.writes), dict(self.times)
        other.now = self.now
        return other


class CreationStore(MemoryStore):
    """A store whose client can be told to create only."""

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite") -> None:
        self.on_request("pipe_file", path)
        if mode == "create" and path in self.objects:
            raise FileExistsError(path)
        self._write(path, value)


def store_of(kind: Kind) -> MemoryStore:
    """Return a store of a kind."""
    return CreationStore(kind) if kind == "creation" else MemoryStore(kind)
