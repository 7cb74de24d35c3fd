"""An Airflow that works for some runs or an hour while its services fail at random, read again and again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.report_urls import report_url
from airflow_provider_mediaops.sandbox import books
from airflow_provider_mediaops.sandbox.cluster_nodes import CpuPin
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import Settings
from scripts.local_airflow import COMPONENTS, FINAL_STATES
from scripts.processes import free_port
from tests.soak.page_reader import PageReader
from tests.soak.random_faults import RandomFaults
from tests.soak.readings import figures_of_files, figures_of_processes, figures_of_tables
from tests.soak.trends import Trend, trend_of
from tests.system.connections import in_environment
from tests.system.running import WatchedAirflow, wait_for

if TYPE_CHECKING:
    from collections import Counter

    from airflow_provider_mediaops.sandbox.faults import Service
    from scripts.local_airflow import TaskInstance
    from tests.soak.page_reader import Outcome

DAGS = ("soak_video", "soak_cluster", "soak_books")
#: The DAG whose one task is held, and that task.
_HELD_DAG, _HELD_TASK = "soak_held", "capture_when_hot"
#: The components that run code of the provider (triggerer, page server), and those that are only watched.
_COMPONENTS = ("triggerer", "page-server", "api-server", "scheduler")
#: How long it lasts at least.
SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
# Until modules are imported, workers started and pools filled, and each run finds the files of earlier ones.
_WARM_UP_SECONDS, _WARM_UP_RUNS = min(SECONDS / 4, 600.0), 2
# Runs of each DAG while figures are read: so many that what leaks once a run is sure to be seen. A busy machine takes
# longer for them.
_RUNS = 5
_EVERY = max(3.0, SECONDS / 300)
# Far more than a day of the real services allows.
_QUOTA = 10**9
_LONGEST_SECONDS = 1_800.0
_LOG_LENGTH = 2_000


@dataclass(frozen=True)
class Soak:
    """
    What was seen.

    :param tasks: the task instances of the runs that have ended.
    :param failures: the ends of the logs of those that failed, by task and run.
    :param readings: the times in seconds since the warm-up, with the figures of each.
    """

    sandbox: SandboxServer
    tasks: list[TaskInstance]
    failures: dict[str, str]
    readings: list[tuple[float, dict[str, float]]]
    faults: int
    pages: Counter[Outcome]

    def trends(self) -> dict[str, Trend]:
        """Return the trend of each figure that every reading has."""
        seconds = [at for at, _ in self.readings]
        names = set.intersection(*(set(figures) for _, figures in self.readings))
        return {name: trend_of(seconds, [figures[name] for _, figures in self.readings]) for name in sorted(names)}


@pytest.fixture(scope="session")
def soak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soak]:
    scratch = tmp_path_factory.mktemp("soak")
    home, output, temporary = (scratch / name for name in ("home", "output", "temporary"))
    for folder in (output, temporary):
        folder.mkdir()
    with SandboxServer(settings=Settings(video_daily_units=_QUOTA, books_daily_requests=_QUOTA)) as sandbox:
        env = {**_connections(sandbox), "MEDIAOPS_OUTPUT": str(output), "TMPDIR": str(temporary)}
        # The pages have an API server of their own: the one that answers tasks grows by itself.
        pages = free_port()
        started = {**COMPONENTS, "page-server": ("api-server", "--apps", "core", "--port", str(pages))}
        with WatchedAirflow(home, dags=Path(__file__).parent / "dags", env=env, components=started) as airflow:
            runs = _Runs(airflow)
            runs.hold()
            components = {name: airflow.process(name) for name in _COMPONENTS}
            readings: list[tuple[float, dict[str, float]]] = []
            with (
                RandomFaults(sandbox.state.faults.arm, lambda service: _is_armed(sandbox, service)) as faults,
                PageReader(f"http://127.0.0.1:{pages}", runs.held_report) as reader,
            ):
                for _ in runs.work(_WARM_UP_RUNS, _WARM_UP_SECONDS):
                    pass
                for seconds in runs.work(_RUNS, SECONDS - _WARM_UP_SECONDS):
                    figures = figures_of_processes(components, alone="scheduler") | figures_of_tables(home)
                    readings.append((seconds, figures | figures_of_files([output, temporary])))
                wait_for(lambda: reader.has_shown("unfinished"), "the page of the held task is shown")
                sandbox.state.cluster.pin(CpuPin(node="sandbox-3", percent=99.0))
                runs.let_go()
            # For those who judge a growth; pytest keeps the folders of its last three sessions.
            (scratch / "readings.json").write_text(json.dumps(readings), encoding="utf-8")
            yield Soak(sandbox, runs.tasks(), runs.failures(), readings, faults.armed, reader.outcomes)


class _Runs:
    """A run of each DAG at any time."""

    def __init__(self, airflow: WatchedAirflow) -> None:
        self._airflow = airflow
        self._held = ""
        self._ids: dict[str, list[str]] = {dag_id: [] for dag_id in DAGS}

    def work(self, runs: int, seconds: float) -> Iterator[float]:
        """
        Start a run of each DAG whenever its last one has ended, and yield the seconds since the beginning meanwhile.

        :param runs: how many runs of each DAG have to end.
        """
        begin = time.monotonic()
        self._start_next()
        enough = {dag_id: len(run_ids) + runs for dag_id, run_ids in self._ids.items()}
        while (now := time.monotonic() - begin) < seconds or self._are_fewer_than(enough):
            assert now < seconds + _LONGEST_SECONDS, self._ids
            yield now
            time.sleep(_EVERY)
            self._start_next()

    def _are_fewer_than(self, enough: dict[str, int]) -> bool:
        return any(len(run_ids) < enough[dag_id] for dag_id, run_ids in self._ids.items())

    def _start_next(self) -> None:
        for dag_id, run_ids in self._ids.items():
            if not run_ids or self._airflow.state(dag_id, run_ids[-1]) in FINAL_STATES:
                # Runs write to two places by turns, so that the last two captures can be compared.
                run_ids.append(self._airflow.trigger(dag_id, {"place": len(run_ids) % 2}))

    def hold(self) -> None:
        """Start a run whose task waits in the triggerer until its node runs hot."""
        self._held = self._airflow.trigger(_HELD_DAG)
        wait_for(self._is_held, "the held task waits in the triggerer")

    def _is_held(self) -> bool:
        return [task.state for task in self._airflow.task_instances(_HELD_DAG, self._held)] == ["deferred"]

    @property
    def held_report(self) -> str:
        """The path of the report of the task that waits."""
        return report_url(_HELD_DAG, self._held, _HELD_TASK)

    def let_go(self) -> None:
        """Wait for the end of the run whose task was held, now that its node runs hot."""
        self._airflow.wait(_HELD_DAG, self._held)

    def tasks(self) -> list[TaskInstance]:
        """Return the task instances of the runs that have ended: that of the held task, and all others but the last."""
        return [task for _, _, task in self._all()]

    def failures(self) -> dict[str, str]:
        """Return the ends of the logs of those that failed."""
        return {
            f"{task.task_id} in {run_id}": self._airflow.task_log(
                dag_id, run_id, task.task_id, try_number=task.try_number
            )[-_LOG_LENGTH:]
            for dag_id, run_id, task in self._all()
            if task.state == "failed"
        }

    def _all(self) -> Iterator[tuple[str, str, TaskInstance]]:
        ended = {_HELD_DAG: [self._held], **{dag_id: run_ids[:-1] for dag_id, run_ids in self._ids.items()}}
        for dag_id, run_ids in ended.items():
            for run_id in run_ids:
                for task in self._airflow.task_instances(dag_id, run_id):
                    yield dag_id, run_id, task


def _connections(sandbox: SandboxServer) -> dict[str, str]:
    connection = json.loads(sandbox.connections()["AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT"])
    connection["password"] = books.PRO.key
    return {**in_environment(sandbox), "AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT": json.dumps(connection)}


def _is_armed(sandbox: SandboxServer, service: Service) -> bool:
    return any(fault.service == service for fault in sandbox.state.faults.armed)
