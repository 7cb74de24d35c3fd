"""What an import costs: parse time is paid by every DAG file in every parse process."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

import pytest

import airflow_provider_mediaops.operators
import airflow_provider_mediaops.sensors
import airflow_provider_mediaops.triggers
from tests.contract import fresh_python

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("requests", "urllib3", "httpx", "aiohttp", "pyarrow", "stdnum", "fastapi")
OURS_AT_RUN_TIME = (
    "airflow_provider_mediaops.http.sync_transport",
    "airflow_provider_mediaops.http.async_transport",
    *(f"airflow_provider_mediaops.{service}.models" for service in ("video", "cluster", "books")),
)
PARSED = [
    "airflow_provider_mediaops.notifications",
    *(
        module.name
        for package in (airflow_provider_mediaops.operators, airflow_provider_mediaops.sensors)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ),
]
# In a triggerer httpx has its work to do; the constructors run before that.
TRIGGERS = [
    module.name
    for module in pkgutil.iter_modules(
        airflow_provider_mediaops.triggers.__path__, f"{airflow_provider_mediaops.triggers.__name__}."
    )
]


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


def test_what_airflow_reads_at_start_needs_nothing() -> None:
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


@pytest.mark.parametrize("module", PARSED + TRIGGERS)
def test_importing_a_module_loads_nothing_heavy(module: str, loaded_by: dict[str, list[str]]) -> None:
    roots = {name.partition(".")[0] for name in loaded_by[module]}
    assert not roots.intersection(HEAVY)
    assert not set(OURS_AT_RUN_TIME).intersection(loaded_by[module])


def test_parsing_the_example_dags_loads_nothing_heavy(example_dags_folder: Path) -> None:
    """Also the constructors, which check their arguments, leave the clients and models alone."""
    loaded = fresh_python.result_of(
        "import pathlib, runpy, sys\n"
        "from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator\n"
        "before = set(sys.modules)\n"
        f"files = sorted(pathlib.Path({str(example_dags_folder)!r}).glob('*.py'))\n"
        "for file in files:\n"
        "    runpy.run_path(str(file))\n"
        "result = [len(files), sorted(set(sys.modules) - before)]\n"
    )
    assert loaded[0] >= 5
    assert not {name.partition(".")[0] for name in loaded[1]}.intersection({*HEAVY} - {"stdnum"})
    assert not set(OURS_AT_RUN_TIME).intersection(loaded[1])
