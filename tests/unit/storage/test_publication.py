"""A publication that an attempt has begun, and who may finish it: what anybody can plant leads nowhere else."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage.journal import companion_line, header_line, receipt_line
from airflow_provider_mediaops.storage.ownership import Receipt
from airflow_provider_mediaops.storage.publication import Publication
from airflow_provider_mediaops.storage.segments import companion_name, publication_name
from airflow_provider_mediaops.storage.staged_files import StagedCompanion, identity_of
from tests.unit.storage.places import Place, StoppedError, companion_of, local_place, owner, rows, stopped

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.storage.ownership import Owner
    from tests.unit.storage.conftest import Store

OLD, NEW = rows(0), rows(5, 3)
VICTIM = "/bucket/elsewhere/victim.jsonl"
PARTS = "/bucket/top/.d.jsonl.parts"
STRANGER = owner("stranger/run/task/-1")


def begin(place: Place, companion: str | None, who: Owner) -> None:
    """Begin an attempt, and let it end with an error."""
    with stopped(), place.dataset(companion=companion).staging(who):
        raise StoppedError


def publish(place: Place, path: str, records: list[dict[str, Any]], text: str, who: Owner | None = None) -> None:
    with place.dataset(companion=path).staging(who or owner()) as staging:
        staging.commit(records, None)
        staging.companion = companion_of(path, text)


def shelf(path: str) -> str:
    """Return the address of an object."""
    return f"memory://shelf@{path.removeprefix('/')}"


class TestReach:
    @pytest.mark.parametrize(
        ("companion", "own", "may"),
        [
            ("/b/out/c.jsonl", None, True),
            ("/b/out/below/it/c.jsonl", None, True),
            ("/b/changes/yesterday.jsonl", "/b/changes/today.jsonl", True),
            ("/b/changes/yesterday.jsonl", None, False),
            ("/b/changes/below/yesterday.jsonl", "/b/changes/today.jsonl", False),
            ("/b/elsewhere/c.jsonl", "/b/changes/today.jsonl", False),
            ("/b/outer/c.jsonl", None, False),
            ("/b/c.jsonl", None, False),
            ("/c.jsonl", None, False),
            ("c.jsonl", None, False),
            ("", None, False),
            ("/b/out/", None, False),
            ("/b/out/d.jsonl", None, False),
            ("/b/out/.other.jsonl.checkpoint", None, False),
            ("/b/out/../elsewhere/c.jsonl", None, False),
        ],
    )
    def test_it_is_below_the_folder_of_the_dataset_or_beside_the_own_companion(
        self, companion: str, own: str | None, *, may: bool
    ) -> None:
        publication = Publication(owner(), {"bytes": 1}, None, "", companion)

        assert publication.is_within_reach("/b/out/d.jsonl", own) is may


def plant(store: Store, path: str, **fields: Any) -> None:
    """Plant what a writer of the bucket can: a dataset without a receipt, a companion, and what names its path."""
    store.pipe_file(VICTIM, b"precious")
    store.rm_file("/bucket/top/.d.jsonl.checkpoint")
    size = store.info("/bucket/top/d.jsonl")["size"]
    publication = asdict(Publication(STRANGER, {"bytes": size}, None, "", path))
    store.pipe_file(f"{PARTS}/{publication_name(0, 'bad')}", json.dumps({**publication, **fields}).encode())
    store.pipe_file(f"{PARTS}/{companion_name(0, 'bad')}", b"planted")


class TestPlanted:
    def test_it_leads_to_no_other_folder(self, bucket: Place, store: Store) -> None:
        companion = f"{bucket.prefix}/changes/c.jsonl"
        publish(bucket, companion, OLD, "older")
        plant(store, VICTIM)
        # Neither the one that is refused first, nor another task, writes it; and the first keeps no lease.
        for who in (owner(), owner("other/run/task/-1")):
            with pytest.raises(PermanentError, match=r"by 'stranger/run/task/-1', which ended .* remove") as told:
                begin(bucket, companion, who)
            assert f"{PARTS}/{publication_name(0, 'bad')}" in str(told.value)
        assert store.cat_file(VICTIM) == b"precious"
        assert bucket.lines() == OLD

        store.rm_file(f"{PARTS}/{publication_name(0, 'bad')}")
        publish(bucket, companion, NEW, "newer")
        assert (bucket.lines(), bucket.read("changes/c.jsonl")) == (NEW, b"newer")
        assert store.cat_file(VICTIM) == b"precious"
        assert bucket.names() == [VICTIM, ".d.jsonl.checkpoint", "changes/c.jsonl", "d.jsonl"]

    @pytest.mark.parametrize(
        "fields",
        [
            {"companion": None},
            {"companion": ["/bucket/top/c"]},
            {"companion": f"/bucket/top/{'c' * 5_000}"},
            {"owner": {"task": 1, "parameters": "p"}},
            {"owner": {"task": "t" * 2_000, "parameters": "p"}},
            {"owner": []},
            {"summary": {}},
            {"summary": []},
            {"summary": {"bytes": True}},
            {"replaces": 1},
            {"staged": "another object"},
            {"digest": "x" * 2_000_000},
        ],
    )
    def test_what_no_attempt_has_written_is_passed_over(
        self, bucket: Place, store: Store, fields: dict[str, Any]
    ) -> None:
        companion = f"{bucket.prefix}/c.jsonl"
        publish(bucket, companion, OLD, "older")
        plant(store, "/bucket/top/planted.jsonl", **fields)

        publish(bucket, companion, NEW, "newer")

        assert (bucket.lines(), bucket.read("c.jsonl")) == (NEW, b"newer")
        assert not [name for name in bucket.names() if "planted" in name or "parts" in name]


class TestInAnotherFolder:
    """The companion has a folder of its own, and a name for each run."""

    @pytest.fixture
    def begun(self, bucket: Place, store: Store) -> Place:
        """Return a place in which the dataset of a run was published, and its companion could not be."""
        store.refusal, store.refuses = OSError("gone"), lambda path: path.startswith("/bucket/changes")
        with pytest.raises(OSError, match="gone"):
            publish(bucket, shelf("/bucket/changes/first.jsonl"), OLD, "first")
        store.refusal = None
        assert bucket.lines() == OLD
        return bucket

    def test_another_run_that_writes_to_it_finishes_the_pair(self, begun: Place, store: Store) -> None:
        begin(begun, shelf("/bucket/changes/second.jsonl"), owner("dag/second/task/-1"))

        assert store.cat_file("/bucket/changes/first.jsonl") == b"first"
        assert begun.dataset().published(owner())

    def test_the_next_attempt_finishes_it_and_returns_what_was_published(self, begun: Place, store: Store) -> None:
        summary = begun.dataset(companion=shelf("/bucket/changes/first.jsonl")).published(owner())

        assert summary is not None
        assert (summary["rows"], summary["changes"]) == (len(OLD), shelf("/bucket/changes/first.jsonl"))
        assert store.cat_file("/bucket/changes/first.jsonl") == b"first"

    def test_another_task_does_not_write_there_and_says_so(self, begun: Place, store: Store) -> None:
        for companion in (None, shelf("/bucket/elsewhere/second.jsonl")):
            with pytest.raises(PermanentError, match=r"could publish '/bucket/changes/first\.jsonl' with"):
                begin(begun, companion, owner("dag/second/task/-1"))
        assert "/bucket/changes/first.jsonl" not in store.names
        # The task that began it finishes it, whoever has come between.
        begin(begun, shelf("/bucket/changes/first.jsonl"), owner())
        assert store.cat_file("/bucket/changes/first.jsonl") == b"first"
        assert begun.dataset().published(owner())


class TestJournal:
    """A journal on a local disk is trusted if it is this user's; even so, it renames nothing but a staged companion."""

    @pytest.fixture
    def here(self, tmp_path: Path) -> Place:
        publish(local_place(tmp_path), f"{tmp_path}/c.jsonl", OLD, "older")
        return local_place(tmp_path)

    def plant(self, folder: Path, companion: StagedCompanion) -> None:
        target = folder / "d.jsonl"
        receipt = Receipt(STRANGER, {"path": str(target), "bytes": target.stat().st_size}, None, identity_of(target))
        lines = header_line(STRANGER, None) + companion_line(companion) + receipt_line(receipt)
        (folder / ".d.jsonl.checkpoint").write_bytes(lines)

    @pytest.mark.parametrize("name", ["precious", ".victim.companion", f".other.{'0' * 16}.companion"])
    def test_a_file_of_another_name_is_not_taken_for_a_staged_one(self, here: Place, tmp_path: Path, name: str) -> None:
        victim, staged = tmp_path / "victim", tmp_path / name
        victim.write_text("precious")
        staged.write_text("planted")
        self.plant(tmp_path, StagedCompanion(staged, victim, identity_of(staged)))

        begin(here, None, owner())

        assert (victim.read_text(), staged.read_text()) == ("precious", "planted")

    def test_file_in_another_folder_is_not_taken_for_a_staged_one(self, here: Place, tmp_path: Path) -> None:
        (tmp_path / "victim").write_text("precious")
        staged = tmp_path / "below" / f".victim.{'0' * 16}.companion"
        staged.parent.mkdir()
        staged.write_text("planted")
        self.plant(tmp_path, StagedCompanion(staged, tmp_path / "victim", identity_of(staged)))

        begin(here, None, owner())

        assert ((tmp_path / "victim").read_text(), staged.read_text()) == ("precious", "planted")

    @pytest.mark.parametrize("folder", ["a\0b", "\udc00\ud800"])
    def test_a_path_that_no_file_can_have_is_none(self, here: Place, tmp_path: Path, folder: str) -> None:
        staged = tmp_path / folder / f".victim.{'0' * 16}.companion"
        self.plant(tmp_path, StagedCompanion(staged, tmp_path / folder / "victim", "1:1"))

        begin(here, None, owner())

        assert here.lines() == OLD

    def test_a_staged_one_is_put_in_place(self, here: Place, tmp_path: Path) -> None:
        companion = StagedCompanion.of(companion_of(f"{tmp_path}/c.jsonl", "newer"))
        companion.staged.write_text("newer")
        self.plant(tmp_path, replace(companion, identity=identity_of(companion.staged)))

        begin(here, None, owner())

        assert here.read("c.jsonl") == b"newer"
        assert not companion.staged.exists()
