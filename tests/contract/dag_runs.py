"""DAGs run with `dag.test()`: the tasks in this process, all else as Airflow does it, with its metadata database."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.models.xcom import XComModel
from airflow.sdk.execution_time import supervisor
from airflow.utils.session import create_session

if TYPE_CHECKING:
    from airflow.sdk import DAG

# Where a DAG file is read and its DAGs are written down; Airflow 3.2 has moved both functions.
_dagbag = importlib.import_module(
    "airflow.dag_processing.dagbag"
    if importlib.util.find_spec("airflow.dag_processing.dagbag")
    else "airflow.models.dagbag"
)
# Newer versions of Airflow keep the API server that the tasks of a process ask. 3.1 builds one for each task, and that
# takes longer than all else of a test.
if not hasattr(supervisor.in_process_api_server, "cache_info"):
    supervisor.in_process_api_server = functools.cache(supervisor.in_process_api_server)
_BUNDLE = "dags-folder"
_SECONDS = 600


@dataclass(frozen=True)
class Run:
    """A run that has ended.

    :param state: how it ended.
    :param logical_date: its logical date, if it has one.
    :param run_after: the time that every run has.
    :param run_id: its id.
    :param tasks: the state of each task; of a mapped one for each of its instances, as `task[0]`.
    :param values: what the tasks returned, by the same names.
    """

    state: str
    logical_date: datetime | None
    run_after: datetime
    run_id: str
    tasks: dict[str, str]
    values: dict[str, Any]


def dags_of(file: Path) -> dict[str, DAG]:
    """Read a DAG file as Airflow's DAG processor does."""
    bag = _dagbag.DagBag(file)
    assert not bag.import_errors, bag.import_errors
    found: dict[str, DAG] = bag.dags
    return found


def write_down(dag: DAG) -> None:
    """Write a DAG down in the metadata database, as the DAG processor does."""
    bag = _dagbag.DagBag(collect_dags=False)
    bag.bag_dag(dag)
    DagBundlesManager().sync_bundles_to_db()
    _dagbag.sync_bag_to_db(bag, _BUNDLE, None)


def run(dag: DAG, **how: Any) -> Run:
    """Write a DAG down in the metadata database, and run it."""
    write_down(dag)
    with _time_limit():
        ended = dag.test(**how)
    with create_session() as session:
        instances = {_name(row): row for row in ended.get_task_instances(session=session)}
        rows = session.query(XComModel).filter_by(dag_id=dag.dag_id, run_id=ended.run_id, key="return_value")
        return Run(
            state=str(ended.state),
            logical_date=ended.logical_date,
            run_after=ended.run_after,
            run_id=ended.run_id,
            tasks={name: str(row.state) for name, row in instances.items()},
            values={_name(row): XComModel.deserialize_value(row) for row in rows},
        )


def run_file(file: Path, dag_id: str = "", **params: Any) -> Run:
    """Run a DAG of a file, the only one if none is named, as a person starts it; a failure ends it without a pause."""
    dags = dags_of(file)
    [dag] = [dags[dag_id]] if dag_id else dags.values()
    for task in dag.tasks:
        task.retries = 0
    return run(dag, logical_date=None, run_conf=params)


@contextmanager
def _time_limit() -> Iterator[None]:
    """Break off what never ends: `dag.test()` itself keeps to no time limit of a deferred task."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGALRM, signal.SIGTERM)]
    signal.signal(signal.SIGALRM, _break_off)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        # Airflow leaves behind a handler of SIGTERM that does nothing.
        for number, handler in before:
            signal.signal(number, handler)


def _break_off(*_: object) -> None:
    raise TimeoutError(f"The run has not ended after {_SECONDS} seconds.")


def _name(row: Any) -> str:
    return row.task_id if row.map_index < 0 else f"{row.task_id}[{row.map_index}]"
