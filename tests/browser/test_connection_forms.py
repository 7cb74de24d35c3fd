"""Connections are made by their forms and tested by their buttons, with right values and with each wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.connections_page import ConnectionsPage
from tests.browser.form_values import Entry, changed, in_sandbox
from tests.contract.wrong_connections import ANSWERS, CHANGES, EVERYWHERE, SECTIONS, agrees

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from scripts.local_airflow import LocalAirflow
    from tests.browser.conftest import SignIn

    Changes = Mapping[str, Callable[[str], dict[str, Any]]]

WORKS = {
    "mediaops_video": "The video platform answers and accepts the credentials.",
    "mediaops_cluster": "The search cluster 'mediaops-sandbox' answers, accepts the credentials and lets them read the "
    "statistics and the hot threads of its nodes.",
    "mediaops_books": "The book database answers and accepts the key; ",
}


@pytest.fixture
def connections(sign_in_as: SignIn, airflow: LocalAirflow) -> ConnectionsPage:
    page = ConnectionsPage(sign_in_as("admin"), airflow.url)
    page.open()
    return page


@pytest.mark.parametrize("kind", WORKS)
def test_a_connection_made_by_its_form_works(
    default_connections: dict[str, str], connections: ConnectionsPage, kind: str
) -> None:
    works, said = connections.test(default_connections[kind])
    assert works
    assert said.startswith(WORKS[kind])


@pytest.mark.parametrize("kind", SECTIONS)
def test_the_button_says_what_the_docs_say_of_each_wrong_value(
    connections: ConnectionsPage, sandbox: SandboxServer, kind: str
) -> None:
    shown = ANSWERS[SECTIONS[kind]]
    assert shown.keys() == CHANGES[kind].keys()
    assert disagreements(connections, sandbox, kind, CHANGES[kind], shown) == {}


def test_the_button_says_what_the_docs_say_of_values_that_are_wrong_everywhere(
    connections: ConnectionsPage, sandbox: SandboxServer
) -> None:
    shown = ANSWERS["Test it"]
    del shown["no connection of this id"]  # has no line in the list, and so no button
    assert shown.keys() == EVERYWHERE.keys()
    assert disagreements(connections, sandbox, "mediaops_cluster", EVERYWHERE, shown) == {}


def disagreements(
    connections: ConnectionsPage, sandbox: SandboxServer, kind: str, wrong: Changes, shown: Mapping[str, str]
) -> dict[str, tuple[bool, str]]:
    """Write each wrong value into a good connection, and return what the button says otherwise than is shown."""
    good = in_sandbox(sandbox, kind)
    edited = Entry(connections, f"wrong_{kind}_{len(wrong)}", kind)
    edited.add(good)
    found = {}
    for name, change in wrong.items():
        connection = changed(good, change(sandbox.url))
        entry = edited
        if connection["password"]:
            entry.change(connection)
        else:
            # Airflow keeps a password that somebody deletes in the form.
            entry = Entry(connections, f"no_password_{kind}", kind)
            entry.add(connection)
        works, answer = entry.test()
        if not agrees(shown[name], works=works, answer=answer):
            found[name] = (works, answer)
    return found
