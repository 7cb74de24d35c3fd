"""What only a disk does to a dataset: power failures, full disks, permissions, links, and files that others plant."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from airflow_provider_mediaops.storage import local
from tests.unit.storage.places import Place, attempt, local_place, owner, rows

STAGING = ".d.jsonl.staging"
STRANGER = 65534


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return local_place(tmp_path)


def log_of(place: Place) -> Path:
    """Return the file of the one claim that has frames."""
    folder = Path(place.prefix, STAGING, owner().folder)
    [file] = [each for each in folder.iterdir() if each.stat().st_size]
    return file


def fail(*_: object) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


class TestPowerFailure:
    def test_of_records_that_never_reached_the_disk_no_commit_counts(self, here: Place) -> None:
        """The file has its length, and its end is zeros: the log was lost, the names were kept."""
        attempt(here.dataset(), owner(), rows(0), rows(2), rows(4), stop=True)
        log = log_of(here)
        content = log.read_bytes()
        frames = [at for at in range(len(content)) if content[at:].startswith(b'{"version"')]
        ends = [*(at - 9 for at in frames[1:]), len(content)]
        for kept in range(0, len(content), 11):
            log.write_bytes(content[:kept] + b"\0" * (len(content) - kept))
            whole = sum(end <= kept for end in ends)
            staging = attempt(here.dataset(), owner(), stop=True)
            assert (staging.rows, staging.state) == ((2 * whole, {"batch": 2 * whole - 2}) if whole else (0, None)), (
                kept
            )
            for each in log.parent.iterdir():
                if each != log:
                    each.unlink()

    def test_a_log_is_brought_to_the_disk_every_5_seconds(self, here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        now, syncs = [100.0], list[float]()
        monkeypatch.setattr(local, "time", SimpleNamespace(monotonic=lambda: now[0]))
        with here.dataset().staging(owner()) as staging:
            monkeypatch.setattr(os, "fsync", lambda _: syncs.append(now[0]))
            for _ in range(40):
                staging.commit(rows(0), None)
                now[0] += 0.5
            assert syncs == [105.0, 110.0, 115.0]

    def test_before_a_file_takes_its_name_it_and_the_log_are_on_the_disk(
        self, here: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[str] = []
        real = Path.replace

        def replace(file: Path, target: Path) -> Path:
            steps.append(f"rename to {target.name}")
            return real(file, target)

        def sync(descriptor: int) -> None:
            steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().suffix or 'log'}")

        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(Path, "replace", replace)
        with here.dataset().staging(owner()) as staging:
            staging.commit(rows(0), None)
            del steps[:]

        at = steps.index("rename to d.jsonl")
        assert steps[:at] == ["sync log", "sync .part"]
        assert steps[at + 1].startswith("sync ")  # the folder that has the name
        assert "sync .part" in steps[at:]  # the manifest


class TestFullDisk:
    @pytest.mark.parametrize("room", [0, 45, 250])
    def test_full_disk_takes_nothing_of_what_is_committed(
        self, here: Place, monkeypatch: pytest.MonkeyPatch, room: int
    ) -> None:
        real, committed = os.pwrite, 0

        def write(descriptor: int, data: bytes, offset: int) -> int:
            left = room - offset
            if left <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(descriptor, bytes(data)[:left], offset)

        with (  # noqa: PT012
            pytest.raises(OSError, match=r"d\.jsonl cannot be written: No space left on device\. What is") as caught,
            here.dataset().staging(owner()) as staging,
        ):
            monkeypatch.setattr(os, "pwrite", write)
            for number in range(10):
                staging.commit(rows(2 * number), {"batch": 2 * number})
                committed = 2 * number + 2
        monkeypatch.setattr(os, "pwrite", real)

        assert caught.value.errno == errno.ENOSPC
        assert f"next attempt goes on after {committed} rows" in str(caught.value)
        assert attempt(here.dataset(), owner(), rows(committed)).summary["rows"] == committed + 2
        assert here.lines() == rows(0, committed + 2)

    def test_nothing_is_appended_after_a_write_that_failed(self, here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        with (  # noqa: PT012
            pytest.raises(OSError, match="an earlier write of this attempt has failed"),
            here.dataset().staging(owner()) as staging,
        ):
            with monkeypatch.context() as patch:
                patch.setattr(os, "pwrite", fail)
                with pytest.raises(OSError, match="Input/output error"):
                    staging.commit(rows(0), 1)
            staging.commit(rows(2), 2)
        assert here.visible() == []

    def test_an_attempt_that_cannot_begin_leaves_no_file_open(
        self, here: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        attempt(here.dataset(), owner(), rows(0), stop=True)
        before = psutil.Process().num_fds()

        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", fail)
            with pytest.raises(OSError, match="Input/output error"):
                here.dataset().staging(owner()).__enter__()
        assert psutil.Process().num_fds() == before
        assert attempt(here.dataset(), owner(), rows(2)).resumed is True


class TestPaths:
    def test_destination_that_cannot_be_written_is_refused_before_the_block(self, here: Place, tmp_path: Path) -> None:
        (tmp_path / "d.jsonl").mkdir()
        (tmp_path / "file").touch()

        with pytest.raises(IsADirectoryError, match=r"d\.jsonl cannot be written: it is a folder"):
            here.dataset().staging(owner()).__enter__()
        with pytest.raises(OSError, match=r"file/d\.jsonl cannot be written"):
            here.dataset("file/d.jsonl").staging(owner()).__enter__()

    @pytest.mark.parametrize("name", ["n" * 249 + ".jsonl", "ü" * 120 + ".csv", os.fsdecode(b"caf\xe9.jsonl")])
    def test_any_name_that_the_file_system_allows_is_written_in_folders_that_are_made(
        self, here: Place, name: str
    ) -> None:
        attempt(here.dataset(f"a/b/{name}"), owner(), rows(0), stop=True)
        assert attempt(here.dataset(f"a/b/{name}"), owner()).resumed

        assert here.dataset(f"a/b/{name}").published(owner())
        assert f"a/b/{name}" in here.names()

    def test_a_link_stays_and_leads_to_the_new_content(self, here: Place, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "d.jsonl").symlink_to(tmp_path / "data" / "real.jsonl")
        attempt(here.dataset(), owner(), rows(0), stop=True)
        assert attempt(here.dataset(), owner()).resumed

        assert (tmp_path / "d.jsonl").is_symlink()
        assert len((tmp_path / "data" / "real.jsonl").read_bytes().splitlines()) == 2
        assert here.dataset().published(owner())

    def test_a_change_of_the_permissions_is_no_new_version(self, here: Place, tmp_path: Path) -> None:
        attempt(here.dataset(), owner("old"), rows(0))
        with here.dataset().staging(owner()) as staging:
            staging.commit(rows(2), None)
            (tmp_path / "d.jsonl").chmod(0o600)

        assert here.lines() == rows(2)

    def test_of_the_hidden_folder_only_old_files_that_a_dead_writer_has_left_go(
        self, here: Place, tmp_path: Path
    ) -> None:
        attempt(here.dataset(), owner(), rows(0))
        for name, days in (("notes.txt", 8), ("old.part", 8), ("young.part", 6)):
            (tmp_path / STAGING / name).touch()
            os.utime(tmp_path / STAGING / name, 2 * (here.now - days * 24 * 3600,))
        attempt(here.dataset(), owner("next"), rows(0))

        left = {"notes.txt", "old.part", "young.part"} & {each.name for each in (tmp_path / STAGING).iterdir()}
        assert left == {"notes.txt", "young.part"}


class TestPermissions:
    @pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.parquet"])
    @pytest.mark.parametrize("before", [None, 0o600])
    def test_staged_file_is_private_and_published_one_is_ordinary(
        self, here: Place, tmp_path: Path, name: str, before: int | None
    ) -> None:
        """Or it has the permissions of the file that it replaces."""
        folder = tmp_path / f".{name}.staging"
        # Others could read it.
        folder.mkdir(mode=0o755)
        if before is not None:
            (tmp_path / name).touch(before)
        previous = os.umask(0o022)
        try:
            with here.dataset(name).staging(owner()) as staging:
                staging.commit(rows(0), 1)
                found = {stat.S_IMODE(each.stat().st_mode) for each in folder.rglob("*") if each.is_file()}
                assert found == {0o600}
                assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        finally:
            os.umask(previous)

        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == (before or 0o644)

    def test_a_file_system_that_shows_all_files_as_one_users_is_usable(
        self, here: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Its files are those of the user who mounted it, whoever creates them.
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
        attempt(here.dataset(), owner(), rows(0), stop=True)

        assert attempt(here.dataset(), owner(), rows(2)).resumed
        assert here.lines() == rows(0, 4)


class TestPlanted:
    """In a folder that others can write to, anything may have the name of the hidden folder."""

    @pytest.mark.parametrize(
        "plant",
        [
            lambda path: path.symlink_to("/tmp"),  # noqa: S108 nothing is written there
            lambda path: path.touch(),
            os.mkfifo,
        ],
        ids=["link", "file", "pipe"],
    )
    def test_planted_file_in_the_place_of_the_folder_is_refused(
        self, here: Place, tmp_path: Path, plant: Callable[[Path], Any]
    ) -> None:
        plant(tmp_path / STAGING)

        message = rf"d\.jsonl cannot be written: .*{STAGING} is not a folder of this user .* remove it"
        with pytest.raises(PermissionError, match=message):
            here.dataset().published(owner())
        with pytest.raises(PermissionError, match=message):
            here.dataset().staging(owner()).__enter__()

    def test_a_folder_of_another_user_is_refused(
        self, here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Root, as which the tests may run, gives it away; anybody else claims to be somebody else."""
        attempt(here.dataset(), owner(), rows(0))
        if os.geteuid() == 0:
            os.chown(tmp_path / STAGING, STRANGER, STRANGER)
        else:
            monkeypatch.setattr("airflow_provider_mediaops.storage.files._is_own", lambda *_: False)

        with pytest.raises(
            PermissionError, match=rf"{STAGING} is not a folder of this user \(its owner is uid [0-9]+\); remove it"
        ):
            here.dataset().published(owner())

    def test_a_link_in_the_place_of_a_log_is_not_followed(self, here: Place, tmp_path: Path) -> None:
        attempt(here.dataset(), owner(), rows(0), stop=True)
        log = log_of(here)
        (tmp_path / "elsewhere").write_bytes(log.read_bytes())
        log.unlink()
        log.symlink_to(tmp_path / "elsewhere")

        with pytest.raises(OSError, match=r"d\.jsonl cannot be read"):
            here.dataset().staging(owner()).__enter__()
