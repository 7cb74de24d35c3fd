"""The wheel is installed into a fresh environment beside each Airflow, with the packages of its release day."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.sandbox.server import SandboxServer
from tests.wheel import built_wheel

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
PINS = sorted((ROOT / "requirements").glob("airflow-*.txt"))
VERSIONS = [path.stem.removeprefix("airflow-") for path in PINS]
OLDEST, NEWEST = VERSIONS[0], VERSIONS[-1]
PUBLIC = re.findall(r"automodule:: (\S+)", (ROOT / "docs" / "reference" / "public.md").read_text(encoding="utf-8"))
# The lines of the page that install with constraints.
PAGE_LINES = re.findall(
    r"^\$ (pip install .*--constraint .*)$", (ROOT / "docs" / "install.md").read_text(encoding="utf-8"), re.MULTILINE
)
DAGS = Path(__file__).with_name("dags_of_each_operator.py")


@dataclass(frozen=True)
class Environment:
    """
    An environment with one Airflow and the wheel.

    :param folder: the folder of the environment; Airflow's home is in it.
    """

    folder: Path
    airflow: str

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def home(self) -> Path:
        return self.folder / "airflow"

    def run(self, *arguments: str, **variables: str) -> str:
        """Run its Python, and return what it prints."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
        airflow = {"AIRFLOW_HOME": str(self.home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        return _output_of([str(self.python), *arguments], {**inherited, **airflow, **variables})


def _output_of(command: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def environments() -> dict[str, Environment]:
    """Return what is installed so far, by Airflow's version: the tests come in any order."""
    return {}


@pytest.fixture(params=VERSIONS)
def installed(
    request: pytest.FixtureRequest,
    environments: dict[str, Environment],
    wheel: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Environment:
    if request.param not in environments:
        environments[request.param] = _installed(request.param, wheel, tmp_path_factory.mktemp("airflow"))
    return environments[request.param]


def _installed(version: str, wheel: Path, folder: Path) -> Environment:
    """Install with the lines of the page Install."""
    environment = Environment(folder, version)
    base = sys._base_executable  # type: ignore[attr-defined] # noqa: SLF001
    _output_of([str(UV), "venv", "--quiet", "--allow-existing", "--python", base, str(environment.folder)])
    shutil.copy(ROOT / "requirements" / f"airflow-{version}.txt", folder / "constraints.txt")
    variables = {"MEDIAOPS": str(wheel), "AIRFLOW_VERSION": version, "VIRTUAL_ENV": str(folder)}
    for line in PAGE_LINES:
        script = f'set -e; cd {folder}; pip() {{ {UV} pip "$@"; }}; {line}'
        _output_of(["bash", "-c", script], {**os.environ, **variables})
    return environment


@pytest.fixture(scope="session")
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


def test_the_page_installs_with_constraints_plain_and_with_extras() -> None:
    assert len(PAGE_LINES) == 2


def test_four_airflows_are_pinned_from_the_oldest_to_the_newest() -> None:
    assert len(VERSIONS) == 4
    for path, version in zip(PINS, VERSIONS, strict=True):
        assert f"apache-airflow=={version}\n" in path.read_text(encoding="utf-8")


def test_the_environment_holds_together(installed: Environment) -> None:
    _output_of([str(UV), "pip", "check", "--python", str(installed.python)])
    listed = json.loads(_output_of([str(UV), "pip", "list", "--format", "json", "--python", str(installed.python)]))
    versions = {package["name"]: package["version"] for package in listed}
    assert versions["apache-airflow-core"] == installed.airflow
    assert versions["airflow-provider-mediaops"] == __version__


def test_airflow_lists_the_provider(installed: Environment) -> None:
    printed = installed.run("-m", "airflow", "providers", "list", "--output", "json")
    providers = {row["package_name"]: row["version"] for row in json.loads(printed[printed.index("[{") :])}
    assert providers["airflow-provider-mediaops"] == __version__


def test_each_public_module_is_imported(installed: Environment) -> None:
    assert len(PUBLIC) > 15
    installed.run("-W", "error::ImportWarning", "-c", "\n".join(f"import {name}" for name in PUBLIC))


@pytest.mark.parametrize("installed", [OLDEST, NEWEST], indirect=True)
def test_each_operator_runs_in_a_dag(installed: Environment, sandbox: SandboxServer, tmp_path: Path) -> None:
    # Airflow 3.1.0 tests only a DAG that its database knows.
    file = installed.home / "dags" / DAGS.name
    file.parent.mkdir(parents=True)
    shutil.copy(DAGS, file)
    variables = {"RESULTS_FOLDER": str(tmp_path), **sandbox.connections()}
    installed.run("-m", "airflow", "db", "migrate")
    installed.run("-m", "airflow", "dags", "reserialize", **variables)
    installed.run(str(file), **variables)
    states = json.loads((tmp_path / "states.json").read_text())
    assert states == dict.fromkeys(("bulletin", "export", "capture", "digest", "enrichment"), "success")
    assert (tmp_path / "subscriptions.parquet").read_bytes().startswith(b"PAR1")
    assert len((tmp_path / "books.jsonl").read_text().splitlines()) == 2
