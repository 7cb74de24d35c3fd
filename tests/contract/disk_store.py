"""The objects of a store in a folder: they outlive the process that has written them."""

from __future__ import annotations

import json
import secrets
from collections.abc import MutableMapping
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from fsspec.implementations.memory import MemoryFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What the name of an object's file begins with; that of a file which is being written does not.
_OBJECT, _PART = "o", "part"


class DiskObjects(MutableMapping[str, MemoryFile]):
    """
    The objects of a ``FakeStore``, each in a file of its own.

    One call of the system makes an object appear, takes the place of an older one, or removes it. So a process that is
    killed has done each of its requests, or has not.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _file(self, path: str) -> Path:
        return self.folder / f"{_OBJECT}{quote(path, safe='')}"

    def __getitem__(self, path: str) -> MemoryFile:
        try:
            content, version, written = json.loads(self._file(path).read_text())
        except FileNotFoundError:
            raise KeyError(path) from None
        file = MemoryFile(None, path, content.encode("latin-1"))
        file.version, file.written = version, written
        return file

    def __setitem__(self, path: str, file: MemoryFile) -> None:
        # Every process counts from 1, so the version that the store has made is not the only one of its kind.
        stored = [file.getvalue().decode("latin-1"), f'"{secrets.token_hex(8)}"', file.written]
        part = self.folder / _PART
        part.write_text(json.dumps(stored))
        part.replace(self._file(path))

    def __delitem__(self, path: str) -> None:
        try:
            self._file(path).unlink()
        except FileNotFoundError:
            raise KeyError(path) from None

    def __iter__(self) -> Iterator[str]:
        names = sorted(file.name for file in self.folder.iterdir())
        return (unquote(name.removeprefix(_OBJECT)) for name in names if name.startswith(_OBJECT))

    def __len__(self) -> int:
        return sum(1 for _ in self)
