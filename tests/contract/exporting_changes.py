"""
Exports with changes whose attempts are killed, on a disk and on an object store; run as a program.

An older export is there. The next one dies at each of its steps, and then two things are tried: another attempt of its
task, and a task of another run. The argument is a folder, and what happened is printed as JSON.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import requests_mock
from airflow.sdk.io import attach

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.storage.files import path_of
from airflow_provider_mediaops.storage.sources import read_records
from tests.contract.disk_store import DiskObjects
from tests.contract.killing import Steps, is_killed
from tests.unit.storage.fake_store import FakeStore
from tests.unit.video.listings import Listings, replayed
from tests.unit.video_platform import connection, subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FORMS = ("local", "store")
_BASE = "https://video.example"
_START = 1_800_000_000.0
_RUN_SECONDS = 1_000.0
# An empty file that shows whether a folder can be written. It is removed at once, unless the process is killed in
# between. Or a file in the hidden folder of another one.
_HIDDEN = re.compile(r"/\.[^/]+\.[0-9a-f]{8,16}\.(part|probe)$|(^|/)\.[^/]+\.staging/")


@dataclass(frozen=True)
class Version:
    """What the platform has when a run asks."""

    listed: Mapping[int, dict[str, Any]]
    unlisted: Mapping[int, dict[str, Any]]

    @property
    def records(self) -> dict[str, Any]:
        return _by_id(*self.listed.values(), *self.unlisted.values())


def _by_id(*records: dict[str, Any]) -> dict[str, Any]:
    return {record["id"]: record for record in records}


def _version(numbers: Sequence[int], changed: int, unlisted: Sequence[int]) -> Version:
    """Return two pages of subscriptions, of which some have another content."""
    listed = {number: subscription(number, **({"run": changed} if number % 7 == changed else {})) for number in numbers}
    return Version(listed, {number: subscription(number) for number in unlisted})


# The runs, in order. Each has other records than the one before: added, removed, changed, and left out by the pages.
RUNS = {
    "older": _version(range(1, 61), 0, []),
    "killed": _version(range(2, 66), 1, [1]),
    "next": _version(range(5, 70), 2, [3]),
}


@dataclass(frozen=True)
class Scene:
    """
    A folder on a disk or on a store.

    :param root: the folder of this scene on the disk.
    """

    form: str
    root: Path

    @property
    def files(self) -> Path:
        """The folder that holds the files or objects."""
        return self.root / "files"

    @property
    def prefix(self) -> str:
        """The folder as the task names it."""
        return str(self.files) if self.form == "local" else "memory://shelf@bucket/out"

    def begin(self) -> None:
        """Make an empty place, and attach the store."""
        self.files.mkdir(parents=True)
        if self.form == "store":
            attach("memory", "shelf", fs=FakeStore(objects=DiskObjects(self.files), clock=_store_clock))

    def keep(self, name: str) -> None:
        """Keep what is there now; the visible files are the same, with their versions, and nobody writes into one."""
        shutil.rmtree(self.root / name, ignore_errors=True)
        shutil.copytree(self.files, self.root / name, copy_function=_keep)

    def restore(self, name: str) -> None:
        """Have again what was kept."""
        shutil.rmtree(self.files)
        shutil.copytree(self.root / name, self.files, copy_function=_keep)

    def contents(self) -> dict[str, bytes]:
        """Return all files, by their paths below the folder."""
        if self.form == "local":
            found = ((path.relative_to(self.files), path) for path in self.files.rglob("*") if path.is_file())
            return {str(name): path.read_bytes() for name, path in found}
        objects = DiskObjects(self.files)
        return {path.removeprefix("/bucket/out/"): file.getvalue() for path, file in objects.items()}

    def read(self) -> dict[str, Any]:
        """Return what a reader finds: whose dataset, whose changes, and whether these lead to that."""
        path = f"{self.prefix}/subs.jsonl"
        records = {record["id"]: record for record in map(json.loads, read_records(path_of(path), "jsonl"))}
        contents = self.contents()
        changes = {run: contents[f"changes/{run}.jsonl"] for run in RUNS if f"changes/{run}.jsonl" in contents}
        visible = {"subs.jsonl", *(f"changes/{run}.jsonl" for run in RUNS)}
        return {
            "dataset": next((run for run, version in RUNS.items() if records == version.records), "another"),
            "listed": next((run for run, version in RUNS.items() if records == _by_id(*version.listed.values())), ""),
            "changes": list(changes),
            "chained": _chained(records, changes.values()),
            "anew": _chained(records, [*changes.values()][-1:]),
            "besides": sorted(name for name in set(contents) - visible if not _HIDDEN.search(name)),
        }


def _keep(source: str, target: str) -> None:
    """Link a visible file, and copy one of a hidden folder."""
    (shutil.copy2 if ".staging/" in source else os.link)(source, target)


def _chained(records: Mapping[str, Any], changes: Any) -> bool:
    """Return whether changes, applied one after the other from nothing on, make these records."""
    found: dict[str, Any] = {}
    try:
        for lines in changes:
            found = replayed(found, [json.loads(line) for line in lines.split(b"\n")[:-1]])
    except AssertionError:
        return False
    return found == records


_run = "older"


def _store_clock() -> float:
    return _START + _RUN_SECONDS * list(RUNS).index(_run)


def export(scene: Scene, run: str) -> None:
    """Do what an attempt of a run does."""
    global _run  # noqa: PLW0603 each fork has its own
    _run = run
    listings = Listings(unlisted=RUNS[run].unlisted)
    listings.have(RUNS[run].listed)
    instance = SimpleNamespace(dag_id="dag", run_id=run, task_id="export", map_index=-1, max_tries=99)
    operator = ExportSubscriptionsOperator(
        task_id="export",
        destination=f"{scene.prefix}/subs.jsonl",
        changes=f"{scene.prefix}/changes/{run}.jsonl",
        mine=True,
    )
    with requests_mock.Mocker() as platform:
        platform.get(f"{_BASE}/v3/subscriptions", json=listings.answer)
        operator.execute({"ti": instance})  # type: ignore[typeddict-item]


def _live(attempt: Callable[[], None]) -> None:
    assert not is_killed(attempt, Steps(None))


def happened(scene: Scene) -> dict[str, Any]:
    """Return what came of all deaths in a scene."""
    scene.begin()
    export(scene, "older")
    scene.keep("older")
    attempt, another = partial(export, scene, "killed"), partial(export, scene, "next")
    # Imports what no fork has to import then.
    attempt()
    gc.collect()
    gc.freeze()
    whole = scene.contents()
    deaths: list[dict[str, Any]] = []
    for step in itertools.count(1):
        scene.restore("older")
        if not is_killed(attempt, Steps(step)):
            break
        scene.keep("dead")
        death: dict[str, Any] = {"step": step, "left": scene.read()}
        _live(attempt)
        death["retried"] = {**scene.read(), "same": _visible(scene.contents()) == _visible(whole)}
        scene.restore("dead")
        _live(another)
        death["followed"] = scene.read()
        deaths.append(death)
    scene.restore("older")
    kills = next(kills for kills in itertools.count() if not is_killed(attempt, Steps(kills + 1)))
    ended = {**scene.read(), "same": _visible(scene.contents()) == _visible(whole)}
    return {"deaths": deaths, "kills": kills, "ended": ended}


def _visible(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files whose names and folders begin with no dot."""
    return {name: content for name, content in contents.items() if "/." not in f"/{name}"}


if __name__ == "__main__":
    # Airflow prints its log.
    output, sys.stdout = sys.stdout, sys.stderr
    os.environ["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"] = connection(_BASE)
    scenes = [Scene(form, Path(sys.argv[1]) / form) for form in FORMS]
    print(json.dumps({each.form: happened(each) for each in scenes}), file=output, flush=True)
