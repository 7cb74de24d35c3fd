"""The places that models write to: a folder on the local disk, and one in an object store; each notes what appears."""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE

from tests.models.attempts import seconds, store_turn
from tests.unit.storage.fake_store import FakeStore

if TYPE_CHECKING:
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

    def close(self) -> None:
        shutil.rmtree(self.folder)


class StorePlace(ModelPlace):
    """A folder in an object store that checks conditions; its requests are steps, by the made-up time."""

    def __init__(self, clock: MadeUpClock) -> None:
        super().__init__(clock)
        self.store = FakeStore(clock=seconds)
        self.store.on_request = lambda _name, _path: store_turn()
        self.store.on_block, self.store.on_written = store_turn, self._note
        self.folder = "memory://models@bucket"
        attach("memory", "models", fs=self.store)

    def _note(self, path: str, content: bytes) -> None:
        name = path.removeprefix(_BUCKET)
        if not name.startswith("."):
            self.on_file(name, content)

    def names(self) -> list[str]:
        return sorted(name.removeprefix(_BUCKET) for name in self.store.names)

    def close(self) -> None:
        _STORE_CACHE.pop("memory-models", None)
