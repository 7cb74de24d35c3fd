"""
Run tasks by Airflow's own task runner, each in a process of its own, so that each can get a signal.

Everything about a task is as in a worker: the handler of SIGTERM, the state that the runner reports to its supervisor,
the time limit. The supervisor itself is a stand-in: it keeps the task's state store in a file.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from tests.unit.conftest import Supervisor

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from airflow.sdk import BaseOperator

_LONGEST_SECONDS = 240
# Another start would be another run's.
_RUN_START = datetime(2026, 3, 14, tzinfo=timezone.utc)
# Each process is a fork of one that has imported what takes long.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["airflow.sdk.execution_time.task_runner", "tests.contract.stopped_tasks"])


class Ended(NamedTuple):
    """
    The end of a task.

    :param state: the state that the runner reported, or None if it was killed before.
    :param error: the name of the class of its error.
    """

    state: str | None
    error: str | None


class TaskFork:
    """
    A task in a process of its own.

    :param make: makes the task in its process.
    :param folder: gets its log and its state store.
    :param env: the variables that it has beside those of this process.
    """

    def __init__(self, make: Callable[[], BaseOperator], folder: Path, env: dict[str, str], *, number: int = 1) -> None:
        log_file(folder).touch()
        self._outcome, outcome = _FORKS.Pipe(duplex=False)
        self._process = _FORKS.Process(target=_work, args=(outcome, make, folder, env, number))
        self._process.start()
        outcome.close()

    @property
    def has_ended(self) -> bool:
        """Whether the runner has reported the task's end."""
        return self._outcome.poll()

    def stop(self) -> None:
        """Send what the supervisor sends when a task is marked, cleared, or its worker ends."""
        self._process.terminate()

    def ended(self) -> Ended:
        """Wait for the end of the process."""
        try:
            return Ended(*self._outcome.recv())
        except EOFError:
            return Ended(None, None)
        finally:
            self._outcome.close()
            self._process.join(_LONGEST_SECONDS)
            self._process.close()


def log_file(folder: Path) -> Path:
    """Return the file with what the tasks of a folder have logged."""
    return folder / "tasks.log"


class _StateStore:
    """Airflow's task state store, in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def _values(self) -> dict[str, Any]:
        return json.loads(self._file.read_text()) if self._file.exists() else {}

    def get(self, key: str) -> Any:
        return self._values().get(key)

    def set(self, key: str, value: Any, *, retention: Any = None) -> None:
        self._file.write_text(json.dumps({**self._values(), key: value}))

    def delete(self, key: str) -> None:
        self._file.write_text(json.dumps({name: value for name, value in self._values().items() if name != key}))


def _work(outcome: Connection, make: Any, folder: Path, env: dict[str, str], number: int) -> None:
    """Be the process of a task."""
    signal.alarm(_LONGEST_SECONDS)
    os.environ.update(env)
    with log_file(folder).open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    try:
        outcome.send(_run(make, folder, number))
    except BaseException:  # noqa: BLE001 it is shown to the test
        traceback.print_exc()
    finally:
        os._exit(0)


def _run(make: Any, folder: Path, number: int) -> tuple[str, str | None]:
    """Run a task as a worker does, and return what the runner says of it."""
    import airflow.sdk
    import structlog
    from airflow.sdk import DAG
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.context import OutletEventAccessors

    with DAG("stops", schedule=None):
        operator = make()
    # Connections come from the environment.
    cast("Any", task_runner).SUPERVISOR_COMMS = Supervisor(pytest.MonkeyPatch())
    instance = cast("Any", task_runner.RuntimeTaskInstance).model_construct(
        id="00000000-0000-0000-0000-000000000000",
        dag_id="stops",
        task_id=operator.task_id,
        run_id="run",
        try_number=number,
        map_index=-1,
        max_tries=3,
        start_date=datetime.now(timezone.utc),
        task=operator,
    )
    context: dict[str, Any] = {
        "ti": instance,
        "task": operator,
        "dag": operator.dag,
        "dag_run": SimpleNamespace(run_id="run", start_date=_RUN_START, dag_id="stops", logical_date=None),
        "outlet_events": OutletEventAccessors(),
    }
    if hasattr(airflow.sdk, "NEVER_EXPIRE"):  # Airflow 3.3 and later
        context["task_state_store"] = _StateStore(folder / "state.json")
    state, _, error = task_runner.run(instance, cast("Any", context), structlog.get_logger("task"))
    return str(state and state.value), type(error).__name__ if error else None
