"""Who owns the files beside a local destination: attempts that lose them, and neighbours that plant their own."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError, PermanentError
from airflow_provider_mediaops.storage import files as storage_files
from tests.unit.storage.places import Place, StoppedError, local_place, owner, rows, stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.storage.dataset import Staging

JOURNAL, RECORDS, CONVERTED = (f".d.jsonl.{kind}" for kind in ("checkpoint", "records", "converted"))
STRANGER = 65534


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return local_place(tmp_path)


def stage(place: Place, *batches: list[dict[str, Any]], name: str = "d.jsonl", task: str = "mine") -> None:
    with stopped(), place.dataset(name).staging(owner(task)) as staging:
        for number, batch in enumerate(batches, 1):
            staging.commit(batch, number)
        raise StoppedError


class TestLosingTheDestination:
    """Somebody removes the hidden files while a task writes, so that another task can begin."""

    @pytest.mark.parametrize("name", ["d.jsonl", "d.csv"])
    def test_an_attempt_does_not_publish_another_ones_half_written_file(self, here: Place, name: str) -> None:
        second = here.dataset(name).staging(owner("second"))
        with pytest.raises(DestinationInUseError, match=rf"{name} is no longer this task's: .*publishes nothing"):  # noqa: PT012, SIM117
            with here.dataset(name).staging(owner("first")) as first:
                first.commit(rows(0), 1)
                here.remove(f".{name}.checkpoint")
                staging = second.__enter__()
                staging.commit(rows(100, 1), 1)

        assert here.visible() == []
        staging.commit(rows(101, 1), 2)
        assert second.__exit__(None, None, None) is not True
        assert len(here.read(name).splitlines()) == (2 if name == "d.jsonl" else 3)
        assert here.dataset(name).published(owner("second")) == staging.summary
        assert here.dataset(name).published(owner("first")) is None

    @pytest.mark.parametrize("lost", [JOURNAL, RECORDS])
    def test_a_commit_finds_out_that_a_file_was_removed(self, here: Place, lost: str) -> None:
        with pytest.raises(DestinationInUseError, match=f"no longer this task's: .*{lost} was removed"):  # noqa: PT012, SIM117
            with here.dataset().staging(owner()) as staging:
                staging.commit(rows(0), 1)
                here.remove(lost)
                staging.commit(rows(2), 2)

        assert here.visible() == []

    @pytest.mark.parametrize("lost", [JOURNAL, RECORDS])
    def test_a_commit_finds_out_that_a_file_was_replaced_by_a_copy(
        self, here: Place, tmp_path: Path, lost: str
    ) -> None:
        with pytest.raises(DestinationInUseError, match=lost):  # noqa: PT012, SIM117
            with here.dataset().staging(owner()) as staging:
                staging.commit(rows(0), 1)
                content = here.read(lost)
                here.remove(lost)
                (tmp_path / lost).write_bytes(content)
                staging.commit(rows(2), 2)

    @pytest.mark.parametrize("name", ["d.jsonl", "d.csv"])
    def test_records_that_were_changed_are_not_published(self, here: Place, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_text("older")
        with pytest.raises(DestinationInUseError, match=r"records was removed, replaced or changed"):  # noqa: PT012, SIM117
            with here.dataset(name).staging(owner()) as staging:
                staging.commit(rows(0), 1)
                with (tmp_path / f".{name}.records").open("r+b") as records:
                    records.write(b"[")

        assert here.read(name) == b"older"

    @pytest.mark.parametrize("name", ["d.jsonl", "d.csv"])
    def test_it_is_found_out_in_the_very_last_moment(
        self, here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """Another attempt begins between the last look at the file and the step that takes it."""
        kind = "records" if name == "d.jsonl" else "converted"
        real = Path.replace
        second = here.dataset(name).staging(owner("second"))
        begun: list[Staging] = []

        def rename(file: Path, target: Path) -> Path:
            if not begun and file.name == f".{name}.{kind}":
                here.remove(f".{name}.checkpoint")
                begun.append(second.__enter__())
                begun[0].commit(rows(100, 1), 1)
                if kind == "converted":
                    (tmp_path / file.name).write_text("half")
            return real(file, target)

        monkeypatch.setattr(Path, "replace", rename)
        with pytest.raises(DestinationInUseError), here.dataset(name).staging(owner("first")) as first:
            first.commit(rows(0), 1)

        assert here.visible() == []
        begun[0].commit(rows(101, 1), 2)
        second.__exit__(None, None, None)
        assert len(here.read(name).splitlines()) == (2 if kind == "records" else 3)
        assert here.dataset(name).published(owner("second")) == begun[0].summary

    def test_a_file_that_is_kept_is_not_claimed_by_an_attempt_that_lost_its_journal(self, here: Place) -> None:
        with here.dataset().staging(owner("first")) as staging:
            staging.commit(rows(0), 1)
            staging.digest = "same"
        with pytest.raises(DestinationInUseError, match=JOURNAL):  # noqa: PT012, SIM117
            with here.dataset().staging(owner("second")) as staging:
                staging.commit(rows(0), 1)
                staging.digest = "same"
                here.remove(JOURNAL)

        assert here.dataset().published(owner("second")) is None

    def test_the_next_attempt_begins_with_what_it_finds(self, here: Place) -> None:
        with suppress(DestinationInUseError), here.dataset().staging(owner()) as staging:
            staging.commit(rows(0), 1)
            here.remove(JOURNAL)
        with here.dataset().staging(owner()) as staging:
            assert not staging.resumed
            staging.commit(rows(5), 1)

        assert here.lines() == rows(5)
        assert here.names() == [JOURNAL, "d.jsonl"]


class TestPlantedFiles:
    """In a folder that others can write to, anything may have the name of a companion."""

    @pytest.fixture
    def victim(self, tmp_path: Path) -> Path:
        (tmp_path / "elsewhere").mkdir()
        file = tmp_path / "elsewhere" / "victim"
        file.write_text("precious")
        return file

    @pytest.fixture
    def here(self, tmp_path: Path) -> Place:
        (tmp_path / "shared").mkdir()
        return local_place(tmp_path / "shared")

    @pytest.fixture
    def in_folder(self, here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        """Work in the folder: the paths of sockets are short."""
        monkeypatch.chdir(here.prefix)

    @pytest.mark.parametrize("name", [JOURNAL, RECORDS, CONVERTED, ".d.jsonl.checkpoint.new"])
    def test_a_link_is_not_followed(self, here: Place, tmp_path: Path, victim: Path, name: str) -> None:
        (tmp_path / "shared" / name).symlink_to(victim)

        def write() -> None:
            with here.dataset().staging(owner()) as staging:
                staging.commit(rows(0), 1)

        if name.endswith(".new"):
            write()
        else:
            with pytest.raises(PermissionError, match=rf"d\.jsonl cannot be written: .*{name} is a symbolic link; rem"):
                write()
        assert victim.read_text() == "precious"

    def test_a_dangling_link_creates_nothing(self, here: Place, tmp_path: Path) -> None:
        (tmp_path / "shared" / JOURNAL).symlink_to(tmp_path / "new")

        with pytest.raises(PermissionError, match="symbolic link"):
            stage(here)
        assert not (tmp_path / "new").exists()

    def test_a_hard_link_to_another_file_of_the_user_is_not_written_to(
        self, here: Place, tmp_path: Path, victim: Path
    ) -> None:
        stage(here, [], rows(0))
        here.remove(RECORDS)
        (tmp_path / "shared" / RECORDS).hardlink_to(victim)

        stage(here, rows(0))
        assert victim.read_text() == "precious"

    @pytest.mark.parametrize("name", [JOURNAL, RECORDS])
    @pytest.mark.parametrize(
        ("plant", "kind"),
        [
            (os.mkfifo, "a named pipe"),
            (os.mkdir, "a folder"),
            (lambda path: socket.socket(socket.AF_UNIX).bind(str(path)), "a socket"),
        ],
        ids=["pipe", "folder", "socket"],
    )
    @pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
    @pytest.mark.usefixtures("in_folder")
    def test_what_is_no_file_is_refused_and_not_waited_for(
        self, here: Place, name: str, plant: Callable[..., None], kind: str
    ) -> None:
        plant(name)

        for _ in range(2):
            with pytest.raises(PermissionError, match=rf"d\.jsonl cannot be written: .*{name} is {kind}; remove it"):
                stage(here)
        if name == JOURNAL:
            with pytest.raises(PermissionError, match=kind):
                here.dataset().published(owner())

    @pytest.mark.parametrize("name", [JOURNAL, RECORDS])
    def test_a_pipe_that_takes_the_place_of_a_file_in_the_last_moment_is_not_waited_for(
        self, here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        stage(here, rows(0))
        real = os.open
        swapped: list[str] = []

        def open_(file: Any, flags: int, *mode: int) -> int:
            if str(file).endswith(name) and not swapped:
                swapped.append(name)
                here.remove(name)
                os.mkfifo(tmp_path / "shared" / name)
            return real(file, flags, *mode)

        monkeypatch.setattr(os, "open", open_)
        with pytest.raises(PermissionError, match=f"{name} is a named pipe"):
            stage(here)

    def test_a_pipe_at_the_journal_while_another_task_writes(self, here: Place) -> None:
        with here.dataset().staging(owner("first")), pytest.raises(DestinationInUseError, match="by first"):
            here.dataset().staging(owner("second")).__enter__()


class TestOtherUsers:
    """Root, as which the tests may run, gives a file away; anybody else claims to be somebody else."""

    @pytest.fixture
    def give_away(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
        def give(file: Path) -> None:
            if os.geteuid() == 0:
                os.chown(file, STRANGER, STRANGER)
                return
            monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
            real = storage_files._new_file_status  # noqa: SLF001
            monkeypatch.setattr(storage_files, "_new_file_status", lambda target: _owned_by_stranger(real(target)))

        return give

    def test_a_planted_receipt_is_not_believed(
        self, here: Place, tmp_path: Path, give_away: Callable[[Path], None]
    ) -> None:
        with here.dataset().staging(owner()) as staging:
            staging.commit(rows(0), 1)
        assert here.dataset().published(owner()) == staging.summary
        give_away(tmp_path / JOURNAL)

        message = rf"d\.jsonl cannot be written: .*{JOURNAL} is a file of another user \(uid [0-9]+\); remove it"
        with pytest.raises(PermissionError, match=message):
            here.dataset().published(owner())
        with pytest.raises(PermissionError, match=message):
            stage(here)

    def test_planted_records_are_not_resumed(
        self, here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stage(here, rows(0))
        real = storage_files.check_own

        def check(file: Path, advice: str) -> None:
            real(file, advice)
            if file.name == RECORDS:
                monkeypatch.setattr(storage_files, "_is_own", lambda *_: False)

        monkeypatch.setattr(storage_files, "check_own", check)
        with pytest.raises(PermissionError, match=f"{RECORDS} is a file of another user"):
            stage(here)

    def test_a_file_system_that_shows_all_files_as_one_users_is_usable(
        self, here: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Its files are those of the user who mounted it, whoever creates them.
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
        stage(here, rows(0), rows(2))

        with here.dataset().staging(owner("mine")) as staging:
            assert staging.resumed
        assert here.lines() == rows(0, 4)
        assert here.names() == [JOURNAL, "d.jsonl"]


def _owned_by_stranger(status: os.stat_result) -> os.stat_result:
    fields = list(status)
    fields[stat.ST_UID] = STRANGER
    return os.stat_result(fields)


class TestPermissions:
    @pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.parquet"])
    def test_what_is_staged_is_private_and_what_is_published_is_an_ordinary_file(
        self, here: Place, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: dict[str, set[int]] = {}
        real = os.pwrite

        def write(descriptor: int, *given: Any) -> int:
            for file in tmp_path.iterdir():
                seen.setdefault(file.name.rpartition(".")[2], set()).add(stat.S_IMODE(file.stat().st_mode))
            return real(descriptor, *given)

        monkeypatch.setattr(os, "pwrite", write)
        previous = os.umask(0o022)
        try:
            with here.dataset(name).staging(owner()) as staging:
                staging.commit(rows(0), 1)
                staging.commit(rows(2), 2)
        finally:
            os.umask(previous)

        assert seen.pop(name.rpartition(".")[2], {0o644}) == {0o644}
        seen.pop("converted", None)  # the receipt is written when it is ready to be published
        assert set(seen) == {"checkpoint", "records", "part"}
        assert set().union(*seen.values()) <= {0o600, 0o644}
        assert seen["checkpoint"] == {0o600}
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o644

    @pytest.mark.parametrize("name", ["d.jsonl", "d.csv"])
    def test_a_file_that_is_replaced_passes_on_its_permissions(self, here: Place, tmp_path: Path, name: str) -> None:
        (tmp_path / name).touch(0o600)
        with here.dataset(name).staging(owner()) as staging:
            staging.commit(rows(0), 1)

        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


class TestVersions:
    @pytest.mark.parametrize("version", ["2", '"1"', "null", "[1]"])
    def test_what_another_version_has_staged_is_refused_and_stays(
        self, here: Place, tmp_path: Path, version: str
    ) -> None:
        stage(here, rows(0))
        content = here.read(JOURNAL).replace(b'"version":1', f'"version":{version}'.encode())
        (tmp_path / JOURNAL).write_bytes(content)
        records = here.read(RECORDS)

        message = rf"{JOURNAL} has version .*, which this version of airflow-provider-mediaops does not know.* delete"
        with pytest.raises(PermanentError, match=message):
            here.dataset().staging(owner("another")).__enter__()
        with pytest.raises(PermanentError, match=message):
            here.dataset().published(owner("mine"))
        assert (here.read(JOURNAL), here.read(RECORDS)) == (content, records)
