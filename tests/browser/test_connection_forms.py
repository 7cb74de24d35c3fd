"""Connections are made by their forms and tested by their buttons; `tests/contract` has those with wrong values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.connections_page import ConnectionsPage

if TYPE_CHECKING:
    from scripts.local_airflow import LocalAirflow
    from tests.browser.conftest import SignIn

WORKS = {
    "mediaops_video": "The video platform answers and accepts the credentials.",
    "mediaops_cluster": "The search cluster 'mediaops-sandbox' answers, accepts the credentials and lets them read the "
    "statistics and the hot threads of its nodes.",
    "mediaops_books": "The book database answers and accepts the key; ",
}


@pytest.mark.parametrize("kind", WORKS)
def test_a_connection_made_by_its_form_works(
    default_connections: dict[str, str], sign_in_as: SignIn, airflow: LocalAirflow, kind: str
) -> None:
    page = ConnectionsPage(sign_in_as("admin"), airflow.url)
    page.open()
    works, said = page.test(default_connections[kind])
    assert works
    assert said.startswith(WORKS[kind])
