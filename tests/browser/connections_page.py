"""Airflow's list of connections, and its form, as people use them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from playwright.sync_api import Locator, Page


class ConnectionsPage:
    """
    The list of connections with its form.

    Buttons are pressed on the keyboard: what Airflow says stands on top of them for a while.

    :param page: a page of somebody who may edit connections.
    """

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._url = url
        self.form: Locator = page.get_by_role("dialog")

    def open(self) -> None:
        """Open the list."""
        with self._listing():
            self._page.goto(f"{self._url}/connections")
        self._page.get_by_role("button", name="Add Connection").wait_for()

    def begin(self, conn_id: str, kind: str) -> None:
        """Open the form of a new connection, and choose its type by the name that people see."""
        self._page.get_by_role("button", name="Add Connection").press("Enter")
        self.form.get_by_label("Connection ID").fill(conn_id)
        self._choose(self.form.get_by_label("Connection Type"), kind)
        self.section("Extra Fields").wait_for()

    def fill(self, values: Mapping[str, str]) -> None:
        """Fill in fields of the open form, by their labels."""
        for label, value in values.items():
            field = self.field(label)
            self.unfold("Extra Fields" if field.locator("[name^=element_]").count() else "Standard Fields")
            chooser = field.get_by_role("combobox")
            if not chooser.count():
                field.locator("input, textarea").first.fill(value)
            else:
                self._choose(chooser, value)

    def field(self, label: str) -> Locator:
        """The field with this label, and with its help."""
        exactly = re.compile(rf"^\s*{re.escape(label)}\s*\*?\s*$")
        return self.form.locator("[data-scope=field][data-part=root]").filter(
            has=self._page.locator("label", has_text=exactly)
        )

    def unfold(self, name: str) -> None:
        """Unfold a section of the form, which folds the others."""
        heading = self.section(name)
        if heading.get_attribute("aria-expanded") != "true":
            heading.press("Enter")

    def unfolded(self) -> Locator:
        """The section that is unfolded, with its heading."""
        return self.form.locator("[data-part=item][data-state=open]")

    def section(self, name: str) -> Locator:
        """The heading that folds a part of the form in and out."""
        return self.form.get_by_role("button", name=name, exact=True)

    def save(self) -> None:
        """Save what is in the form, and wait until it is gone."""
        with self._listing():
            self.form.get_by_role("button", name="Save").press("Enter")
        self.form.wait_for(state="hidden")

    def row(self, conn_id: str) -> Locator:
        """The line of a connection."""
        return self._page.get_by_role("row").filter(has=self._page.get_by_role("cell", name=conn_id, exact=True))

    def test(self, conn_id: str) -> tuple[bool, str]:
        """
        Press *Test*.

        :returns: whether Airflow calls it a success, and what it shows.
        """
        button = self.row(conn_id).get_by_role("button", name="Test Connection")
        with self._page.expect_response(lambda reply: reply.url.endswith("/connections/test")) as reply:
            button.press("Enter")
        answer: dict[str, Any] = reply.value.json()
        self._page.get_by_text(answer["message"], exact=True).last.wait_for()
        return answer["status"], answer["message"]

    def _choose(self, chooser: Locator, value: str) -> None:
        chooser.fill(value)
        self._page.get_by_role("option", name=value, exact=True).wait_for()
        chooser.press("Enter")

    def _listing(self) -> AbstractContextManager[Any]:
        return self._page.expect_response(lambda reply: "/api/v2/connections?" in reply.url)
