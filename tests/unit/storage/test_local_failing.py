"""Calls to the system that fail while a dataset on the local disk is written: nothing is lost, and nothing twice."""

from __future__ import annotations

import errno
import itertools
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.unit.storage.attempts import resumed
from tests.unit.storage.dying import OPEN_FILES, PATHS
from tests.unit.storage.places import Place, attempt, local_place, owner, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return local_place(tmp_path)


def refuse_call(patch: pytest.MonkeyPatch, number: int) -> Iterator[int]:
    """Let the disk be full at one of the calls that change files; return a count that has passed it once it came."""
    calls = itertools.count()

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> Any:
            if next(calls) == number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments, **options)

        return made

    for place, names in ((os, OPEN_FILES), (Path, PATHS)):
        for name in names:
            patch.setattr(place, name, counted(getattr(place, name)))
    return calls


def test_an_attempt_that_cannot_resume_leaves_no_file_open(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt(here.dataset(), owner(), rows(0), stop=True)

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", refuse)
        before = psutil.Process().num_fds()
        with pytest.raises(OSError, match="Input/output error"):
            here.dataset().staging(owner()).__enter__()
        assert psutil.Process().num_fds() == before
    assert attempt(here.dataset(), owner(), rows(2)).resumed is True


class TestFailing:
    def full_disk(self, patch: pytest.MonkeyPatch, *, at_file: str, room: int) -> Callable[[], None]:
        """Leave little room on the disk for one file; return what makes room."""
        real = os.pwrite
        room_left = [room]

        def write(descriptor: int, data: bytes, offset: int) -> int:
            if not str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith(at_file):
                return real(descriptor, data, offset)
            left = room_left[0] - offset
            if left <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(descriptor, bytes(data)[:left], offset)

        patch.setattr(os, "pwrite", write)
        return lambda: room_left.append(room_left.pop() + 1_000_000)

    @pytest.mark.parametrize(("at_file", "room"), [("records", 45), ("records", 0), ("checkpoint", 200)])
    def test_a_full_disk_takes_nothing_of_what_is_committed(
        self, here: Place, monkeypatch: pytest.MonkeyPatch, at_file: str, room: int
    ) -> None:
        committed = 0

        def commit_all() -> None:
            nonlocal committed
            with here.dataset().staging(owner()) as staging:
                self.full_disk(monkeypatch, at_file=at_file, room=room)
                for number in range(10):
                    staging.commit(rows(2 * number), {"batch": number + 1})
                    committed = number + 1

        with pytest.raises(OSError, match=r"d\.jsonl cannot be written: No space left on device\. What is") as caught:
            commit_all()
        monkeypatch.undo()

        assert caught.value.errno == errno.ENOSPC
        assert f"next attempt goes on after {2 * committed} rows" in str(caught.value)
        assert resumed(here) == (committed or None, rows(0, 2 * committed))

    def test_when_there_is_room_again_the_same_attempt_can_go_on(
        self, here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with here.dataset().staging(owner()) as staging:
            staging.commit(rows(0), 1)
            make_room = self.full_disk(monkeypatch, at_file="records", room=80)
            with pytest.raises(OSError, match="No space left"):
                staging.commit(rows(2, 50), 2)
            make_room()
            staging.commit(rows(2, 1), 3)

        assert list(map(json.loads, (tmp_path / "d.jsonl").read_bytes().splitlines())) == rows(0, 3)

    @pytest.mark.parametrize("seconds", [0, 10], ids=["at once", "synced"])
    def test_a_commit_that_failed_at_any_call_is_not_made(
        self, here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
    ) -> None:
        # Each look at the clock finds it moved on.
        monkeypatch.setattr(time, "monotonic", itertools.count(100, seconds).__next__)
        # Its journal is replaced by a shorter one.
        long = "x" * 300_000

        def fails_at(number: int) -> bool:
            """Let a call of two commits fail, and make that one again; return whether they have so many calls."""
            name = f"{number}.jsonl"
            with here.dataset(name).staging(owner()) as staging, monkeypatch.context() as patch:
                calls = refuse_call(patch, number)
                for start in (0, 2):
                    try:
                        staging.commit(rows(start), long)
                    except OSError:
                        staging.commit(rows(start), long)
                has_failed = next(calls) > number
            assert list(map(json.loads, (tmp_path / name).read_bytes().splitlines())) == rows(0, 4)
            return has_failed

        assert 3 < len(list(itertools.takewhile(fails_at, range(100)))) < 100

    @pytest.mark.parametrize("name", ["d.jsonl", "d.csv"])
    def test_a_destination_that_can_no_longer_be_replaced_keeps_the_stage(
        self, here: Place, tmp_path: Path, name: str
    ) -> None:
        def write() -> None:
            with here.dataset(name).staging(owner()) as staging:
                if not staging.resumed:
                    staging.commit(rows(0), None)
                    (tmp_path / name).mkdir()

        with pytest.raises(IsADirectoryError, match=rf"{name} cannot be written: .*goes on after 2 rows"):
            write()
        (tmp_path / name).rmdir()

        # The last step was all that was left, and finding out takes it.
        summary = here.dataset(name).published(owner())
        assert summary is not None
        assert summary["rows"] == 2
        assert here.names() == [f".{name}.checkpoint", name]

    def test_a_destination_that_is_a_folder_is_refused_before_the_block(self, here: Place, tmp_path: Path) -> None:
        (tmp_path / "d.jsonl").mkdir()

        with pytest.raises(IsADirectoryError, match=r"d\.jsonl cannot be written: it is a folder"):
            here.dataset().staging(owner()).__enter__()

        assert here.names() == ["d.jsonl"]

    def test_a_destination_below_a_file_is_refused_before_the_block(self, here: Place, tmp_path: Path) -> None:
        (tmp_path / "file").touch()

        with pytest.raises(OSError, match=r"file/d\.jsonl cannot be written"):
            here.dataset("file/d.jsonl").staging(owner()).__enter__()
