"""What an import costs: parse time is paid by every DAG file in every parse process."""

from __future__ import annotations

import importlib.util
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import airflow_provider_mediaops.operators
import airflow_provider_mediaops.sensors
import airflow_provider_mediaops.triggers
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from tests.contract import fresh_python
from tests.contract.tasks import DEFERRING, TASKS

PROVIDER = "airflow_provider_mediaops"
HEAVY = ("requests", "urllib3", "httpx", "aiohttp", "pyarrow", "stdnum", "fastapi", "botocore")
# What a DAG file does not need to be parsed: the constructors read arguments, and ask for nothing.
ONLY_WHEN_A_TASK_RUNS = (
    *(f"{PROVIDER}.{service}.models" for service in ("video", "cluster", "books")),
    *(f"{PROVIDER}.hooks.{service}" for service in ("base", "video", "cluster", "books")),
    *(f"{PROVIDER}.http.{name}" for name in ("client", "errors", "exchange", "redaction", "settings", "transport")),
    *(f"{PROVIDER}.cluster.{name}" for name in ("capture.model", "digest.attempt", "hot_threads.parser", "page")),
    *(f"{PROVIDER}.storage.{name}" for name in ("dataset", "local", "object_store")),
    *(f"{PROVIDER}.video.{name}" for name in ("at_most_once", "export", "paging")),
    *(f"{PROVIDER}.books.{name}" for name in ("api", "batch", "lookup")),
    f"{PROVIDER}.enrichment.attempt",
    "airflow.triggers.base",
)
#: Each operator and sensor, in each form, by its path.
BUILT = [
    (f"{task.kind.__module__}.{task.kind.__name__}", task.writing_to(Path("/data")).arguments)
    for task in (*TASKS, *DEFERRING)
]
PARSED = [
    "airflow_provider_mediaops.notifications",
    *(
        module.name
        for package in (airflow_provider_mediaops.operators, airflow_provider_mediaops.sensors)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ),
]
# The triggerer imports these on its event loop, as Airflow does for every trigger; the others later, in a thread.
TRIGGERS = [
    f"{PROVIDER}.triggers.{module.name}"
    for module in pkgutil.iter_modules(airflow_provider_mediaops.triggers.__path__)
    if module.name not in {"shared_readings", "spike_series"}
]


def test_modules_that_airflow_reads_at_start_need_nothing() -> None:
    loaded = fresh_python.result_of(
        "import sys\n"
        "before = set(sys.modules)\n"
        "from airflow_provider_mediaops import __version__\n"
        "from airflow_provider_mediaops.get_provider_info import get_provider_info\n"
        "get_provider_info()\n"
        "result = sorted({name.partition('.')[0] for name in set(sys.modules) - before})\n"
    )
    assert "airflow_provider_mediaops" in loaded
    assert not {"airflow", "requests", "httpx", "pydantic"} & set(loaded)


@pytest.mark.parametrize("modules", [PARSED, TRIGGERS], ids=["parsed", "triggers"])
def test_importing_loads_nothing_that_only_a_task_or_a_running_trigger_needs(modules: list[str]) -> None:
    """The import time is kept low by what is imported, which does not depend on how busy the machine is."""
    loaded: list[str] = fresh_python.result_of(
        "import importlib, sys\n"
        "from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator\n"
        "before = set(sys.modules)\n"
        f"for module in {modules}:\n"
        "    importlib.import_module(module)\n"
        "result = sorted(set(sys.modules) - before)\n"
    )
    assert set(modules) <= set(loaded)
    needless = {*ONLY_WHEN_A_TASK_RUNS, *HEAVY} - ({"airflow.triggers.base"} if modules is TRIGGERS else set())
    assert needless.intersection(loaded) == set()


def test_the_modules_that_are_imported_in_a_thread_or_when_a_task_runs_exist() -> None:
    """One that was moved would fail each trigger, and only when it runs, or be kept out of a DAG file by no test."""
    modules = {hook.service_package for hook in (BookDatabaseHook, SearchClusterHook, VideoPlatformHook)}
    for module in map(import_module, TRIGGERS):
        modules.update(getattr(module, "_RUN_TIME_MODULES", ()))
    assert not [name for name in (*modules, *ONLY_WHEN_A_TASK_RUNS) if importlib.util.find_spec(name) is None]


def test_building_a_task_loads_what_reads_its_arguments_only() -> None:
    """Each DAG file pays for it at each parse: errors, redaction and call flows took as long as Airflow's share."""
    built: list[tuple[str, list[str]]] = fresh_python.result_of(
        "import importlib, sys\n"
        "from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator\n"
        "before = set(sys.modules)\n"
        "result = []\n"
        f"for path, arguments in {BUILT}:\n"
        "    module, _, name = path.rpartition('.')\n"
        "    getattr(importlib.import_module(module), name)(task_id='task', **arguments)\n"
        "    result.append([path, sorted(set(sys.modules) - before)])\n"
        # The next one finds a process without them.
        f"    for known in [known for known in sys.modules if known.split('.')[0] == {PROVIDER!r}]:\n"
        "        del sys.modules[known]\n"
    )
    assert [path for path, loaded in built if path.rpartition(".")[0] in loaded] == [path for path, _ in BUILT]
    needless = {*ONLY_WHEN_A_TASK_RUNS, *HEAVY} - {"stdnum"}
    assert [(path, name) for path, loaded in built for name in needless.intersection(loaded)] == []
