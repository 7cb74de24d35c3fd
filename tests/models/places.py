"""The places that models write to: a folder on the local disk, and one in an object store; each notes what appears."""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE

from tests.models.attempts import seconds, store_turn
from tests.unit.storage.fake_store import CreationOnly, FakeStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.models.attempts import MadeUpClock

_BUCKET = "/bucket/"


class ModelPlace(ABC):
    """A folder."""

    #: The address of the folder.
    folder: str

    def __init__(self, clock: MadeUpClock) -> None:
        self.clock = clock
        #: Called with the name and the content of a file that appears there, unless it is hidden.
        self.on_file: Callable[[str, bytes], None] = lambda _name, _content: None

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all files there, the hidden ones included."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""

    @abstractmethod
    def close(self) -> None:
        """Remove the folder."""


class DiskPlace(ModelPlace):
    """A folder on the local disk."""

    def __init__(self, clock: MadeUpClock) -> None:
        super().__init__(clock)
        self.folder = tempfile.mkdtemp()
        clock.on_rename = self._note

    def _note(self, path: Path) -> None:
        if not path.name.startswith(".") and str(path.parent) == self.folder:
            self.on_file(path.name, path.read_bytes())

    def names(self) -> list[str]:
        return sorted(path.name for path in Path(self.folder).iterdir())

    def read(self, name: str) -> bytes | None:
        try:
            return Path(self.folder, name).read_bytes()
        except FileNotFoundError:
            return None

    def close(self) -> None:
        shutil.rmtree(self.folder)


class StorePlace(ModelPlace):
    """A folder in an object store that checks conditions."""

    def __init__(self, clock: MadeUpClock) -> None:
        super().__init__(clock)
        self.store = self._store()
        self.folder = "memory://models@bucket"
        attach("memory", "models", fs=self.store)

    def _store(self) -> FakeStore:
        return _PacedStore(self)

    def names(self) -> list[str]:
        return sorted(name.removeprefix(_BUCKET) for name in self.store.names)

    def read(self, name: str) -> bytes | None:
        found = self.store.store.get(_BUCKET + name)
        return None if found is None else bytes(found.getvalue())

    def close(self) -> None:
        _STORE_CACHE.pop("memory-models", None)


class CreationPlace(StorePlace):
    """A folder in an object store that checks conditions of creation alone."""

    def _store(self) -> FakeStore:
        return _PacedCreation(self)


class _PacedStore(FakeStore):
    """A store whose requests are steps, by the made-up time."""

    def __init__(self, place: StorePlace) -> None:
        super().__init__(clock=seconds)
        self._place = place
        self.on_block = store_turn

    def _replace(self, path: str, value: bytes, **options: Any) -> None:
        with self._request():
            FakeStore._replace(self, path, value, **options)
            self._note(path, value)

    def _note(self, path: str, value: bytes) -> None:
        name = path.removeprefix(_BUCKET)
        if not name.startswith("."):
            self._place.on_file(name, value)

    @contextmanager
    def _request(self) -> Iterator[None]:
        lost = store_turn()
        yield
        if lost:
            raise TimeoutError("the reply was lost")

    def rm(self, path: str | list[str], **_: Any) -> None:
        for each in [path] if isinstance(path, str) else path:
            self.rm_file(each)

    def rm_file(self, path: str) -> None:
        with self._request():
            super().rm_file(path)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        store_turn()
        content: bytes = super().cat_file(path, start, end, **options)
        return content

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        store_turn()
        if path not in self.store:
            raise FileNotFoundError(path)
        return self._described(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:  # noqa: FBT001, FBT002  as fsspec has it
        store_turn()
        return [self._described(name) for name in sorted(self.store) if name.startswith(f"{path}/")]


class _PacedCreation(_PacedStore, CreationOnly):
    """A store that checks conditions of creation alone."""

    def __init__(self, place: StorePlace) -> None:
        super().__init__(place)
        self.check_conditions(conditional=False)

    def _replace(self, path: str, value: bytes, **options: Any) -> None:
        with self._request():
            CreationOnly._replace(self, path, value, **options)
            self._note(path, value)
