"""docs/connections.md has the code's fields, defaults and examples; the test of a connection says what is wrong."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from airflow_provider_mediaops.sandbox.server import SandboxServer
from tests.contract.page_tables import table
from tests.contract.wrong_connections import WRONG, agrees, changed
from tests.unit.no_limit import NoLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parents[2] / "docs" / "connections.md").read_text(encoding="utf-8")
SECTIONS = {"mediaops_video": "Video platform", "mediaops_cluster": "Search cluster", "mediaops_books": "Book database"}
# The fields that are in the table for all types.
SHARED = {"timeout", "max_attempts", "max_wait", "proxies", "headers"}
EXAMPLE = re.compile(r"^export (AIRFLOW_CONN_MEDIAOPS_\w+_DEFAULT)='(.*?)'$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        # All tests ask with one key, and on a fast machine more often in a second than it may.
        server.state.books_rate = NoLimit()
        yield server


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def fields(title: str) -> dict[str, tuple[str, str]]:
    """Return label and default of each field of a section's table, by the field's key."""
    text = section(title)
    found = {}
    for row in table(text[text.index("| field | meaning | default |") :]):
        named = re.fullmatch(r"(.+) `(\w+)`", row["field"])
        assert named, row
        found[named[2]] = (named[1], row["default"])
    return found


@pytest.mark.parametrize("name", SECTIONS)
def test_every_field_of_the_form_is_there_under_its_label(name: str) -> None:
    form = CONNECTION_TYPES[name]
    shown, shared = fields(SECTIONS[name]), fields("Fields that all types share")

    own = {key: field["label"] for key, field in form["conn-fields"].items() if key not in SHARED}
    assert {key: shown[key][0] for key in own} == own
    relabelled = {key: label for key, label in form["ui-field-behaviour"]["relabeling"].items() if key != "schema"}
    assert {key: shown[key][0] for key in relabelled} == relabelled
    assert {key: shared[key][0] for key in SHARED} == {key: form["conn-fields"][key]["label"] for key in SHARED}
    assert shared["schema"][0] == form["ui-field-behaviour"]["relabeling"]["schema"]
    assert not set(shown) & SHARED


@pytest.mark.parametrize("name", SECTIONS)
def test_the_defaults_are_those_of_the_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": name, "host": "https://host.example", "password": "a secret"}
    if name == "mediaops_cluster":
        connection["login"] = "airflow"
    hook = opened(name, connection, monkeypatch)
    client, transport = hook.service.client, hook.service.transport
    shown = {
        key: default
        for key, (_, default) in {**fields("Fields that all types share"), **fields(SECTIONS[name])}.items()
    }

    assert shown["timeout"] == f"`{transport.connect_timeout:g}, {transport.read_timeout:g}`"
    assert shown["max_attempts"] == f"`{client.retry.max_attempts}`"
    assert shown["max_wait"] == f"`{client.retry.max_wait:g}`"
    assert (shown["proxies"], dict(transport.proxies)) == ("the environment's", {})
    assert (shown["headers"], dict(transport.headers)) == ("none", {})
    for key, field in CONNECTION_TYPES[name]["conn-fields"].items():
        if "default" in field["schema"]:
            assert shown[key] == f"`{json.dumps(field['schema']['default'])}`".replace('"', "")


def opened(name: str, connection: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}_DEFAULT", json.dumps(connection))
    hook_class: Any = resolve_name(CONNECTION_TYPES[name]["hook-class-name"])
    return hook_class()


def test_the_examples_for_the_environment_are_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = EXAMPLE.findall(PAGE)
    assert sorted(variable for variable, _ in examples) == sorted(
        f"AIRFLOW_CONN_{name.upper()}_DEFAULT" for name in SECTIONS for _ in ("JSON", "URI")
    )
    for variable, value in examples:
        name = variable.removeprefix("AIRFLOW_CONN_").removesuffix("_DEFAULT").lower()
        monkeypatch.setenv(variable, value)
        hook: Any = resolve_name(CONNECTION_TYPES[name]["hook-class-name"])()
        assert hook.service.client.base_urls[0].startswith("https://")


@pytest.mark.parametrize("wrong", WRONG)
def test_of_a_connection_says_what_is_wrong(server: SandboxServer, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_name(host: str, *others: Any, **more: Any) -> Any:
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *others, **more)

    resolve = socket.getaddrinfo
    monkeypatch.setattr("socket.getaddrinfo", no_such_name)
    name = f"mediaops_{WRONG[wrong].kind}"
    good = json.loads(server.connections()[f"AIRFLOW_CONN_{name.upper()}_DEFAULT"])

    works, answer = opened(name, changed(good, WRONG[wrong], server.url), monkeypatch).test_connection()

    assert agrees(WRONG[wrong], works=works, answer=answer), answer


@pytest.mark.parametrize("name", SECTIONS)
def test_page_quotes_the_test_of_a_good_connection(
    server: SandboxServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = json.loads(server.connections()[f"AIRFLOW_CONN_{name.upper()}_DEFAULT"])

    works, answer = opened(name, connection, monkeypatch).test_connection()

    assert works
    [shown] = re.findall(r"If all is right, it says: (.+?\.)\n(?:\n|$)", section(SECTIONS[name]), flags=re.DOTALL)
    pattern = re.escape(" ".join(shown.split()).replace("`", "'")).replace("…", ".*")
    assert re.fullmatch(re.sub(r"\d[\d,]*", r"[\\d,]+", pattern), answer), answer


@pytest.mark.airflow(">=3.2")  # Airflow 3.1 raises an ImportError of its own outside of tasks
def test_a_connection_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", raising=False)
    hook: Any = resolve_name(CONNECTION_TYPES["mediaops_books"]["hook-class-name"])()

    works, answer = hook.test_connection()

    assert not works
    assert "There is no connection" in answer
