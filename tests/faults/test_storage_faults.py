"""Everything that writes files, at every fault of the storage, and of the store of a key's rate."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE

from tests.faults.actions import ACTIONS
from tests.faults.outcomes import JOURNAL, RATE_STORE, RECOVERED, STORAGE
from tests.faults.services import Cell
from tests.unit.full_disk import fill_the_disk
from tests.unit.loopback import closed_port
from tests.unit.storage.fake_store import FakeStore

if TYPE_CHECKING:
    from tests.faults.actions import Action, Desk
    from tests.faults.conftest import Bench

# A digest asks no service, so that nothing fails at its first request.
_CELLS = [
    (action, fault)
    for fault in STORAGE
    for action in ACTIONS
    if action.files and not (action.kind == "digest" and fault.endswith("during the work"))
]
_JOURNALS = [action for action in ACTIONS if action.name == "PostBulletinOperator with journal"]
_BOOKS = [action for action in ACTIONS if action.service == "books" and action.kind in ("read", "books")]
_PLACE = "memory://shelf@faults"


def _label(action: Action) -> str:
    return action.label


def _no_route(*_: object) -> None:
    raise ConnectionError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))


@dataclass
class _Storage:
    """
    The storage of one cell.

    :param store: the object store, if the files go there.
    """

    desk: Desk
    store: FakeStore
    patch: pytest.MonkeyPatch

    def befall(self, fault: str, cell: Cell, *, again: bool = True) -> None:
        """Bring a fault about: at once, or at the first request; a folder is gone again at each one."""
        folder = self.desk.folder
        if "store" in fault:
            self.desk.place = _PLACE
        if fault == "disk full":
            # Where a file system sets space aside late, it says so then.
            self.patch.setattr(os, "fsync", _no_space)
        elif fault == "folder gone during the work":
            found = repeat(folder) if again else iter([folder])

            def leave() -> None:
                if each := next(found, None):
                    shutil.rmtree(each, ignore_errors=True)

            cell.on_request = leave
        elif fault == "a file in the place of the folder":
            folder.rmdir()
            folder.write_text("a neighbour's")
        elif fault == "store unreachable":
            self.lose()
        else:
            cell.on_request = self.lose

    def lose(self) -> None:
        """Have the store out of reach from now on."""
        self.store.on_request = _no_route

    def heal(self) -> None:
        """Let the storage work again."""
        self.patch.undo()
        self.store.on_request = lambda _name, _path: False
        if self.desk.folder.is_file():
            self.desk.folder.unlink()
        self.desk.folder.mkdir(exist_ok=True)

    def files(self) -> set[str]:
        """Return the names of all files, those of the package's own included."""
        if self.desk.place:
            return {_shown(name) for name in self.store.find("/faults")}
        return {path.name for path in self.desk.folder.iterdir()}


def _shown(path: str) -> str:
    """Return the name of an object; of what is in a hidden folder, that of the folder."""
    *folders, name = path.split("/")
    return next((folder for folder in folders if folder.startswith(".")), name)


def _no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def storage(desk: Desk) -> Iterator[_Storage]:
    """Have a storage that fails, and works again."""
    patch, store = pytest.MonkeyPatch(), FakeStore()
    attach("memory", "shelf", fs=store)
    yield _Storage(desk, store, patch)
    del _STORE_CACHE["memory-shelf"]
    patch.undo()


@pytest.mark.parametrize(
    ("action", "fault"), [pytest.param(action, fault, id=f"{fault}-{action.label}") for action, fault in _CELLS]
)
def test_a_fault_of_the_storage(action: Action, fault: str, storage: _Storage, bench: Bench) -> None:
    cell = Cell()
    bench.connect(action, cell)
    # A capture with running tasks asks for more while it writes.
    storage.befall(fault, cell, again=action.kind != "report")

    outcome = bench.outcome_of(action)
    cell.on_request = lambda: None
    storage.heal()

    outcome.is_as(STORAGE[fault].of(action))
    assert not storage.files() & set(action.files) or outcome.is_success
    bench.outcome_of(action).is_as(RECOVERED)
    assert storage.files() - action.receipts == set(action.files)


@pytest.mark.parametrize("action", _JOURNALS, ids=_label)
@pytest.mark.parametrize("fault", JOURNAL)
def test_a_fault_of_the_storage_of_a_journal(action: Action, fault: str, storage: _Storage, bench: Bench) -> None:
    cell = Cell()
    bench.connect(action, cell)
    storage.befall(fault, cell)

    bench.outcome_of(action).is_as(JOURNAL[fault][0])
    posted = cell.written
    # Without a record of the intent, nothing is sent.
    assert posted == ("during" in fault)
    cell.on_request = lambda: None
    storage.heal()

    bench.outcome_of(action).is_as(JOURNAL[fault][1])
    assert cell.written == 1


@pytest.mark.parametrize("action", _BOOKS, ids=_label)
@pytest.mark.parametrize("fault", RATE_STORE)
def test_a_fault_of_the_rate_store(
    action: Action, fault: str, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell()
    store = f"redis://127.0.0.1:{closed_port()}/0"
    if fault == "disk full":
        store = f"sqlite:///{tmp_path}/rate.db"
        fill_the_disk(monkeypatch)
    bench.connect(action, cell, rate_limit_store=store)

    outcome = bench.outcome_of(action)

    outcome.is_as(RATE_STORE[fault], shows_class=action.shown != "answered")
    # Without a permit, no request is sent.
    assert not cell.asked
    assert not {path.name for path in bench.desk.folder.iterdir()} & set(action.files)
