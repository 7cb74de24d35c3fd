"""The runs of the suite's DAGs, and what a test wants of Airflow beyond that."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psutil

from airflow_provider_mediaops.sandbox.server import SandboxServer
from scripts.local_airflow import DAG_SECONDS, REQUEST_SECONDS, LocalAirflow, TaskInstance

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.faults import RequestRecord
    from airflow_provider_mediaops.sandbox.state import Settings


class WatchedAirflow(LocalAirflow):
    """A local Airflow into which one can look, and whose processes can be killed."""

    def run_ids(self, dag_id: str) -> list[str]:
        """Give the ids of a DAG's runs."""
        return [run["dag_run_id"] for run in self._call("GET", f"api/v2/dags/{dag_id}/dagRuns")["dag_runs"]]

    def events(self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1) -> list[dict[str, Any]]:
        """Give what Airflow's log of events says of a task, in order."""
        which = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index, "limit": 100}
        events = self._call("GET", "api/v2/eventLogs", params=which)["event_logs"]
        return sorted(events, key=lambda event: int(event["event_log_id"]))

    def log_events(self, dag_id: str, run_id: str, task_id: str, *, tries: int) -> list[dict[str, Any]]:
        """Give the logs of a task's tries, from the first to this one, with all that their lines hold."""
        logs = f"{_task_path(dag_id, run_id, task_id)}/logs"
        replies = [
            self._call("GET", f"{logs}/{number}", params={"full_content": True}) for number in range(1, tries + 1)
        ]
        return [event for reply in replies for event in reply["content"]]

    def connect(self, conn_id: str, connection: dict[str, Any]) -> None:
        """Add a connection to the database; its `extra` is a dictionary."""
        extra = json.dumps(connection.get("extra", {}))
        self._call("POST", "api/v2/connections", json={"connection_id": conn_id, **connection, "extra": extra})

    def clear(self, dag_id: str, run_id: str, task_ids: Iterable[str]) -> None:
        """Clear tasks of an ended run, as a person does in the user interface; the run goes on."""
        what = {"dag_run_id": run_id, "task_ids": list(task_ids), "only_failed": False, "dry_run": False}
        self._call("POST", f"api/v2/dags/{dag_id}/clearTaskInstances", json=what)

    def unpause(self, dag_id: str) -> None:
        """Let a DAG be started by its schedule, once its file is parsed."""
        self._wait_until(lambda: self._knows(dag_id), DAG_SECONDS, f"the DAG {dag_id} is there")
        self._call("PATCH", f"api/v2/dags/{dag_id}", json={"is_paused": False})

    def waits_for_a_person(self, dag_id: str, run_id: str, task_id: str) -> bool:
        """
        Return whether a task waits for a person's answer: parked from Airflow 3.3 on, deferred before.

        It waits only once the scheduler has processed the end of the process that parked it. If the answer came first,
        Airflow would take that event for the end of the resumed task (apache/airflow#71580).
        """
        tasks = {task.task_id: task for task in self.task_instances(dag_id, run_id)}
        if task_id not in tasks or tasks[task_id].state not in {"awaiting_input", "deferred"}:
            return False
        key = f"dag_id='{dag_id}', task_id='{task_id}', run_id='{run_id}', try_number={tasks[task_id].try_number},"
        processed = f"Received executor event with state success for task instance TaskInstanceKey({key}"
        return processed in self.log_of("scheduler").read_text(encoding="utf-8")

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> None:
        """Answer a task that waits for a person, as one does in the user interface."""
        path = f"{_task_path(dag_id, run_id, task_id)}/-1/hitlDetails"
        self._call("PATCH", path, json={"chosen_options": [option], "params_input": {}})

    def task_state(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """Give what stands in a task's state store."""
        rows = self._call("GET", f"{_task_path(dag_id, run_id, task_id)}/state-store")["task_state_store"]
        return {row["key"]: row["value"] for row in rows}

    def forget_task_state(self, dag_id: str, run_id: str, task_id: str, key: str) -> None:
        """Delete an entry of a task's state store, as a person does in the user interface."""
        path = f"{self.url}/{_task_path(dag_id, run_id, task_id)}/state-store/{key}"
        self._session.delete(path, timeout=REQUEST_SECONDS).raise_for_status()

    def asset_states(self, asset: str) -> list[Any]:
        """Give the values in the state store of an asset."""
        query = "SELECT value FROM asset_state_store JOIN asset ON asset.id = asset_id WHERE asset.name = ?"
        with closing(sqlite3.connect(self.home / "airflow.db", timeout=240)) as database:
            return [json.loads(value) for (value,) in database.execute(query, [asset])]

    def callback_states(self, dag_id: str) -> list[tuple[str, str]]:
        """Give the last word of the text, or the name of the file, of a DAG's deadline alerts, and their states."""
        query = "SELECT data, state FROM callback JOIN deadline ON callback_id = callback.id"
        with closing(sqlite3.connect(self.home / "airflow.db", timeout=240)) as database:
            rows = [(json.loads(data)["__var"], state) for data, state in database.execute(query)]
        given = [(data["kwargs"]["__var"], state) for data, state in rows if data["dag_id"] == dag_id]
        return [(re.split("[ /]", each.get("text") or each["destination"])[-1], state) for each, state in given]

    def process(self, component: str) -> psutil.Process:
        """Return the process of a component. Those that it has started are its children."""
        return psutil.Process(self._processes.pid(component))

    def kill(self, component: str) -> None:
        """Kill a component and all that it started, as a machine that is switched off does."""
        self._processes.kill(component)

    def start_again(self, component: str) -> None:
        """Start a killed component once more; its log of the first time is kept."""
        command = [sys.executable, "-m", "airflow", *self._components[component]]
        self._processes.start(component, command, env=self._env, log=self.home / f"{component}-again.log")


@dataclass(frozen=True)
class Ended:
    """A run that has ended.

    :param state: how it ended.
    :param tasks: its tasks by name.
    """

    airflow: WatchedAirflow
    dag_id: str
    run_id: str
    state: str
    tasks: dict[str, TaskInstance]

    @property
    def states(self) -> dict[str, str | None]:
        """How each task ended."""
        return {name: task.state for name, task in self.tasks.items()}

    def value(self, task_id: str) -> Any:
        """Give what a task returned; an instance of a mapped one is `task[0]`."""
        task = self.tasks[task_id]
        return self.airflow.xcom(self.dag_id, self.run_id, task.task_id, map_index=task.map_index)

    def log(self, task_id: str) -> str:
        """Give the log of all of a task's tries."""
        task = self.tasks[task_id]
        return "\n".join(
            self.airflow.task_log(self.dag_id, self.run_id, task.task_id, try_number=number, map_index=task.map_index)
            for number in range(1, task.try_number + 1)
        )

    def mistaken_ends(self, task_id: str) -> list[datetime]:
        """Tell when Airflow took a try of a task for ended that went on."""
        task = self.tasks[task_id]
        events = self.airflow.events(self.dag_id, self.run_id, task.task_id, map_index=task.map_index)
        return [when for number, when in mistaken_ends(events).items() if number < task.try_number]

    def tries(self, task_id: str) -> int:
        """Count the tries that a task itself ended, or its death did."""
        return self.tasks[task_id].try_number - len(self.mistaken_ends(task_id))


class Runs:
    """Runs that are started together, each with its parameters, and waited for one by one."""

    def __init__(self, airflow: WatchedAirflow, params: Mapping[str, dict[str, Any]]) -> None:
        self._airflow = airflow
        self._run_ids = {dag_id: airflow.trigger(dag_id, values) for dag_id, values in params.items()}
        self._ended: dict[str, Ended] = {}

    def ended(self, dag_id: str) -> Ended:
        """Wait for the end of a DAG's run."""
        if dag_id not in self._ended:
            self._ended[dag_id] = ended(self._airflow, dag_id, self._run_ids[dag_id])
        return self._ended[dag_id]

    def all_ended(self) -> list[Ended]:
        """Wait for the end of all runs."""
        return [self.ended(dag_id) for dag_id in self._run_ids]


@contextmanager
def own_platforms(
    airflow: WatchedAirflow, settings: Mapping[str, Settings | None], **extra: Any
) -> Iterator[dict[str, SandboxServer]]:
    """Have a video platform for each name, and a connection `to_<name>` to it, with this in its extra."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(SandboxServer(settings=each)) for name, each in settings.items()}
        for name, server in servers.items():
            connection = json.loads(server.connections()["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"])
            connection["extra"] = {**connection.get("extra", {}), **extra}
            airflow.connect(f"to_{name}", connection)
        yield servers


def mistaken_ends(events: Iterable[dict[str, Any]]) -> dict[int, datetime]:
    """
    Give the tries of a task that Airflow took for ended while they went on, and when it did so, from its log of events.

    On a slow machine, the scheduler takes the late news that a task was deferred or rescheduled for the end of what it
    has queued since (apache/airflow#71580), and has the task tried again. It writes the same of a task whose process
    was killed, which was not paused before.
    """
    paused = set()
    ends = {}
    for event in events:
        number = event["try_number"]
        if event["event"] in {"deferred", "up_for_reschedule"}:
            paused.add(number)
        elif (
            event["event"] == "state mismatch" and number in paused and "finished with state success" in event["extra"]
        ):
            ends[number] = datetime.fromisoformat(event["when"].replace("Z", "+00:00"))
    return ends


def _task_path(dag_id: str, run_id: str, task_id: str) -> str:
    return f"api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"


def ended(airflow: WatchedAirflow, dag_id: str, run_id: str) -> Ended:
    """Wait for the end of a run."""
    state = airflow.wait(dag_id, run_id, timeout=1800)
    tasks = {task.name: task for task in airflow.task_instances(dag_id, run_id)}
    return Ended(airflow, dag_id, run_id, state, tasks)


def requests_of(sandbox: SandboxServer, node: str) -> list[RequestRecord]:
    """Give the requests about a node, known or not: the suite's tasks ask for nodes of their own names."""
    return [request for request in list(sandbox.state.requests) if f",{node}/" in request.path]


def gaps(requests: list[RequestRecord]) -> list[float]:
    """Give the seconds between one request and the next."""
    return [(later.at - earlier.at).total_seconds() for earlier, later in itertools.pairwise(requests)]


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 900.0) -> None:
    """Wait for a condition; fail if it does not come true in a time that is long on a busy machine, too."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"Waited {seconds:.0f} s in vain until {what}."
        time.sleep(0.5)


def worker_of(task_pid: int) -> list[psutil.Process]:
    """Find the worker that watches a task's process, and that process: whoever ends the first one first is not told."""
    task = psutil.Process(task_pid)
    worker = task.parent()
    assert worker is not None
    assert "LocalExecutor" in " ".join(worker.cmdline())
    return [worker, task]
