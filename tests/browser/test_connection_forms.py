"""Connections are made by their forms and tested by their buttons, with right values and with a wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.connections_page import ConnectionsPage
from tests.browser.form_values import Entry, in_sandbox
from tests.contract.wrong_connections import WRONG, agrees

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from scripts.local_airflow import LocalAirflow
    from tests.browser.conftest import SignIn

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


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("mediaops_video", "a wrong access token"),
        ("mediaops_cluster", "a wrong password"),
        ("mediaops_books", "a wrong key"),
    ],
)
def test_the_button_says_what_is_wrong_and_is_content_when_it_is_mended(
    connections: ConnectionsPage, sandbox: SandboxServer, kind: str, wrong: str
) -> None:
    """One value stands for all: `contract/test_connections_page.py` has the others."""
    good = in_sandbox(sandbox, kind)
    entry = Entry(connections, f"wrong_{kind}", kind)
    entry.add({**good, **WRONG[wrong].change(sandbox.url)})
    works, answer = entry.test()
    assert agrees(WRONG[wrong], works=works, answer=answer)

    entry.change(good)
    assert entry.test()[0]
