"""docs/connections.md: fields, defaults and examples are the code's; the answers of *Test* are those of the hooks."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.module_loading import import_string

from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from airflow_provider_mediaops.sandbox.server import SandboxServer
from tests.unit.no_limit import NoLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = (Path(__file__).parents[2] / "docs" / "connections.md").read_text(encoding="utf-8")
SECTIONS = {"mediaops_video": "Video platform", "mediaops_cluster": "Search cluster", "mediaops_books": "Book database"}
# The fields that are in the table for all types.
SHARED = {"timeout", "max_attempts", "max_wait", "proxies", "headers"}
EXAMPLE = re.compile(r"^export (AIRFLOW_CONN_MEDIAOPS_\w+_DEFAULT)='(.*?)'$", re.MULTILINE | re.DOTALL)
CLOSED = "http://127.0.0.1:9"

# Changes of a good connection of the sandbox: fields, and beside them those of ``extra``. None removes one.
Change = dict[str, Any]

EVERYWHERE: dict[str, Callable[[str], Change]] = {
    "Host is empty": lambda _: {"host": ""},
    "Host begins with `ftp://`": lambda _: {"host": "ftp://host.example"},
    "nothing listens at the port": lambda _: {"host": CLOSED},
    "the name of the host is wrong": lambda _: {"host": "https://nowhere.invalid"},
    "`https` where the service speaks `http`": lambda url: {"host": url.replace("http", "https")},
    "another Port than in Host": lambda _: {"port": 1234},
    "another Scheme than in Host": lambda _: {"schema": "https"},
    "a misspelt field, `timout`": lambda _: {"extra": {"timout": "5"}},
    "a field of your own, `colour`": lambda _: {"extra": {"colour": "red"}},
    "`timeout` is no number": lambda _: {"extra": {"timeout": "soon"}},
    "`max_attempts` is 0": lambda _: {"extra": {"max_attempts": 0}},
    "`headers` is no JSON object": lambda _: {"extra": {"headers": "X-Team: media"}},
    "a proxy that nobody serves": lambda _: {"extra": {"proxies": CLOSED}},
}
REFRESHED = {"auth": "refresh_token", "refresh_token": "a wrong one"}
CHANGES: dict[str, dict[str, Callable[[str], Change]]] = {
    "mediaops_video": {
        "Password is empty": lambda _: {"password": ""},
        "a wrong or expired access token": lambda _: {"password": "another token"},
        "a wrong API key": lambda _: {"password": "another key", "extra": {"auth": "api_key"}},
        "`refresh_token` without a client id": lambda _: {"extra": REFRESHED},
        "a wrong client id or secret": lambda url: {
            "login": "unknown",
            "extra": {**REFRESHED, "token_url": f"{url}/video/oauth2/token"},
        },
        "an unknown `auth`": lambda _: {"extra": {"auth": "token"}},
        "the base address ends in `/v3`": lambda url: {"host": f"{url}/video/v3"},
        "a wrong path": lambda url: {"host": f"{url}/nothing"},
        "the address of a search cluster": lambda url: {"host": f"{url}/cluster"},
        "another `kind_prefix` than the service's": lambda _: {"extra": {"kind_prefix": "youtube"}},
        "`kind_prefix` is `svc#`": lambda _: {"extra": {"kind_prefix": "svc#"}},
        "`requests_per_second` is 0": lambda _: {"extra": {"requests_per_second": 0}},
        "an unknown `rate_limit_store`": lambda _: {
            "extra": {"requests_per_second": 1, "rate_limit_store": "ftp://store"}
        },
    },
    "mediaops_cluster": {
        "Password is empty": lambda _: {"password": ""},
        "a wrong password": lambda _: {"password": "another password"},
        "a wrong API key": lambda _: {"password": "another key", "extra": {"auth": "api_key"}},
        "a password, but neither Login nor `auth`": lambda _: {"login": "", "extra": {"auth": None}},
        "a user without the permissions": lambda _: {"login": "sandbox-guest", "password": "sandbox-guest-password"},
        "`ca_cert` is not there": lambda _: {"extra": {"ca_cert": "/nowhere/ca.pem"}},
        "`max_report_mb` is 0": lambda _: {"extra": {"max_report_mb": 0}},
        "the base address ends in `/_nodes`": lambda url: {"host": f"{url}/cluster/_nodes"},
        "a wrong path": lambda url: {"host": f"{url}/nothing"},
        "the address of a video platform": lambda url: {"host": f"{url}/video"},
    },
    "mediaops_books": {
        "Password is empty": lambda _: {"password": ""},
        "a wrong key": lambda _: {"password": "another key"},
        "the base address of another plan": lambda url: {"host": f"{url}/books/premium"},
        "a key that is not active": lambda _: {"password": "sandbox-books-inactive-key"},
        "a lower `plan` than the key's": lambda _: {"extra": {"plan": "premium"}},
        "an unknown `plan`": lambda _: {"extra": {"plan": "gold"}},
        "a wrong path, or none": lambda url: {"host": f"{url}/nothing"},
        "the base address ends in `/book`": lambda url: {"host": f"{url}/books/pro/book"},
        "`canary_isbn` is no ISBN": lambda _: {"extra": {"canary_isbn": "123"}},
        "`canary_isbn` has no record": lambda _: {"extra": {"canary_isbn": "9791090648524"}},
        "the address of a video platform": lambda url: {"host": f"{url}/video"},
    },
}


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        # All tests ask with one key, and on a fast machine more often in a second than it may.
        server.state.books_rate = NoLimit()
        yield server


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def tables(text: str, head: str) -> dict[str, list[str]]:
    """Return the rows of the table with this head by their first cell."""
    lines = text.partition(f"\n{head}\n")[2].partition("\n\n")[0].splitlines()[1:]
    rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in rows}


def answers(title: str) -> dict[str, str]:
    return {row: cells[0] for row, cells in tables(section(title), "| what is wrong | *Test* says |").items()}


def fields(title: str) -> dict[str, tuple[str, str]]:
    """Return label and default of each field of a section's table, by the field's key."""
    rows = tables(section(title), "| field | meaning | default |")
    cells = {row: re.fullmatch(r"(.+) `(\w+)`", row) for row in rows}
    assert all(cells.values()), cells
    return {match[2]: (match[1], rows[row][-1]) for row, match in cells.items() if match}


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
    hook_class: Any = import_string(CONNECTION_TYPES[name]["hook-class-name"])
    return hook_class()


def test_the_examples_for_the_environment_are_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = EXAMPLE.findall(PAGE)
    assert sorted(variable for variable, _ in examples) == sorted(
        f"AIRFLOW_CONN_{name.upper()}_DEFAULT" for name in SECTIONS for _ in ("JSON", "URI")
    )
    for variable, value in examples:
        name = variable.removeprefix("AIRFLOW_CONN_").removesuffix("_DEFAULT").lower()
        monkeypatch.setenv(variable, value)
        hook: Any = import_string(CONNECTION_TYPES[name]["hook-class-name"])()
        assert hook.service.client.base_urls[0].startswith("https://")


@pytest.mark.parametrize("name", SECTIONS)
def test_every_wrong_thing_of_the_page_is_tried(name: str) -> None:
    assert set(answers(SECTIONS[name])) == set(CHANGES[name])
    assert set(answers("Test it")) == {*EVERYWHERE, "no connection of this id"}


@pytest.mark.parametrize(
    ("name", "wrong"), [(name, wrong) for name in SECTIONS for wrong in {**EVERYWHERE, **CHANGES[name]}]
)
def test_what_the_test_of_a_connection_says(
    server: SandboxServer, name: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_such_name(host: str, *_: Any, **__: Any) -> Any:
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *_, **__)

    resolve = socket.getaddrinfo
    monkeypatch.setattr("socket.getaddrinfo", no_such_name)
    connection = json.loads(server.connections()[f"AIRFLOW_CONN_{name.upper()}_DEFAULT"])
    change = {**EVERYWHERE, **CHANGES[name]}[wrong](server.url)
    extra = {**connection["extra"], **change.pop("extra", {})}
    connection |= {**change, "extra": {key: value for key, value in extra.items() if value is not None}}

    works, answer = opened(name, connection, monkeypatch).test_connection()

    shown = {**answers("Test it"), **answers(SECTIONS[name])}[wrong]
    assert agrees(shown, works=works, answer=answer), (works, answer)


def agrees(shown: str, *, works: bool, answer: str) -> bool:
    """Whether an answer is the one that the page shows; an ellipsis stands for anything."""
    said = re.sub(r"^\*success\*(, and)?: ", "", shown)
    # This is what follows from it; the answer does not say so.
    if said == "the tasks are slower than they might be.":
        said = "…"
    pieces = [re.escape(piece.strip().replace("`", "'")) for piece in said.split("…")]
    return works == shown.startswith("*success*") and bool(re.search(".*".join(pieces), answer))


@pytest.mark.parametrize("name", SECTIONS)
def test_what_it_says_of_a_good_connection(server: SandboxServer, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = json.loads(server.connections()[f"AIRFLOW_CONN_{name.upper()}_DEFAULT"])

    works, answer = opened(name, connection, monkeypatch).test_connection()

    assert works
    [shown] = re.findall(r"If all is right, it says: (.+?\.)\n\n", section(SECTIONS[name]), flags=re.DOTALL)
    pattern = re.escape(" ".join(shown.split()).replace("`", "'")).replace("…", ".*")
    assert re.fullmatch(re.sub(r"\d[\d,]*", r"[\\d,]+", pattern), answer), answer


@pytest.mark.airflow(">=3.2")  # Airflow 3.1 raises an ImportError of its own outside of tasks
def test_a_connection_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", raising=False)
    hook: Any = import_string(CONNECTION_TYPES["mediaops_books"]["hook-class-name"])()

    works, answer = hook.test_connection()

    assert not works
    assert answers("Test it")["no connection of this id"].partition("`")[0].strip() in answer
