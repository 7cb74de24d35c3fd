"""
Exports whose task is cleared: what is done again, and what is gone on with.

`tests/contract/test_kills.py` has those that are killed, and `tests/distributed` a worker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.state import Settings
from airflow_provider_mediaops.sandbox.subscriptions import MINE, Subscriptions, in_order
from tests.system.running import Ended, ended, own_platforms, wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.faults import RequestRecord
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import WatchedAirflow

DAG_ID = "system_clears"
EXPORTS = ("export_finished", "export_out_of_quota")
SUBSCRIPTIONS, PAGES = 220, 5
PAGES_BEFORE = 2
OLDER = "an older file\n"


@dataclass(frozen=True)
class Phase:
    """
    What all tasks have come to, before they were cleared or afterwards.

    :param run: the run, which may be waiting for one of them.
    :param requests: what each platform was asked in this phase.
    """

    run: Ended
    requests: dict[str, list[RequestRecord]]
    summaries: dict[str, dict[str, Any]]
    files: dict[str, str]

    def end(self, task_id: str) -> tuple[str | None, int]:
        """How a task ended, and at which try of its own."""
        return self.run.tasks[task_id].state, self.run.tries(task_id)

    def tokens(self, task_id: str) -> list[str | None]:
        """The page tokens that an export asked for."""
        return [request.query.get("pageToken") for request in self.requests[task_id]]

    def rows(self, task_id: str) -> list[dict[str, Any]]:
        """What a task has written."""
        return [json.loads(line) for line in self.files[task_id].splitlines()]


@pytest.fixture(scope="module")
def platforms(airflow: WatchedAirflow) -> Iterator[dict[str, SandboxServer]]:
    """Have a platform for each task; one of them has a quota of a few pages."""
    settings = {name: Settings(subscriptions=SUBSCRIPTIONS) for name in EXPORTS}
    settings["export_out_of_quota"] = Settings(subscriptions=SUBSCRIPTIONS, video_daily_units=PAGES_BEFORE)
    with own_platforms(airflow, settings, max_attempts=1) as servers:
        yield servers


@pytest.fixture(scope="module")
def run_id(airflow: WatchedAirflow, platforms: dict[str, SandboxServer], output: Path) -> str:
    folder = output / "clears"
    folder.mkdir()
    for name in platforms:
        (folder / f"{name}.jsonl").write_text(OLDER)
    return airflow.trigger(DAG_ID)


@pytest.fixture(scope="module")
def first(airflow: WatchedAirflow, platforms: dict[str, SandboxServer], run_id: str, output: Path) -> Phase:
    """Wait until all that is left is to clear."""

    def at_rest() -> bool:
        states = {task.name: task.state for task in airflow.task_instances(DAG_ID, run_id)}
        waits = states.pop("export_out_of_quota") == "up_for_retry"
        return waits and set(states.values()) <= {"success", "failed"}

    wait_for(at_rest, "each task has ended, or waits for its quota")
    tasks = {task.name: task for task in airflow.task_instances(DAG_ID, run_id)}
    return phase(Ended(airflow, DAG_ID, run_id, "running", tasks), platforms, output)


@pytest.fixture(scope="module")
def second(airflow: WatchedAirflow, platforms: dict[str, SandboxServer], first: Phase, output: Path) -> Phase:
    """Clear them, when the causes are gone and a platform has something new."""
    for server in platforms.values():
        server.state.requests.clear()
    platforms["export_out_of_quota"].state.settings = Settings(subscriptions=SUBSCRIPTIONS)
    platforms["export_finished"].state.subscriptions = Subscriptions(kind_prefix="svc", many=SUBSCRIPTIONS + 1)
    airflow.clear(DAG_ID, first.run.run_id, platforms)
    return phase(ended(airflow, DAG_ID, first.run.run_id), platforms, output)


def phase(run: Ended, platforms: dict[str, SandboxServer], output: Path) -> Phase:
    files = {name: output / "clears" / f"{name}.jsonl" for name in platforms}
    return Phase(
        run,
        requests={name: list(server.state.requests) for name, server in platforms.items()},
        summaries={name: run.value(name) for name, task in run.tasks.items() if task.state == "success"},
        files={name: file.read_text() for name, file in files.items()},
    )


def listed(many: int) -> list[dict[str, Any]]:
    """Give what an export of so many subscriptions holds."""
    return in_order(Subscriptions(kind_prefix="svc", many=many).of_channel(MINE) or [], "alphabetical")


class TestExports:
    def test_cleared_when_it_is_done_it_walks_again_and_publishes_anew(self, first: Phase, second: Phase) -> None:
        name = "export_finished"
        assert (first.end(name), second.end(name)) == (("success", 1), ("success", 2))
        assert second.tokens(name) == first.tokens(name)
        assert (len(first.tokens(name)), first.tokens(name)[0]) == (PAGES, None)
        assert (first.rows(name), second.rows(name)) == (listed(SUBSCRIPTIONS), listed(SUBSCRIPTIONS + 1))
        assert (second.summaries[name]["resumed"], second.summaries[name]["rows"]) == (False, SUBSCRIPTIONS + 1)

    def test_refused_on_its_way_it_keeps_what_it_has(self, first: Phase) -> None:
        name = "export_out_of_quota"
        assert first.end(name)[0] == "up_for_retry"
        assert [request.status for request in first.requests[name]] == [200] * PAGES_BEFORE + [403]
        assert first.files[name] == OLDER
        log = first.run.log(name)
        assert "\nQuotaExceededError: " in log
        assert f"Kept {50 * PAGES_BEFORE} subscriptions of {PAGES_BEFORE} pages for the next attempt." in log

    def test_cleared_when_it_was_refused_it_goes_on_with_that_page(self, first: Phase, second: Phase) -> None:
        name = "export_out_of_quota"
        assert second.end(name) == ("success", 2)
        assert second.tokens(name)[0] == first.tokens(name)[-1]
        assert [request.status for request in second.requests[name]] == [200] * (PAGES - PAGES_BEFORE)
        assert len({*first.tokens(name), *second.tokens(name)}) == PAGES
        assert second.rows(name) == listed(SUBSCRIPTIONS)
        summary = second.summaries[name]
        assert (summary["resumed"], summary["pages"], summary["duplicates"]) == (True, PAGES, 0)
        assert f"resumed after {50 * PAGES_BEFORE} subscriptions" in second.run.log(name)
