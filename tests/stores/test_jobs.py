"""Everything that tasks do with files, on three clouds."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk.io.store import _STORE_CACHE

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sandbox.books import sample_isbns
from airflow_provider_mediaops.sandbox.subscriptions import MINE
from tests.airflow_names import TaskDeferred
from tests.stores.emulators import BUCKET, is_write
from tests.stores.one_task import context_of
from tests.unit.sensor_forms import first_event, made_again

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.stores.conftest import Place
    from tests.stores.guard import Answer

TASK_SECONDS = 240


def start_export(place: Place, number: int) -> subprocess.Popen[bytes]:
    """Start an export in a process of its own."""
    arguments = json.dumps({"destination": f"{place.folder}/d.jsonl", "mine": True, "page_size": 10})
    command = [sys.executable, "-m", "tests.stores.one_task", arguments, str(number)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def lines(place: Place, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.read(name).splitlines()]


def export(place: Place, name: str = "d.jsonl", **more: Any) -> dict[str, Any]:
    number, run = more.pop("number", 1), more.pop("run", "run")
    task = ExportSubscriptionsOperator(task_id="task", destination=f"{place.folder}/{name}", mine=True, **more)
    return task.execute(context_of(number, run))


def without_staging(place: Place) -> list[str]:
    """Return the names of the files that a reader sees."""
    return [name for name in place.names() if not any(part.startswith(".") for part in name.split("/"))]


def test_exports_in_three_formats_have_every_row(place: Place, tmp_path: Path) -> None:
    for name in ("d.jsonl", "d.csv", "d.parquet"):
        assert export(place, name)["rows"] == 120

    assert len({row["id"] for row in lines(place, "d.jsonl")}) == 120
    assert place.read("d.csv").count(b"\n") == 121
    (tmp_path / "d.parquet").write_bytes(place.read("d.parquet"))
    assert pq.read_table(tmp_path / "d.parquet").num_rows == 120
    assert without_staging(place) == ["d.csv", "d.jsonl", "d.parquet"]


def test_a_file_that_is_sent_in_several_requests_appears_whole(place: Place, sandbox: SandboxServer) -> None:
    for subscription in sandbox.state.subscriptions.of_channel(MINE) or ():
        subscription["snippet"]["description"] = "x" * 100_000
    summary = export(place, "d.jsonl", page_size=10)

    content = place.read("d.jsonl")
    assert len(content) == summary["bytes"] > 12_000_000
    assert len({json.loads(line)["id"] for line in content.splitlines()}) == 120


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_an_export_of_many_pages_keeps_few_objects(new_place: Callable[..., Place]) -> None:
    there, most = set[str](), 0

    def count(method: str, path: str, body: bytes) -> None:
        nonlocal most
        name = path.partition("?")[0]
        if method == "PUT":
            there.add(name)
        elif method == "DELETE":
            there.discard(name)
        elif method == "POST":
            there.difference_update(f"/{BUCKET}/{key}" for key in re.findall("<Key>(.*?)</Key>", body.decode()))
        most = max(most, len(there))

    place = new_place(count)
    assert export(place, "d.jsonl", page_size=1)["pages"] == 120
    assert 1 < most < 40
    assert there == {f"/{BUCKET}/{place.name}/{name}" for name in place.names()}


def test_a_second_run_replaces_the_export_and_says_what_changed(place: Place) -> None:
    changes = f"{place.folder}/changes.jsonl"
    assert not export(place, "d.jsonl", changes=changes)["compared"]

    summary = export(place, "d.jsonl", changes=changes, run="the next")

    assert (summary["compared"], summary["added"], summary["removed"]) == (True, 0, 0)
    assert len(lines(place, "d.jsonl")) == 120
    assert without_staging(place) == ["changes.jsonl", "d.jsonl"]


def test_a_retry_after_success_returns_the_result(place: Place) -> None:
    first = export(place, "d.jsonl")
    before = len(place.guard.methods)

    assert export(place, "d.jsonl", number=2) == first
    assert not [method for method in place.guard.methods[before:] if method in {"PUT", "PATCH", "DELETE"}]


def test_captures_in_a_cloud_become_a_digest(place: Place) -> None:
    for hour in range(2):
        task = CaptureHotThreadsOperator(
            task_id="task", destination=f"{place.folder}/captures/{hour}.txt", interval="10ms"
        )
        paths = task.execute(context_of(1, f"run {hour}"))["paths"]
        assert paths["txt"] == f"{place.folder}/captures/{hour}.txt"

    digest = HotThreadsDigestOperator(
        task_id="task", source=f"{place.folder}/captures", destination=f"{place.folder}/week.html"
    ).execute(context_of(1))

    assert digest["captures"] == 2
    assert b"<html" in place.read("week.html")
    assert len(without_staging(place)) == 2 * 4 + len(digest["paths"])


def test_an_export_killed_at_a_write_is_finished_by_the_next_try(new_place: Callable[..., Place]) -> None:
    writes = 0
    victims: list[int] = []

    def kill(method: str, path: str, _: bytes) -> Answer | None:
        nonlocal writes
        if victims and is_write(method, path):
            writes += 1
            if writes == 4:
                os.kill(victims.pop(), signal.SIGKILL)
        return None

    place = new_place(kill)
    victim = start_export(place, number=1)
    victims.append(victim.pid)
    victim.communicate(timeout=TASK_SECONDS)
    assert victim.returncode == -signal.SIGKILL

    second = start_export(place, number=2)
    printed, said = second.communicate(timeout=TASK_SECONDS)
    assert second.returncode == 0, said.decode()[-3000:]
    assert json.loads(printed.splitlines()[-1])["rows"] == 120
    ids = [row["id"] for row in lines(place, "d.jsonl")]
    assert len(ids) == len(set(ids)) == 120


@pytest.mark.parametrize(("operator", "rows"), [(ExportSubscriptionsOperator, 120), (EnrichIsbnsOperator, 9)])
def test_deferred_task_writes_every_row(place: Place, operator: Any, rows: int) -> None:
    place.write("list.txt", "\n".join(sample_isbns(9)).encode())
    what = {"mine": True} if operator is ExportSubscriptionsOperator else {"source": f"{place.folder}/list.txt"}
    task = operator(task_id="task", destination=f"{place.folder}/d.jsonl", deferrable=True, **what)
    with pytest.raises(TaskDeferred) as raised:
        task.execute(context_of(1))
    deferred = raised.value
    # The triggerer is another process, so it opens the store itself.
    _STORE_CACHE.clear()

    event = asyncio.run(first_event(made_again(deferred.trigger)))

    resume = getattr(task, deferred.method_name)
    assert resume(context_of(1), event=event, **(deferred.kwargs or {}))["rows"] == rows
    assert len(set(place.read("d.jsonl").splitlines())) == rows
