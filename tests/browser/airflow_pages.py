"""Airflow as people use it: accounts with passwords, and its pages in the browser."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.browser.one_dag import READER, OneDagAuthManager

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from playwright.sync_api import Locator, Page

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


def sign_in(page: Page, url: str, name: str) -> None:
    """Sign in by the form, as somebody does who opens Airflow for the first time."""
    page.goto(f"{url}/auth/login")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda address: "/auth/login" not in address)


class ConnectionsPage:
    """
    The list of connections with its form.

    :param page: a page of somebody who may edit connections.
    :param url: Airflow's address.
    """

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._url = url
        self.form: Locator = page.get_by_role("dialog")

    def open(self) -> None:
        """Open the list."""
        self._page.goto(f"{self._url}/connections")
        self._page.get_by_role("button", name="Add Connection").wait_for()

    def begin(self, conn_id: str, kind: str) -> None:
        """Open the form of a new connection, and choose its type by the name that people see."""
        self._page.get_by_role("button", name="Add Connection").click()
        self.form.get_by_label("Connection ID").fill(conn_id)
        self.form.get_by_label("Connection Type").fill(kind)
        self._page.get_by_role("option", name=kind, exact=True).click()
        self.section("Extra Fields").wait_for()

    def add(self, conn_id: str, kind: str, values: Mapping[str, str]) -> None:
        """Make a connection: each value goes into the field with that label."""
        self.begin(conn_id, kind)
        self.fill(values)
        self.save()

    def edit(self, conn_id: str, values: Mapping[str, str]) -> None:
        """Change fields of a connection."""
        self.row(conn_id).get_by_role("button", name="Edit Connection").click()
        self.section("Extra Fields").wait_for()
        self.fill(values)
        self.save()

    def fill(self, values: Mapping[str, str]) -> None:
        """Fill in fields of the open form, by their labels."""
        for label, value in values.items():
            if label == "Extra Fields JSON":
                self._fill_json(value)
                continue
            field = self.field(label)
            if not field.is_visible():
                self.section("Extra Fields" if self.is_extra(field) else "Standard Fields").click()
            field.scroll_into_view_if_needed()
            chooser = field.get_by_role("combobox")
            if chooser.count():
                chooser.fill(value)
                self._page.get_by_role("option", name=value, exact=True).click()
            else:
                field.locator("input, textarea").first.fill(value)

    def field(self, label: str) -> Locator:
        """The field with this label, and with its help."""
        exactly = re.compile(rf"^\s*{re.escape(label)}\s*\*?\s*$")
        return self.form.locator("[data-scope=field][data-part=root]").filter(
            has=self._page.locator("label", has_text=exactly)
        )

    @staticmethod
    def is_extra(field: Locator) -> bool:
        """Whether a field is one of the provider's own."""
        return bool(field.locator("[name^=element_]").count())

    def section(self, name: str) -> Locator:
        """The heading that folds a part of the form in and out."""
        return self.form.get_by_role("button", name=name, exact=True)

    def save(self) -> None:
        """Save what is in the form, and wait until it is gone."""
        self.form.get_by_role("button", name="Save").click()
        self.form.wait_for(state="hidden")

    def row(self, conn_id: str) -> Locator:
        """The line of a connection."""
        return self._page.get_by_role("row").filter(has=self._page.get_by_role("cell", name=conn_id, exact=True))

    def test(self, conn_id: str) -> tuple[bool, str]:
        """
        Press *Test*.

        :returns: whether the button turned green, and what Airflow says: nothing, if it did.
        """
        button = self.row(conn_id).get_by_role("button", name="Test Connection")
        with self._page.expect_response(lambda reply: reply.url.endswith("/connections/test")) as reply:
            button.click()
        answer: dict[str, Any] = reply.value.json()
        return answer
