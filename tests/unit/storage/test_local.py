"""What only the local disk does to a dataset: power cuts, full disks, links, locks."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError
from airflow_provider_mediaops.storage.dataset import Dataset
from tests.unit.storage.attempts import resumed
from tests.unit.storage.places import VIEW, Place, StoppedError, attempt, local_place, owner, rows, stopped


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return local_place(tmp_path)


def stage(place: Place, *batches: list[dict[str, Any]], state: Any = None, name: str = "d.jsonl") -> None:
    """Commit batches, and fail."""
    with stopped(), place.dataset(name).staging(owner()) as staging:
        for number, batch in enumerate(batches, 1):
            staging.commit(batch, {"batch": number, "more": state})
        raise StoppedError


class TestAfterAPowerCut:
    def records(self, folder: Path) -> Path:
        return folder / ".d.jsonl.records"

    def journal(self, folder: Path) -> Path:
        return folder / ".d.jsonl.checkpoint"

    @pytest.mark.parametrize("kept", range(0, 200, 7))
    def test_records_that_never_reached_the_disk_are_not_believed(self, here: Place, tmp_path: Path, kept: int) -> None:
        stage(here, rows(0), rows(2), rows(4))
        content = self.records(tmp_path).read_bytes()
        self.records(tmp_path).write_bytes(content[:kept])

        batch, records = resumed(here)

        assert records == rows(0, 2 * (batch or 0))
        whole = sum(len(content[:kept]) >= size for size in (len(content) // 3, 2 * len(content) // 3, len(content)))
        assert batch == (whole or None)

    def test_zeros_in_place_of_records_are_not_believed(self, here: Place, tmp_path: Path) -> None:
        stage(here, rows(0), rows(2), rows(4))
        content = bytearray(self.records(tmp_path).read_bytes())
        content[len(content) // 2] = 0
        self.records(tmp_path).write_bytes(content)

        assert resumed(here) == (1, rows(0))

    @pytest.mark.parametrize("tail", [b"", b"\0" * 4096, b'{"extent":[1,', b'{"extent":[1,1,1],"state":1}\n', b"{}\n"])
    def test_a_journal_is_believed_as_far_as_it_can_be_read(self, here: Place, tmp_path: Path, tail: bytes) -> None:
        stage(here, rows(0), rows(2), rows(4))
        whole = self.journal(tmp_path).read_bytes().splitlines(keepends=True)
        self.journal(tmp_path).write_bytes(b"".join(whole[:-1]) + tail)

        assert resumed(here) == (2, rows(0, 4))
        stage(here, rows(4))
        assert resumed(here)[1] == rows(0, 6)

    @pytest.mark.parametrize(
        "extent",
        [
            '["a",1,0]',
            "[0,1,0]",
            "[-5,1,0]",
            "[1e2,9,0]",
            "[true,1,0]",
            "[999,1,null]",
            "[1,9,0]",
            "[99,4,0]",
            "7",
            "[]",
        ],
    )
    def test_a_commit_that_cannot_be_is_damage(self, here: Place, tmp_path: Path, extent: str) -> None:
        stage(here, rows(0), rows(2))
        whole = self.journal(tmp_path).read_bytes()
        self.journal(tmp_path).write_bytes(whole + f'{{"extent":{extent},"state":{{"batch":9}}}}\n'.encode())

        assert resumed(here) == (2, rows(0, 4))

    def test_a_first_commit_of_rows_without_bytes_is_damage(self, here: Place, tmp_path: Path) -> None:
        stage(here, rows(0))
        head = self.journal(tmp_path).read_bytes().splitlines(keepends=True)[0]
        self.journal(tmp_path).write_bytes(head + b'{"extent":[0,1,0],"state":{"batch":9}}\n')

        assert resumed(here) == (None, [])

    @pytest.mark.parametrize(
        "head", [b"", b"\n", b"no journal\n", b"[1]\n", b'{"version":1,"owner":{}}\n', b"{}\n\n\n"]
    )
    def test_a_journal_without_a_good_beginning_is_none(self, here: Place, tmp_path: Path, head: bytes) -> None:
        stage(here, rows(0))
        self.journal(tmp_path).write_bytes(head)

        assert here.dataset().published(owner()) is None
        assert resumed(here) == (None, [])

    @pytest.fixture
    def on_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
        """Return what has reached the disk of the two files, by their names."""
        found: dict[str, bytes] = {}

        def sync(descriptor: int) -> None:
            file = Path(f"/proc/self/fd/{descriptor}").readlink()
            name = self.journal(tmp_path).name if ".checkpoint." in file.name else file.name
            found[name] = file.read_bytes()

        monkeypatch.setattr(os, "fdatasync", sync)
        return found

    def cut_power(self, folder: Path, on_disk: dict[str, bytes]) -> None:
        for file in (self.records(folder), self.journal(folder)):
            file.write_bytes(on_disk.get(file.name, b""))

    @pytest.mark.parametrize(("seconds", "lost"), [(60, 0), (5, 0), (4, 1)])
    def test_a_commit_that_comes_five_seconds_after_the_last_sync_is_not_lost(
        self,
        here: Place,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        on_disk: dict[str, bytes],
        seconds: int,
        lost: int,
    ) -> None:
        now = [100]
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        with stopped(), here.dataset().staging(owner()) as staging:
            for number in range(1, 6):
                now[0] += seconds
                staging.commit(rows(staging.rows), {"batch": number})
            raise StoppedError
        self.cut_power(tmp_path, on_disk)

        assert resumed(here) == (5 - lost, rows(0, 10 - 2 * lost))

    def test_a_journal_that_was_cut_down_never_names_records_that_are_not_on_the_disk(
        self, here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: dict[str, bytes]
    ) -> None:
        # After five seconds both files would be synced, whatever the length of the journal.
        monkeypatch.setattr(time, "monotonic", lambda: 100.0)
        with stopped(), here.dataset().staging(owner()) as staging:
            while self.journal(tmp_path).name not in on_disk:
                committed = staging.rows
                staging.commit(rows(staging.rows), {"batch": staging.rows, "more": "x" * 20_000})
            raise StoppedError
        self.cut_power(tmp_path, on_disk)

        assert resumed(here) == (committed - 2, rows(0, committed))

    def test_nothing_is_left_of_the_stage_at_all(self, here: Place, tmp_path: Path) -> None:
        stage(here, rows(0))
        self.records(tmp_path).unlink()

        assert resumed(here) == (None, [])


class TestWriting:
    @pytest.fixture
    def syncs(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """Return the times at which something is brought to the disk, by a clock that only the test moves on."""
        now = [100.0]
        seen: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        monkeypatch.setattr(os, "fdatasync", lambda _: seen.append(now[0]))
        self.now = now
        return seen

    def test_a_commit_is_two_writes(self, here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        writes: list[int] = []
        real = os.pwrite

        def write(*given: Any) -> int:
            writes.append(given[0])
            return real(*given)

        monkeypatch.setattr(os, "pwrite", write)
        with here.dataset().staging(owner()) as staging:
            writes.clear()
            for _ in range(10):
                staging.commit(rows(0, 50), {"token": "T"})
            assert len(writes) == 20

    def test_both_files_are_brought_to_the_disk_every_5_seconds(self, here: Place, syncs: list[float]) -> None:
        with here.dataset().staging(owner()) as staging:
            del syncs[:]
            for _ in range(40):
                staging.commit(rows(0), None)
                self.now[0] += 0.5
            assert syncs == [105.0, 105.0, 110.0, 110.0, 115.0, 115.0]

    def test_the_journal_stays_short(self, here: Place, tmp_path: Path) -> None:
        journal = tmp_path / ".d.jsonl.checkpoint"
        longest = 0
        with stopped(), here.dataset().staging(owner()) as staging:
            for number in range(200):
                staging.commit(rows(number, 1), {"batch": number, "more": "x" * 20_000})
                longest = max(longest, journal.stat().st_size)
            raise StoppedError

        assert longest < 300_000
        assert resumed(here) == (199, rows(0, 200))

    def test_a_journal_that_was_cut_down_names_the_attempt_that_began(self, here: Place) -> None:
        """By its owner all records are judged, also if a task that was given fewer retries resumes them."""
        attempt(here.dataset(), owner(clears=2), rows(0))
        attempt(here.dataset(), owner(clears=3), rows(1), stop=True)
        with stopped(), here.dataset().staging(owner(clears=1)) as staging:
            for first in (3, 5):
                staging.commit(rows(first), "long" * 100_000)
            raise StoppedError

        assert attempt(here.dataset(), owner(clears=4), rows(7)).resumed is True
        assert here.lines() == rows(1, 8)

    def test_a_published_file_is_readable_to_those_whom_the_umask_allows(self, here: Place, tmp_path: Path) -> None:
        previous = os.umask(0o027)
        try:
            for name in ("d.jsonl", "d.csv"):
                with here.dataset(name).staging(owner()):
                    pass
        finally:
            os.umask(previous)

        assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("d.jsonl", "d.csv")} == {0o640}

    def test_folders_are_made(self, here: Place, tmp_path: Path) -> None:
        with here.dataset("a/b/d.jsonl").staging(owner()) as staging:
            staging.commit(rows(0), None)

        assert (tmp_path / "a" / "b" / "d.jsonl").exists()

    @pytest.mark.parametrize("name", ["n" * 249 + ".jsonl", "ü" * 120 + ".csv"])
    def test_a_name_as_long_as_the_file_system_allows_is_written(self, here: Place, name: str) -> None:
        stage(here, rows(0), name=name)
        with here.dataset(name).staging(owner()) as staging:
            assert staging.resumed

        assert here.visible() == [name]

    def test_a_name_that_is_no_text_is_gone_on_with_all_the_same(self, here: Place) -> None:
        name = os.fsdecode(b"caf\xe9.jsonl")
        with here.dataset(name).staging(owner("earlier")) as staging:
            staging.commit(rows(0), None)
        assert here.dataset(name).published(owner("earlier")) == staging.summary

        stage(here, rows(0), name=name)
        with here.dataset(name).staging(owner()) as staging:
            assert staging.resumed

    # The paths of Airflow 3.1 know no home folder, neither to read nor to write.
    @pytest.mark.airflow(">=3.3")
    def test_a_tilde_is_the_home_folder(self, here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        with Dataset("~/d.jsonl", view=VIEW).staging(owner()) as staging:
            staging.commit(rows(0), None)

        assert here.lines() == rows(0)

    def test_a_link_stays_and_leads_to_the_new_content(self, here: Place, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "d.jsonl").symlink_to(tmp_path / "data" / "real.jsonl")
        stage(here, rows(0))
        with here.dataset().staging(owner()) as staging:
            assert staging.resumed

        assert (tmp_path / "d.jsonl").is_symlink()
        assert len((tmp_path / "data" / "real.jsonl").read_bytes().splitlines()) == 2
        assert here.dataset().published(owner())

    def test_a_file_of_the_user_whose_name_is_like_that_of_a_part_stays(self, here: Place) -> None:
        here.write(".d.jsonl.my-notes-of-2026.part", b"notes")
        attempt(here.dataset(), owner(), rows(0))

        assert here.read(".d.jsonl.my-notes-of-2026.part") == b"notes"


class TestLock:
    def test_it_is_let_go_of_where_the_block_cannot_begin(self, here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(Path, "replace", refuse)
        with pytest.raises(PermissionError, match=r"d\.jsonl cannot be written"):
            here.dataset().staging(owner()).__enter__()
        monkeypatch.undo()

        stage(here, rows(0))

    def test_another_attempt_of_the_same_task_that_still_lives_is_in_the_way_too(self, here: Place) -> None:
        with here.dataset().staging(owner()), pytest.raises(DestinationInUseError):
            here.dataset().staging(owner()).__enter__()

    def test_it_holds_while_the_journal_is_cut_down(self, here: Place) -> None:
        with here.dataset().staging(owner("one")) as staging:
            for number in range(40):
                staging.commit([], "x" * 20_000)
                with pytest.raises(DestinationInUseError, match="by one"):
                    here.dataset().staging(owner(f"two {number}")).__enter__()

    def test_a_journal_that_is_replaced_in_the_last_moment_is_opened_again(
        self, here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = fcntl.flock
        times: list[int] = []

        def lock(descriptor: int, how: int) -> None:
            journal = tmp_path / ".d.jsonl.checkpoint"
            if len(times) < 2:
                # Between the opening and the lock another task publishes, or cleans up.
                times.append(how)
                journal.unlink()
                if len(times) == 1:
                    journal.touch()
            real(descriptor, how)

        monkeypatch.setattr(fcntl, "flock", lock)
        stage(here, rows(0))

        assert len(times) == 2
        assert resumed(here) == (1, rows(0))

    def test_who_has_it_may_not_be_known_yet(self, here: Place, tmp_path: Path) -> None:
        with (tmp_path / ".d.jsonl.checkpoint").open("w") as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)

            message = re.escape("d.jsonl is being written by another task, last heard of at 20")
            with pytest.raises(DestinationInUseError, match=message):
                here.dataset().staging(owner()).__enter__()
