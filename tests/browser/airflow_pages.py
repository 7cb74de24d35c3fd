"""Airflow as people use it: accounts with passwords, and its pages in the browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scripts.local_airflow import LocalAirflow
from tests.browser.one_dag import READER, OneDagAuthManager

if TYPE_CHECKING:
    from pathlib import Path

#: Each account with its role. Who has none may sign in, and nothing else.
ROLES = {"admin": "admin", "author": "user", READER: "viewer", "guest": ""}
PASSWORD = "let-me-in-to-airflow"


def with_accounts(home: Path) -> dict[str, str]:
    """Write the passwords of the accounts into Airflow's home, and return the settings that make it ask for them."""
    home.mkdir(parents=True)
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps(dict.fromkeys(ROLES, PASSWORD)))
    settings = {
        "AUTH_MANAGER": f"{OneDagAuthManager.__module__}.{OneDagAuthManager.__name__}",
        "SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in ROLES.items()),
        "SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
    }
    return {f"AIRFLOW__CORE__{name}": value for name, value in settings.items()}
