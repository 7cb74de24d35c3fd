"""docs/object_stores.md has connections that Airflow reads, the packages of the code, and messages that it raises."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from airflow.sdk import BaseHook

from airflow_provider_mediaops.storage import refusals
from airflow_provider_mediaops.storage.path_checks import _PACKAGES
from tests.contract.page_tables import sections, table

pytestmark = pytest.mark.once

PAGE = (Path(__file__).parents[2] / "docs" / "object_stores.md").read_text()
SECTIONS = sections(PAGE)
STORES = table(PAGE.partition("## ")[0])
CONNECTIONS = [
    block
    for block in re.findall(r"^```json\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    if "conn_type" in json.loads(block)
]


def test_every_store_has_a_connection_and_one_for_its_emulator() -> None:
    listed = {row["connection type"].strip("`") for row in STORES}
    for title in ("Connections as JSON", "Try it without an account"):
        shown = re.findall(r'"conn_type": "(\w+)"', SECTIONS[title])
        assert set(shown) == listed


@pytest.mark.parametrize("text", CONNECTIONS)
def test_a_connection_is_read_by_airflow(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHELF", text)
    connection = BaseHook.get_connection("shelf")
    written = json.loads(text)
    assert connection.conn_type == written["conn_type"]
    assert connection.extra_dejson == written["extra"]


def test_the_packages_are_those_that_an_error_names() -> None:
    shown = {row["address"].strip("`").partition("://")[0]: row["package, on workers and triggerers"] for row in STORES}
    assert shown == {scheme: f"`{_PACKAGES[scheme]}`" for scheme in ("s3", "gs", "abfs")}


def test_the_messages_are_those_of_the_code() -> None:
    values = vars(refusals)
    raised = [value for name, value in values.items() if name.isupper() and isinstance(value, str)]
    raised += values["_MISSING"].values()
    rows = table(SECTIONS["Rights"])
    assert len(rows) == 5
    for row in rows:
        for message in re.findall("“(.*?)”", row["message"]):
            assert any(message in words for words in raised)
