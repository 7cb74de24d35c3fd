"""
Run tasks by Airflow's own task runner, each in a fork of one process, so that each can get a signal.

A test starts the program of this module once, and gives it tasks by name. Everything about a task is as in a worker:
the handler of SIGTERM, the state that the runner reports to its supervisor, the time limit. The supervisor itself is a
stand-in: it keeps the task's state store in a file.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from typing_extensions import Self

_ROOT = Path(__file__).parents[2]
_LONGEST_SECONDS = 240
# Another start would be another run's.
_RUN_START = datetime(2026, 3, 14, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Ended:
    """
    The end of a task's process.

    :param state: the state that the runner reported, or None if it was killed before.
    :param value: what the task returned, if it succeeded.
    :param seconds: the seconds from the signal, or from the start if there was none, to the end.
    """

    state: str | None
    value: Any
    error: str | None
    seconds: float


class TaskFork:
    """A task in a process of its own."""

    def __init__(self, forks: TaskForks, pid: int, outcome: Path) -> None:
        self.pid = pid
        self._forks = forks
        self._outcome = outcome
        self._since = time.monotonic()

    @property
    def has_ended(self) -> bool:
        """Whether the runner has reported the task's end."""
        return self._outcome.exists()

    def stop(self) -> None:
        """Send what the supervisor sends when a task is marked, cleared, or its worker ends."""
        self._since = time.monotonic()
        os.kill(self.pid, signal.SIGTERM)

    def ended(self) -> Ended:
        """Wait for the end of the process."""
        self._forks.ask({"wait": self.pid})
        seconds = time.monotonic() - self._since
        outcome = json.loads(self._outcome.read_text()) if self._outcome.exists() else {}
        return Ended(outcome.get("state"), outcome.get("value"), outcome.get("error"), seconds)


class TaskForks:
    """
    The program that forks tasks; a context manager.

    :param module: the module whose function ``make(name, folder)`` makes a task.
    """

    def __init__(self, module: str, home: Path) -> None:
        self._module = module
        self._home = home
        self._started = 0

    def __enter__(self) -> Self:
        env = {**os.environ, "AIRFLOW_HOME": str(self._home), "PYTHONUNBUFFERED": "1"}
        self._log = (self._home / "tasks.log").open("wb")
        self._program = subprocess.Popen(
            [sys.executable, "-m", __name__, self._module],
            cwd=_ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        cast("IO[str]", self._program.stdin).close()
        self._program.wait(_LONGEST_SECONDS)
        cast("IO[str]", self._program.stdout).close()
        self._log.close()

    def start(self, name: str, folder: Path, env: dict[str, str], *, number: int = 1, run: str = "run") -> TaskFork:
        """Start a task."""
        self._started += 1
        folder.mkdir(parents=True, exist_ok=True)
        outcome = folder / f"outcome_{self._started}.json"
        task = {"name": name, "folder": str(folder), "env": env, "number": number, "run": run, "outcome": str(outcome)}
        return TaskFork(self, self.ask({"start": task})["pid"], outcome)

    def log(self) -> str:
        """Return what all tasks have logged."""
        return (self._home / "tasks.log").read_text(errors="replace")

    def ask(self, command: dict[str, Any]) -> Any:
        """Send the program a command, and return its answer."""
        stdin, stdout = cast("IO[str]", self._program.stdin), cast("IO[str]", self._program.stdout)
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, self.log()[-3000:]
        return json.loads(line)


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


class _Supervisor:
    """Answers nothing: connections come from the environment."""

    def send(self, msg: Any) -> Any:
        from airflow.sdk.exceptions import ErrorType
        from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection

        if isinstance(msg, GetConnection):
            return ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND, detail={"conn_id": msg.conn_id})
        return None


def _run(task: dict[str, Any], make: Any) -> dict[str, Any]:
    """Run a task as a worker does, and return what the runner says of it."""
    import airflow.sdk
    import structlog
    from airflow.sdk import DAG
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.context import OutletEventAccessors

    os.environ.update(task["env"])
    folder = Path(task["folder"])
    with DAG("stops", schedule=None):
        operator = make(task["name"], folder)
    cast("Any", task_runner).SUPERVISOR_COMMS = _Supervisor()
    now = datetime.now(timezone.utc)
    instance = cast("Any", task_runner.RuntimeTaskInstance).model_construct(
        id="00000000-0000-0000-0000-000000000000",
        dag_id="stops",
        task_id=operator.task_id,
        run_id=task["run"],
        try_number=task["number"],
        map_index=-1,
        max_tries=3,
        start_date=now,
        task=operator,
    )
    context: dict[str, Any] = {
        "ti": instance,
        "task": operator,
        "dag": operator.dag,
        "dag_run": SimpleNamespace(run_id=task["run"], start_date=_RUN_START, dag_id="stops", logical_date=None),
        "outlet_events": OutletEventAccessors(),
    }
    if hasattr(airflow.sdk, "NEVER_EXPIRE"):  # Airflow 3.3 and later
        context["task_state_store"] = _StateStore(folder / "state.json")
    returned: list[Any] = []
    # The runner executes a copy of the task, on which it also calls on_kill.
    operator._post_execute_hook = lambda context, result: returned.append(result)  # noqa: SLF001, ARG005
    state, _, error = task_runner.run(instance, cast("Any", context), structlog.get_logger("task"))
    value = returned[0] if returned and state == "success" else None
    return {"state": str(state and state.value), "value": value, "error": error and type(error).__name__}


def _serve(module: str) -> None:
    make = importlib.import_module(module).make
    # So that no fork has to import it.
    importlib.import_module("airflow.sdk.execution_time.task_runner")
    for line in sys.stdin:
        command = json.loads(line)
        if pid := command.get("wait"):
            os.waitpid(pid, 0)
            sys.stdout.write("{}\n")
            sys.stdout.flush()
            continue
        task = command["start"]
        pid = os.fork()
        if pid == 0:
            try:
                signal.alarm(_LONGEST_SECONDS)
                # The answers of the program are none of the task's.
                os.dup2(2, 1)
                outcome = Path(task["outcome"])
                outcome.with_suffix(".new").write_text(json.dumps(_run(task, make)))
                outcome.with_suffix(".new").rename(outcome)
            except BaseException:  # noqa: BLE001 it is shown to the test
                import traceback

                traceback.print_exc()
            finally:
                os._exit(0)
        sys.stdout.write(json.dumps({"pid": pid}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
