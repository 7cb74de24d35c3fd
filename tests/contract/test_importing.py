"""What an import costs: parse time is paid by every DAG file in every parse process."""

from __future__ import annotations

import importlib.util
import pkgutil
from importlib import import_module

import pytest
from airflow.sdk import BaseOperator

import airflow_provider_mediaops.operators
import airflow_provider_mediaops.sensors
import airflow_provider_mediaops.triggers
from airflow_provider_mediaops.hooks import base as hooks_base
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from tests.contract import fresh_python

PROVIDER = "airflow_provider_mediaops"
HEAVY = ("requests", "urllib3", "httpx", "aiohttp", "pyarrow", "stdnum", "fastapi", "botocore")
# What a DAG file does not need to be parsed: the constructors read arguments, and ask for nothing.
ONLY_WHEN_A_TASK_RUNS = (
    *(f"{PROVIDER}.{service}.models" for service in ("video", "cluster", "books")),
    *(f"{PROVIDER}.{service}.api" for service in ("cluster", "books")),
    *(f"{PROVIDER}.hooks.{service}" for service in ("base", "video", "cluster", "books")),
    *(
        f"{PROVIDER}.http.{name}"
        for name in ("client", "errors", "exchange", "redaction", "reply", "retry", "transport")
    ),
    *(f"{PROVIDER}.cluster.capture.{name}" for name in ("model", "on_spike", "packed", "summary")),
    *(f"{PROVIDER}.cluster.{module}" for module in ("comparison", "digest.attempt", "hot_threads.parser", "page")),
    f"{PROVIDER}.cluster.running_tasks",
    *(f"{PROVIDER}.storage.{name}" for name in ("dataset", "local", "object_store", "seen_set")),
    *(f"{PROVIDER}.video.{name}" for name in ("at_most_once", "calls", "errors", "export", "paging")),
    *(f"{PROVIDER}.books.{name}" for name in ("batch", "lookup", "not_found")),
    f"{PROVIDER}.enrichment.attempt",
    "airflow.triggers.base",
)
# Each operator, sensor and notifier with arguments of every kind that its constructor reads.
BUILT = {
    "operators.books.EnrichIsbnsOperator": {
        "source": "/data/isbns.csv",
        "isbn_column": "isbn",
        "destination": "/data/books.jsonl",
        "reuse": "/data/earlier.jsonl",
        "reuse_for": 86_400,
        "max_failures": "5%",
    },
    "operators.cluster.CaptureHotThreadsOperator": {
        "destination": "/data/hot.txt",
        "when_cpu_above": 85,
        "sustained_for": 30,
        "nodes": "node-1",
        "captures": 3,
        "running_tasks": True,
    },
    "operators.cluster_digest.HotThreadsDigestOperator": {"source": "/data/captures", "destination": "/data/digest"},
    "operators.video.ExportSubscriptionsOperator": {
        "destination": "/data/subscriptions.csv",
        "mine": True,
        "changes": "/data/changes.jsonl",
    },
    "operators.video.PostBulletinOperator": {"text": "Done.", "journal": "/data/journal", "once_per": "day"},
    "sensors.books.BookSensor": {"isbn": "9780140449136"},
    "sensors.cluster.ClusterCpuSensor": {"threshold": 85, "nodes": "node-1"},
    "sensors.video.SubscriptionSensor": {"mine": True},
}
PARSED = [
    "airflow_provider_mediaops.notifications",
    *(
        module.name
        for package in (airflow_provider_mediaops.operators, airflow_provider_mediaops.sensors)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ),
]
# Modules that triggers import in a thread, once they run.
RUN_BY_TRIGGERS = {f"airflow_provider_mediaops.triggers.{name}" for name in ("shared_readings", "spike_series")}
# The triggerer imports these on its event loop, as Airflow does for every trigger.
TRIGGERS = [
    module.name
    for module in pkgutil.iter_modules(
        airflow_provider_mediaops.triggers.__path__, f"{airflow_provider_mediaops.triggers.__name__}."
    )
    if module.name not in RUN_BY_TRIGGERS
]
# All of ours that importing operators, sensors, notifiers and triggers may load beside themselves. They define
# constants, functions and plain classes; the import time of a dataclass is half a millisecond.
PARSED_WITH = {
    f"airflow_provider_mediaops{name}"
    for name in (
        "",
        ".arguments",
        ".exceptions",
        ".hooks",
        ".hooks.threads",
        ".http",
        ".http.stop",
        ".iso_times",
        ".notifications",
        ".operators",
        ".sensors",
        ".task_failure",
        ".task_stop",
        ".triggers",
        ".version_compat",
        ".waiting",
    )
}


@pytest.mark.long
def test_airflow_is_unharmed_and_loads_three_small_modules() -> None:
    """Airflow calls the provider while it is itself half imported: anything more could fail `import airflow`."""
    loaded = fresh_python.result_of(
        "import sys\n"
        "import airflow\n"
        "from airflow.providers_manager import ProvidersManager\n"
        "ProvidersManager().providers\n"
        "result = sorted(name for name in sys.modules if name.startswith('airflow_provider_mediaops'))\n"
    )
    assert loaded == [
        "airflow_provider_mediaops",
        "airflow_provider_mediaops.connection_fields",
        "airflow_provider_mediaops.get_provider_info",
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


@pytest.fixture(scope="module")
def loaded_by() -> dict[str, list[str]]:
    """Each module with all that is loaded once it is, beyond what `airflow.sdk` has loaded."""
    loaded: dict[str, list[str]] = fresh_python.result_of(
        "import importlib, sys\n"
        "from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator\n"
        "before = set(sys.modules)\n"
        "result = {}\n"
        f"for module in {PARSED + TRIGGERS}:\n"
        "    importlib.import_module(module)\n"
        "    result[module] = sorted(set(sys.modules) - before)\n"
    )
    return loaded


def test_importing_loads_nothing_heavy(loaded_by: dict[str, list[str]]) -> None:
    roots = {name.partition(".")[0] for loaded in loaded_by.values() for name in loaded}
    assert not roots.intersection(HEAVY)


def test_operators_and_sensors_load_few_modules_and_no_trigger(loaded_by: dict[str, list[str]]) -> None:
    """The import time is kept low by what is imported, which does not depend on how busy the machine is."""
    loaded = set(loaded_by[PARSED[-1]])
    ours = {name for name in loaded if name.startswith(PROVIDER) and not name.startswith(f"{PROVIDER}.notifications.")}
    assert ours - set(PARSED) <= PARSED_WITH
    # It takes 5 to 10 ms.
    assert "airflow.triggers.base" not in loaded


def test_triggers_load_few_modules(loaded_by: dict[str, list[str]]) -> None:
    loaded = {name for name in loaded_by[TRIGGERS[-1]] if name.startswith(PROVIDER)}
    kinds = tuple(f"{PROVIDER}.{kind}." for kind in ("notifications", "operators", "sensors"))
    assert {name for name in loaded if not name.startswith(kinds)} - set(TRIGGERS) <= PARSED_WITH


def test_the_modules_that_are_imported_in_a_thread_exist() -> None:
    """One that was moved would fail each trigger, and only when it runs."""
    modules = {name for module in (hooks_base, *map(import_module, TRIGGERS)) for name in run_time_modules_of(module)}
    modules |= {
        name for hook in (BookDatabaseHook, SearchClusterHook, VideoPlatformHook) for name in hook.run_time_modules
    }
    assert len(modules) > len(TRIGGERS)
    assert not [name for name in sorted(modules) if importlib.util.find_spec(name) is None]


def run_time_modules_of(module: object) -> tuple[str, ...]:
    return getattr(module, "_RUN_TIME_MODULES", ())


@pytest.fixture(scope="module")
def loaded_by_building() -> dict[str, list[str]]:
    """Each class with all of the provider's modules, and Airflow's new ones, that are there once one was built."""
    loaded: dict[str, list[str]] = fresh_python.result_of(
        "import importlib, sys\n"
        "from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator\n"
        "before = set(sys.modules)\n"
        "result = {}\n"
        f"for path, arguments in {BUILT}.items():\n"
        f"    module, _, name = ({PROVIDER!r} + '.' + path).rpartition('.')\n"
        "    getattr(importlib.import_module(module), name)(task_id='task', **arguments)\n"
        "    result[path] = sorted(set(sys.modules) - before)\n"
        # The next one finds a process without them.
        f"    for known in [known for known in sys.modules if known.split('.')[0] == {PROVIDER!r}]:\n"
        "        del sys.modules[known]\n"
    )
    return loaded


def test_each_operator_and_sensor_is_built() -> None:
    built = {path.rpartition(".")[0] for path in BUILT}
    public = {name.removeprefix(f"{PROVIDER}.") for name in PARSED if _has_task(name) and not name.endswith(".base")}
    assert built == public


def _has_task(module: str) -> bool:
    names = vars(import_module(module)).values()
    return any(
        isinstance(each, type) and issubclass(each, BaseOperator) and each.__module__ == module for each in names
    )


@pytest.mark.parametrize("path", BUILT)
def test_building_a_task_loads_what_reads_its_arguments_only(
    path: str, loaded_by_building: dict[str, list[str]]
) -> None:
    """Each DAG file pays for it at each parse: errors, redaction and call flows took as long as Airflow's share."""
    loaded = set(loaded_by_building[path])
    assert f"{PROVIDER}.{path.rpartition('.')[0]}" in loaded
    assert not loaded.intersection(ONLY_WHEN_A_TASK_RUNS)
    assert not {name.partition(".")[0] for name in loaded}.intersection({*HEAVY} - {"stdnum"})


def test_modules_that_a_task_does_not_load_exist() -> None:
    """A module that was moved would be kept out of a DAG file by no test."""
    assert not [name for name in ONLY_WHEN_A_TASK_RUNS if importlib.util.find_spec(name) is None]
