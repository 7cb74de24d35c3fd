"""A machine as a newcomer has it: an empty folder, an empty home, a Python, and a wheel of the checkout."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_mediaops.sandbox.server import SandboxServer
from scripts.processes import free_port
from tests.wheel import built_wheel


@pytest.fixture(scope="session")
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    Stand in for the network: a folder with all that is installed here, but this provider.

    There is no index of packages in the tests. So `pip install` finds that what the wheel needs is there already.
    """
    folder = tmp_path_factory.mktemp("packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "mediaops" not in path.name and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="session")
def environment(
    sandbox: SandboxServer, wheel: Path, packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Return the environment of the newcomer's terminals. The services in it are those of the sandbox."""
    machine = tmp_path_factory.mktemp("machine")
    home, programs = machine / "home", machine / "bin"
    home.mkdir()
    programs.mkdir()
    _program(programs / "python3", f'exec "{sys._base_executable}" "$@"')  # type: ignore[attr-defined] # noqa: SLF001
    # pip would have installed this command with Airflow.
    _program(programs / "airflow", 'exec python -m airflow "$@"')
    connections = {
        name.removeprefix("AIRFLOW_CONN_MEDIAOPS_").removesuffix("_DEFAULT"): json.loads(text)
        for name, text in sandbox.connections().items()
    }
    port = free_port()
    database = home / "airflow" / "airflow.db"
    return {
        "HOME": str(home),
        "PATH": f"{programs}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin",
        "LANG": "C.UTF-8",
        "COLUMNS": "300",
        "PYTHONPATH": str(packages),
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "NO_PROXY": "127.0.0.1,localhost",
        # Ports that nobody has, and patience with SQLite: the newcomer's machine is not this busy.
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://localhost:{port}",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{database}?timeout=60",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "120",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "MEDIAOPS": str(wheel),
        "CLUSTER_URL": connections["CLUSTER"]["host"],
        "CLUSTER_USER": connections["CLUSTER"]["login"],
        "CLUSTER_PASSWORD": connections["CLUSTER"]["password"],
        "VIDEO_URL": connections["VIDEO"]["host"],
        "VIDEO_TOKEN": connections["VIDEO"]["password"],
        "BOOKS_URL": connections["BOOKS"]["host"],
        "BOOKS_KEY": connections["BOOKS"]["password"],
        "BOOKS_PLAN": connections["BOOKS"]["extra"]["plan"],
    }


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
