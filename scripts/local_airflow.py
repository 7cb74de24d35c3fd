"""Start, use over its REST API, and stop a real Airflow on this machine, for the demo and for tests."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import requests

from scripts.processes import Processes, free_port, tail

if TYPE_CHECKING:
    from typing_extensions import Self

COMPONENTS: dict[str, tuple[str, ...]] = {
    "dag-processor": ("dag-processor",),
    # Task logs are files that the API server can read itself: no log server is needed.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "api-server": ("api-server",),
}
START_SECONDS = 900.0
DAG_SECONDS = 900.0
REQUEST_SECONDS = 120.0
LOCK_SECONDS = 240.0
_AIRFLOW = (sys.executable, "-m", "airflow")
POLL_SECONDS = 0.5
FINAL_STATES = frozenset({"success", "failed"})


class LocalAirflowError(RuntimeError):
    """The local Airflow did not do what was asked of it."""


@dataclass(frozen=True)
class TaskInstance:
    """One task of one DAG run, as the REST API shows it."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    duration: float | None

    @property
    def name(self) -> str:
        """The task's id, with its map index if it is mapped."""
        return self.task_id if self.map_index < 0 else f"{self.task_id}[{self.map_index}]"


class LocalAirflow:
    """
    A scheduler, a DAG processor, a triggerer and an API server of the installed Airflow.

    SQLite holds the metadata, a local executor runs the tasks. Everybody who can reach the loopback address is an
    administrator, unless there are accounts. Used in a `with` block; the files below `home` are left afterwards.

    :param home: the scratch folder for its database and logs; created if missing.
    :param env: environment variables to add for all components, such as `AIRFLOW_CONN_...`.
    :param parallelism: how many tasks run at the same time.
    :param components: the arguments of `airflow` for each component.
    :param account: the name and password of the administrator that signs in to use the REST API, if `env` has accounts.
    """

    def __init__(
        self,
        home: Path,
        *,
        dags: Path,
        env: Mapping[str, str] | None = None,
        parallelism: int = 4,
        components: Mapping[str, tuple[str, ...]] = COMPONENTS,
        account: tuple[str, str] | None = None,
    ) -> None:
        self.home = home.resolve()
        self.dags = dags.resolve()
        self.port = free_port()
        self._components = components
        self._account = account
        self._env = {**_environment(self.home, self.dags, self.port, parallelism), **(env or {})}
        self._processes = Processes()
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy stands between this machine and itself

    def __enter__(self) -> Self:
        self._processes.__enter__()
        try:
            self._start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._session.close()
        self._processes.__exit__(kind, error, traceback)

    @property
    def url(self) -> str:
        """The address of its pages."""
        return f"http://127.0.0.1:{self.port}"

    def check(self) -> None:
        """Make sure that all components are running."""
        self._processes.check()

    def log_of(self, component: str) -> Path:
        """
        Find the log of a component.

        :param component: its name, such as `dag-processor`, `scheduler`, `triggerer` or `api-server`.
        """
        return self.home / f"{component}.log"

    def cli(self, *arguments: str, timeout: float = 600.0) -> str:
        """
        Run a command of this Airflow's command line.

        :param arguments: the arguments of `airflow`.
        :param timeout: the time limit in seconds.
        """
        done = subprocess.run(
            [*_AIRFLOW, *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise LocalAirflowError(f"airflow {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run of a DAG, once its file is parsed, and let its tasks be scheduled."""
        self._wait_until(lambda: self._knows(dag_id), DAG_SECONDS, f"the DAG {dag_id} is there")
        self._call("PATCH", f"api/v2/dags/{dag_id}", json={"is_paused": False})
        # An id of our own, so that a second try cannot start a second run.
        run_id = f"manual__{datetime.now(timezone.utc).isoformat()}"
        run = {"dag_run_id": run_id, "logical_date": None, "conf": conf or {}}
        self._call("POST", f"api/v2/dags/{dag_id}/dagRuns", json=run)
        return run_id

    def state(self, dag_id: str, run_id: str) -> str:
        """
        Look up the state of a run.

        :returns: `queued`, `running`, `success` or `failed`.
        """
        return str(self._call("GET", f"api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def wait(self, dag_id: str, run_id: str, timeout: float = 600.0) -> str:
        """
        Wait for the end of a run.

        :param timeout: the seconds to wait.
        :returns: `success` or `failed`.
        """
        self._wait_until(
            lambda: self.state(dag_id, run_id) in FINAL_STATES,
            timeout,
            f"the run {run_id} of {dag_id} has ended",
        )
        return self.state(dag_id, run_id)

    def task_instances(self, dag_id: str, run_id: str) -> list[TaskInstance]:
        """List the tasks of a run."""
        reply = self._call("GET", f"api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        rows = sorted(reply["task_instances"], key=lambda row: row["start_date"] or "9999")
        return [
            TaskInstance(
                task_id=row["task_id"],
                map_index=row["map_index"],
                state=row["state"],
                try_number=row["try_number"],
                duration=row["duration"],
            )
            for row in rows
        ]

    def xcom(self, dag_id: str, run_id: str, task_id: str, *, key: str = "return_value", map_index: int = -1) -> Any:
        """Read an XCom of a task."""
        path = f"api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self._call("GET", path, params={"map_index": map_index, "deserialize": True})["value"]

    def task_log(self, dag_id: str, run_id: str, task_id: str, *, try_number: int = 1, map_index: int = -1) -> str:
        """
        Read the log of a task, with that of its trigger.

        :param try_number: the number of the try, from 1.
        """
        path = f"api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        reply = self._call("GET", path, params={"map_index": map_index, "full_content": True})
        lines = (_log_line(event) for event in reply["content"])
        return "\n".join(line for line in lines if "::group::" not in line and "::endgroup::" not in line)

    def _start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.cli("db", "migrate")
        # Two requests to the API server can wait for each other; that ends soon, and their clients try again.
        hasty = {name: value.replace(".db?timeout=240", ".db?timeout=15") for name, value in self._env.items()}
        for component, arguments in self._components.items():
            env = hasty if arguments[0] == "api-server" else self._env
            self._processes.start(component, [*_AIRFLOW, *arguments], env=env, log=self.log_of(component))
        self._wait_until(self._is_healthy, START_SECONDS, "Airflow is healthy")
        self._sign_in()

    def _sign_in(self) -> None:
        if self._account is None:
            reply = self._call("GET", "auth/token")
        else:
            username, password = self._account
            reply = self._call("POST", "auth/token", json={"username": username, "password": password})
        self._session.headers["Authorization"] = f"Bearer {reply['access_token']}"

    def _is_healthy(self) -> bool:
        with contextlib.suppress(LocalAirflowError):
            health = self._call("GET", "api/v2/monitor/health")
            parts = ["metadatabase", *(name.replace("-", "_") for name in self._components)]
            return all(health[part]["status"] == "healthy" for part in parts if part in health)
        return False

    def _knows(self, dag_id: str) -> bool:
        if any(dag["dag_id"] == dag_id for dag in self._call("GET", "api/v2/dags", params={"limit": 100})["dags"]):
            return True
        errors = self._call("GET", "api/v2/importErrors")["import_errors"]
        if errors:
            reasons = "\n".join(f"{error['filename']}:\n{error['stack_trace']}" for error in errors)
            raise LocalAirflowError(f"There is no DAG {dag_id}, and these files could not be read:\n{reasons}")
        return False

    def _wait_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            self._processes.check()
            if time.monotonic() > deadline:
                logs = "\n".join(f"{name}:\n{tail(self.log_of(name))}" for name in self._components)
                raise LocalAirflowError(f"Waited {seconds:.0f} s in vain until {what}.\n{logs}")
            time.sleep(POLL_SECONDS)

    def _call(self, method: str, path: str, **request: Any) -> Any:
        deadline = time.monotonic() + LOCK_SECONDS
        reply = self._send(method, path, request)
        # SQLite refuses to write at once, whatever its timeout, if another process has written since the transaction
        # read. A busy machine meets that, and Airflow answers it with 500; nothing was changed.
        while _is_locked(reply) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            reply = self._send_again(method, path, request)
        if not reply.ok:
            raise LocalAirflowError(f"{method} {path} was answered {reply.status_code}: {reply.text[:500]}")
        return reply.json()

    def _send(self, method: str, path: str, request: Mapping[str, Any]) -> requests.Response:
        try:
            return self._send_once(method, path, request)
        except requests.ReadTimeout as error:
            # Airflow 3.3.2 was seen to leave a request unanswered, a GET of a log and a POST of a connection, and to
            # answer the next one in milliseconds.
            if not _is_repeatable(method, path):
                raise LocalAirflowError(f"{method} {path} was not answered: {error}") from error
            return self._send_again(method, path, request)
        except requests.RequestException as error:
            raise LocalAirflowError(f"{method} {path} was not answered: {error}") from error

    def _send_again(self, method: str, path: str, request: Mapping[str, Any]) -> requests.Response:
        try:
            reply = self._send_once(method, path, request)
        except requests.RequestException as error:
            raise LocalAirflowError(f"{method} {path} was not answered, again: {error}") from error
        if method == "POST" and reply.status_code == HTTPStatus.CONFLICT:
            # The first try has created it after all.
            reply.status_code = HTTPStatus.OK
        return reply

    def _send_once(self, method: str, path: str, request: Mapping[str, Any]) -> requests.Response:
        self._processes.check()
        return self._session.request(method, f"{self.url}/{path}", timeout=REQUEST_SECONDS, **request)


def _is_repeatable(method: str, path: str) -> bool:
    """Tell whether a request does the same if it is sent twice: what these create has its name from us."""
    return method != "POST" or path.endswith(("/connections", "/dagRuns"))


def _is_locked(reply: requests.Response) -> bool:
    return reply.status_code == HTTPStatus.INTERNAL_SERVER_ERROR and "Database error" in reply.text


def _log_line(event: dict[str, Any] | str) -> str:
    if isinstance(event, str):
        return event
    line = f"{event.get('timestamp') or '':.19} {event.get('level') or '':8} {event['event']}".strip()
    for error in event.get("error_detail") or ():
        line += "".join(f"\n    {frame['filename']}:{frame['lineno']} in {frame['name']}" for frame in error["frames"])
        line += f"\n{error['exc_type']}: {error['exc_value']}"
    return line


def _environment(home: Path, dags: Path, port: int, parallelism: int) -> dict[str, str]:
    """Make the environment of all components: the caller's own, without its Airflow settings, and these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    settings = {
        "CORE__DAGS_FOLDER": str(dags),
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": str(parallelism),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "CORE__TEST_CONNECTION": "Enabled",
        # On a busy machine others write for longer than five seconds, and a scheduler that waits in vain ends.
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}?timeout=240",
        # A worker must wait for longer than its request may wait for the database, else it fails the task.
        "WORKERS__EXECUTION_API_TIMEOUT": "120",
        "LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "API__HOST": "127.0.0.1",
        "API__PORT": str(port),
        "API__BASE_URL": f"http://127.0.0.1:{port}",
        "API__SECRET_KEY": secrets.token_hex(32),
        "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "USAGE_DATA_COLLECTION__ENABLED": "False",
        # What is quick here would be wasteful elsewhere: nobody wants to watch an idle screen.
        "SCHEDULER__JOB_HEARTBEAT_SEC": "1",
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
        "DAG_PROCESSOR__REFRESH_INTERVAL": "2",
        # A changed file is parsed at once. To parse the others every half minute would take a third of the processor
        # time of all that runs here.
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
        # So late does a worker notice, at worst, that a task's process has ended. If the task was deferred and has
        # been resumed by then, the scheduler takes the late news for the end of the resumed one and fails it.
        "WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    }
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        # Airflow looks for its own command.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
    }
