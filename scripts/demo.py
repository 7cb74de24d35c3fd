"""`make demo`: the example DAGs on a real Airflow, against the sandbox, with a report of what they made."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import shlex
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from scripts.local_airflow import FINAL_STATES, LocalAirflow, LocalAirflowError, TaskInstance
from scripts.processes import LeftRunningError, ProcessEndedError, Processes, tail

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "example_dags"
SCRATCH = ROOT / ".demo"
SANDBOX_SECONDS = 600.0
RUN_SECONDS = 1800.0
POLL_SECONDS = 0.5
LOG_LINES = 40
# How long a node of the sandbox must stay hot until its threads are captured.
SUSTAINED_SECONDS = 2
FILE_WIDTH = 100
RESULT_LENGTH = 500
STYLES = {"success": "green", "failed": "red", "upstream_failed": "red", "skipped": "magenta"}
SHOWN_STATES = {*STYLES, "running", "deferred", "up_for_retry", "up_for_reschedule"}
INTERRUPTED = 130


class DemoError(RuntimeError):
    """The demo could not do its work."""


@dataclass
class Run:
    """A run of an example, as last seen."""

    dag_id: str
    run_id: str
    state: str = "queued"
    tasks: dict[tuple[str, int], TaskInstance] = field(default_factory=dict)


class Demo:
    """
    Runs the examples and prints their progress.

    :param console: the terminal or file to print to.
    """

    def __init__(self, console: Console, scratch: Path = SCRATCH) -> None:
        self._console = console
        self._scratch = scratch
        self._started = time.monotonic()

    def run(self, *, keep: bool) -> bool:
        """
        Start the sandbox and Airflow, run the examples and print a report. No process is left behind.

        :returns: whether all examples succeeded.
        """
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        with Processes() as processes, contextlib.ExitStack() as until_the_end:
            connections = start_sandbox(processes, self._scratch / "sandbox.log")
            self._say("The sandbox is up: it stands in for the three services")
            version = importlib.metadata.version("apache-airflow")
            self._say(f"Airflow {version} is starting")
            with self._console.status("Starting the scheduler, the DAG processor, the triggerer and the API server"):
                local = LocalAirflow(self._scratch / "airflow", dags=EXAMPLES, env=connections)
                airflow = until_the_end.enter_context(local)
            self._say("Airflow is up: scheduler, DAG processor, triggerer and API server")
            runs = self.run_examples(airflow)
            if keep:
                self._stay(airflow, processes)
        return all(run.state == "success" for run in runs)

    def run_examples(self, airflow: LocalAirflow) -> list[Run]:
        """
        Run the examples on an Airflow that is up, and print what they made.

        :returns: their runs, which have ended unless time is up.
        """
        output = self._scratch / "output"
        output.mkdir(parents=True)
        runs = self._start_examples(airflow, output)
        self._follow(airflow, runs)
        self._report(airflow, runs, output)
        return runs

    def _start_examples(self, airflow: LocalAirflow, output: Path) -> list[Run]:
        runs = []
        with self._console.status("Starting the example DAGs"):
            for file in sorted(EXAMPLES.glob("example_*.py")):
                dag_id = f"mediaops_{file.stem.removeprefix('example_')}"
                runs.append(Run(dag_id, airflow.trigger(dag_id, demo_params(dag_id, output))))
                self._say(f"{dag_id} started")
        return runs

    def _follow(self, airflow: LocalAirflow, runs: list[Run]) -> None:
        """Print every change of state until all runs have ended, or time is up."""
        deadline = time.monotonic() + RUN_SECONDS
        with self._console.status("") as status:
            while time.monotonic() < deadline:
                going_on = [run for run in runs if run.state not in FINAL_STATES]
                if not going_on:
                    return
                status.update("Running " + ", ".join(run.dag_id for run in going_on))
                for run in going_on:
                    self._update(airflow, run)
                time.sleep(POLL_SECONDS)
        self._say(f"Time is up: not all has ended within {RUN_SECONDS:.0f} s", style="red")

    def _update(self, airflow: LocalAirflow, run: Run) -> None:
        run.state = airflow.state(run.dag_id, run.run_id)
        for task in airflow.task_instances(run.dag_id, run.run_id):
            key = (task.task_id, task.map_index)
            before = run.tasks.get(key)
            run.tasks[key] = task
            if task.state in SHOWN_STATES and (before is None or before.state != task.state):
                self._say(f"{run.dag_id}.{task.name}: {task.state}", style=STYLES.get(task.state))
        if run.state in FINAL_STATES:
            self._say(f"{run.dag_id} ended: {run.state}", style=f"bold {STYLES[run.state]}")

    def _report(self, airflow: LocalAirflow, runs: list[Run], output: Path) -> None:
        for run in runs:
            for task in run.tasks.values():
                if task.state == "failed":
                    self._show_failure(airflow, run, task)
        self._console.print()
        self._console.print(_table(runs))
        self._print("\nWhat the tasks returned:")
        for run in runs:
            for task in run.tasks.values():
                with contextlib.suppress(LocalAirflowError):  # some return nothing
                    result = airflow.xcom(run.dag_id, run.run_id, task.task_id, map_index=task.map_index)
                    self._print(f"{run.dag_id}.{task.name}: {_short(result, output)}")
        # Beside a dataset stand the hidden files of its log.
        shown = (file for file in output.rglob("*") if "/." not in f"/{file.relative_to(output)}")
        files = sorted(file for file in shown if file.is_file())
        self._print(f"\nFiles in {os.path.relpath(output)}:" if files else "\nNo files were written.")
        for file in files:
            self._print(f"{decimal(file.stat().st_size):>10}  {file.relative_to(output)}")
        if any(file.suffix == ".html" for file in files):
            self._print("\nOpen the .html files in a browser: they show which threads were hot, and why.")
        self._print(f"\nLogs: {os.path.relpath(self._scratch)}/sandbox.log and {os.path.relpath(airflow.home)}/")

    def _show_failure(self, airflow: LocalAirflow, run: Run, task: TaskInstance) -> None:
        log = airflow.task_log(
            run.dag_id, run.run_id, task.task_id, try_number=task.try_number, map_index=task.map_index
        )
        self._print(f"\nThe end of the log of {run.dag_id}.{task.name}:", style="bold red")
        self._print("\n".join(log.splitlines()[-LOG_LINES:]))

    def _stay(self, airflow: LocalAirflow, processes: Processes) -> None:
        self._print(f"\nAirflow's pages: {airflow.url} (Ctrl-C ends everything)", style="bold")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                processes.check()
                airflow.check()
                time.sleep(1)

    def _say(self, what: str, *, style: str | None = None) -> None:
        self._print(f"{time.monotonic() - self._started:6.1f} s  {what}", style=style)

    def _print(self, text: str, *, style: str | None = None) -> None:
        self._console.print(Text(text, style=style or ""), soft_wrap=True)


def start_sandbox(processes: Processes, log: Path) -> dict[str, str]:
    """Start the stand-in for the services."""
    command = [sys.executable, "-m", "airflow_provider_mediaops.sandbox", "--port", "0"]
    processes.start("The sandbox", command, env=os.environ, log=log)
    deadline = time.monotonic() + SANDBOX_SECONDS
    while time.monotonic() < deadline:
        processes.check()
        printed = log.read_text(encoding="utf-8")
        # The connections come first, then where its manual is.
        if "/docs" in printed:
            exported = [shlex.split(line)[1] for line in printed.splitlines() if line.startswith("export ")]
            return dict(variable.split("=", 1) for variable in exported)
        time.sleep(POLL_SECONDS)
    raise DemoError(f"The sandbox is not up after {SANDBOX_SECONDS:.0f} s:\n{tail(log)}")


def demo_params(dag_id: str, output: Path) -> dict[str, Any]:
    """Return the parameters with which an example runs: its own are of production, and would take minutes here."""
    return {"folder": f"{output.as_uri()}/{dag_id}", "sustained_for": SUSTAINED_SECONDS}


def _short(result: Any, output: Path) -> str:
    if isinstance(result, dict):
        # The files are listed below, and each later capture is like the first.
        result = {name: value for name, value in result.items() if name not in {"paths", "later_captures"}}
    text = json.dumps(result, ensure_ascii=False).replace(f"{output.as_uri()}/", "")
    return text if len(text) <= RESULT_LENGTH else f"{text[:RESULT_LENGTH]}…"


def _table(runs: list[Run]) -> Table:
    table = Table(title="What ran", title_justify="left")
    table.add_column("DAG", overflow="fold")
    table.add_column("Task", overflow="fold")
    table.add_column("State")
    table.add_column("Seconds", justify="right")
    for run in runs:
        for task in run.tasks.values():
            state = Text(task.state or "none", style=STYLES.get(task.state or "", ""))
            seconds = "" if task.duration is None else f"{task.duration:.1f}"
            table.add_row(run.dag_id, task.name, state, seconds)
        table.add_section()
    return table


def main() -> int:
    """
    Run the demo from the command line.

    :returns: the exit code: 0 if all examples succeeded.
    """
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave Airflow running until Ctrl-C")
    options = parser.parse_args()
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=FILE_WIDTH)
    try:
        succeeded = Demo(console).run(keep=options.keep)
    except KeyboardInterrupt:
        console.print("Interrupted: everything is stopped.")
        return INTERRUPTED
    except (DemoError, LocalAirflowError, ProcessEndedError, LeftRunningError) as error:
        console.print(Text(f"The demo failed: {error}", style="red"), soft_wrap=True)
        return 1
    if succeeded and not options.keep:
        console.print("make demo KEEP=1 leaves Airflow's pages up to look around in.")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
