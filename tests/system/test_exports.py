"""Exports of several channels by mapped tasks: one loses its connection on the way, and most find nothing new later."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.faults import DropFault
from airflow_provider_mediaops.sandbox.state import Settings
from airflow_provider_mediaops.sandbox.video.subscriptions import FEW, MINE, NONE, Subscriptions, in_order
from scripts.demo import demo_params
from tests.system.running import ended, identity, own_services

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from airflow_provider_mediaops.sandbox.state import RequestRecord
    from tests.system.running import Ended, Runs, WatchedAirflow

EXAMPLE = "mediaops_export_channels"
DAGS = (EXAMPLE,)
EXAMPLE_ROWS = {MINE: 1_234, FEW: 7, NONE: 0}
DAG_ID = "system_channels"
CHANNELS = [MINE, MINE, FEW, NONE]
ROWS = [1_234, 777, 7, 0]
PAGES = [25, 16, 1, 1]
TASKS = [f"export[{number}]" for number in range(4)]
# The task whose connection is dropped, after so many pages; and the one whose channel has one row more later.
DROPPED, PAGES_BEFORE = 0, 12
GROWN = 1


@dataclass(frozen=True)
class Exported:
    """
    What a run has come to.

    :param run: the run.
    :param files: where its mapped tasks write.
    :param summaries: what each of them returned.
    :param contents: what each has written.
    :param identities: tell whether a file was written again.
    :param requests: what each of their platforms was asked.
    """

    run: Ended
    files: Sequence[Path]
    summaries: list[dict[str, Any]]
    contents: list[bytes]
    identities: list[tuple[int, int]]
    requests: list[list[RequestRecord]]

    @property
    def rows(self) -> list[list[dict[str, Any]]]:
        """What each file held."""
        return [[json.loads(line) for line in content.splitlines()] for content in self.contents]

    def tokens(self, number: int) -> list[str | None]:
        """Give the page tokens that a task's platform was asked for."""
        return [request.query.get("pageToken") for request in self.requests[number]]


def exported(run: Ended, files: Sequence[Path], platforms: Sequence[SandboxServer] = ()) -> Exported:
    return Exported(
        run,
        files,
        summaries=[run.value(f"export[{number}]") for number in range(len(files))],
        contents=[file.read_bytes() for file in files],
        identities=[identity(file) for file in files],
        requests=[list(platform.state.requests) for platform in platforms],
    )


def listed(channel: str, many: int) -> list[dict[str, Any]]:
    """Give what an export of a channel holds, where the user's own has so many subscriptions."""
    return in_order(Subscriptions(kind_prefix="svc", many=many).of_channel(channel) or [], "alphabetical")


def counts(summary: dict[str, Any]) -> dict[str, Any]:
    """Give what a task says of its walk."""
    return {name: value for name, value in summary.items() if name not in ("path", "bytes")}


@pytest.fixture(scope="module")
def platforms(airflow: WatchedAirflow) -> Iterator[list[SandboxServer]]:
    """Have a platform for each mapped task."""
    settings = {f"channel_{number}": Settings(subscriptions=rows) for number, rows in enumerate(ROWS)}
    with own_services(airflow, "video", settings, max_attempts=1) as servers:
        yield list(servers.values())


@pytest.fixture(scope="module")
def first(airflow: WatchedAirflow, platforms: list[SandboxServer], output: Path) -> Exported:
    """Let the channels be exported, one of them over a connection that breaks in the middle of a page."""
    platforms[DROPPED].state.faults.arm(DropFault(service="video", after=PAGES_BEFORE))
    files = [output / DAG_ID / f"{number}-{channel}.jsonl" for number, channel in enumerate(CHANNELS)]
    return exported(ended(airflow, DAG_ID, airflow.trigger(DAG_ID)), files, platforms)


@pytest.fixture(scope="module")
def example(runs: Runs, output: Path) -> Exported:
    return exported(runs.ended(EXAMPLE), [output / EXAMPLE / f"{channel}.jsonl" for channel in EXAMPLE_ROWS])


@pytest.fixture(scope="module")
def again(
    airflow: WatchedAirflow, platforms: list[SandboxServer], first: Exported, example: Exported, output: Path
) -> dict[str, Exported]:
    """Let both DAGs run once more, when the first runs have ended and one of the channels has grown."""
    for platform in platforms:
        platform.state.requests.clear()
    platforms[GROWN].state.subscriptions = Subscriptions(kind_prefix="svc", many=ROWS[GROWN] + 1)
    run_id = airflow.trigger(DAG_ID)
    example_run_id = airflow.trigger(EXAMPLE, demo_params(EXAMPLE, output))
    return {
        DAG_ID: exported(ended(airflow, DAG_ID, run_id), first.files, platforms),
        EXAMPLE: exported(ended(airflow, EXAMPLE, example_run_id), example.files),
    }


def test_each_channel_of_the_example_has_its_file(example: Exported) -> None:
    assert example.rows == [listed(channel, EXAMPLE_ROWS[MINE]) for channel in EXAMPLE_ROWS]
    assert [summary["rows"] for summary in example.summaries] == list(EXAMPLE_ROWS.values())


def test_each_channel_has_its_file_whole(first: Exported) -> None:
    assert first.run.states == dict.fromkeys(TASKS, "success")
    assert first.rows == [listed(channel, rows) for channel, rows in zip(CHANNELS, ROWS, strict=True)]
    assert [summary["bytes"] for summary in first.summaries] == [len(content) for content in first.contents]
    left = {name for file in first.files for name in (file.name, f".{file.name}.staging")}
    assert {path.name for path in first.files[0].parent.iterdir()} == left


def test_after_a_broken_connection_the_retry_goes_on_with_that_page(first: Exported) -> None:
    tokens = first.tokens(DROPPED)
    assert [request.fault for request in first.requests[DROPPED]] == [
        "drop" if number == PAGES_BEFORE else None for number in range(PAGES[DROPPED] + 1)
    ]
    # The page that broke is the one that was asked for twice.
    assert tokens[PAGES_BEFORE] == tokens[PAGES_BEFORE + 1]
    assert len(set(tokens)) == PAGES[DROPPED]
    assert tokens[0] is None
    assert first.run.tasks[TASKS[DROPPED]].try_number == 2
    assert counts(first.summaries[DROPPED]) == {
        "rows": ROWS[DROPPED],
        "pages": PAGES[DROPPED],
        "duplicates": 0,
        "restarts": 0,
        "complete": True,
        "resumed": True,
        "changed": True,
    }


def test_the_logs_of_both_tries_say_where_it_stopped_and_went_on(first: Exported) -> None:
    kept = f"{50 * PAGES_BEFORE} subscriptions of {PAGES_BEFORE} pages"
    failed, went_on = (first.run.log(TASKS[DROPPED], number) for number in (1, 2))
    assert "\nConnectionFailedError: " in failed
    assert f"Kept {kept} for the next attempt." in failed
    assert f"resumed after {kept}." in went_on


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_other_mapped_tasks_know_nothing_of_it(first: Exported, number: int) -> None:
    assert first.run.tasks[TASKS[number]].try_number == 1
    assert len(first.tokens(number)) == len(set(first.tokens(number))) == PAGES[number]
    assert (first.summaries[number]["resumed"], first.summaries[number]["changed"]) == (False, True)


@pytest.mark.parametrize("number", [0, 2, 3])
def test_where_nothing_has_changed_the_next_run_leaves_the_file(
    first: Exported, again: dict[str, Exported], number: int
) -> None:
    later = again[DAG_ID]
    assert later.identities[number] == first.identities[number]
    # It has looked at all of them.
    assert len(later.tokens(number)) == len(set(later.tokens(number))) == PAGES[number]
    assert later.summaries[number] == {**first.summaries[number], "resumed": False, "changed": False}
    assert f"Nothing has changed in {ROWS[number]} subscriptions" in later.run.log(TASKS[number])


def test_where_something_has_changed_it_writes_it_anew(first: Exported, again: dict[str, Exported]) -> None:
    later = again[DAG_ID]
    assert later.identities[GROWN] != first.identities[GROWN]
    assert later.rows[GROWN] == listed(MINE, ROWS[GROWN] + 1)
    assert (later.summaries[GROWN]["rows"], later.summaries[GROWN]["changed"]) == (ROWS[GROWN] + 1, True)


def test_the_next_run_of_the_example_leaves_its_files(example: Exported, again: dict[str, Exported]) -> None:
    assert again[EXAMPLE].identities == example.identities
    assert [summary["changed"] for summary in example.summaries] == [True] * 3
    assert [summary["changed"] for summary in again[EXAMPLE].summaries] == [False] * 3
