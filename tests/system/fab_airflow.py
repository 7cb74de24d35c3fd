"""
An API server with the FAB auth manager, whose accounts have roles with rights of their own, and task instances.

As a program, it puts the accounts and the task instances into the database of the Airflow of its environment.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import requests

from airflow_provider_mediaops.report_urls import NOT_MAPPED
from scripts.local_airflow import COMPONENTS, REQUEST_SECONDS, LocalAirflow

PASSWORD = "let-me-in-to-airflow"
_ROOT = Path(__file__).parents[2]
_FILL_SECONDS = 600


class Instance(NamedTuple):
    """A task instance, in names that are its own."""

    dag_id: str
    run_id: str
    task_id: str = "capture"
    map_index: int = NOT_MAPPED

    @property
    def api_path(self) -> str:
        """The address of Airflow's own route of it."""
        names = [quote(name, safe="") for name in (self.dag_id, self.run_id, self.task_id)]
        path = "/api/v2/dags/{}/dagRuns/{}/taskInstances/{}".format(*names)
        return path if self.map_index == NOT_MAPPED else f"{path}/{self.map_index}"


EARLIER = Instance("hot", "of-the-day-before")
CAPTURED = Instance("hot", "manual__2026-11-22T12:00:00+00:00")
MAPPED = Instance("hot", "of-a-mapped-task", "capture_each", 3)
ODD = Instance("hot", "odd: 100%2F25 ?#&ü+~")
OF_ANOTHER_DAG = Instance("cold", "of-another-dag")
#: Those that are listed, the newest first; and one of which there is a message only.
LISTED = (CAPTURED, MAPPED, ODD, OF_ANOTHER_DAG, EARLIER)
DELETED = Instance("hot", "of-a-deleted-file")

_RUNS, _INSTANCES, _DAGS = "DAG Runs", "Task Instances", "DAGs"
#: What each role may read.
ROLES = {
    "everything": (_DAGS, _RUNS, _INSTANCES),
    "no_task_instances": (_DAGS, _RUNS),
    # Airflow asks for both.
    "no_runs": (_DAGS, _INSTANCES),
    "one_dag": ("DAG:hot", _RUNS, _INSTANCES),
}


class FabAirflow(LocalAirflow):
    """
    An API server with an account for each role, behind a prefix.

    :param home: the scratch folder, also for the captures.
    """

    def __init__(self, home: Path) -> None:
        (home / "dags").mkdir(parents=True)
        super().__init__(
            home,
            dags=home / "dags",
            env={"AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"},
            components={"api-server": COMPONENTS["api-server"]},
        )
        self._env["AIRFLOW__API__BASE_URL"] = self.url

    @property
    def url(self) -> str:
        """The address of its pages."""
        return f"{super().url}/airflow"

    def signed_in(self, role: str, by: str) -> requests.Session:
        """
        Sign somebody in.

        :param by: `token` for a program that sends its token, `cookie` for a browser after the form.
        """
        session = requests.Session()
        session.trust_env = False
        form = {"username": role, "password": PASSWORD}
        if by == "token":
            reply = session.post(f"{self.url}/auth/token", json=form, timeout=REQUEST_SECONDS)
            reply.raise_for_status()
            session.headers["Authorization"] = f"Bearer {reply.json()['access_token']}"
        else:
            page = session.get(f"{self.url}/auth/login/", timeout=REQUEST_SECONDS)
            [form["csrf_token"]] = set(re.findall(r'name="csrf_token"[^>]*value="([^"]+)"', page.text))
            session.post(f"{self.url}/auth/login/", data=form, timeout=REQUEST_SECONDS).raise_for_status()
            assert "_token" in session.cookies
        return session

    def _sign_in(self) -> None:
        subprocess.run(
            [sys.executable, "-m", __name__, str(self.home / "captures")],
            env=self._env,
            cwd=_ROOT,
            timeout=_FILL_SECONDS,
            check=True,
        )


def _add_accounts(roles: Mapping[str, tuple[str, ...]]) -> None:
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    with get_application_builder() as builder:
        rights = [{"role": role, "perms": [("can_read", name) for name in names]} for role, names in roles.items()]
        builder.sm.bulk_sync_roles(rights)
        for role in roles:
            found = builder.sm.find_role(role)
            assert builder.sm.add_user(role, role, role, f"{role}@example.com", found, password=PASSWORD)


def _add_task_instances(folder: Path) -> None:
    from datetime import timedelta

    from tests.unit.plugin.airflow_world import START, World, text

    world = World(folder)

    def add(instance: Instance, minutes: float = 0, **values: Any) -> None:
        ended = START - timedelta(minutes=minutes)
        world.add(**{**instance._asdict(), "ended": ended, "written": text(at=ended), **values})

    for number, instance in enumerate(LISTED):
        add(instance, minutes=10 * number, destination=str(folder / f"{number}.txt"))
    add(DELETED, written=None, state="failed")


if __name__ == "__main__":
    _add_accounts(ROLES)
    _add_task_instances(Path(sys.argv[1]))
