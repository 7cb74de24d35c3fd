"""docs/sandbox.md agrees with the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from airflow_provider_mediaops.sandbox.books import plans
from airflow_provider_mediaops.sandbox.books.catalogue import FORMS
from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.cluster.dialects import DialectName
from airflow_provider_mediaops.sandbox.faults import Fault
from airflow_provider_mediaops.sandbox.state import Settings
from airflow_provider_mediaops.sandbox.video import bulletins, subscriptions, tokens
from airflow_provider_mediaops.sandbox.video.parameters import CommonParameters
from scripts.generated_docs import filled
from tests.unit.sandbox.credentials import OPERATOR

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox

PAGE = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text(encoding="utf-8")
CURL = re.compile(r"^\$ curl (-X DELETE )?\"?\$SANDBOX(/_sandbox/[^ \"\n]+)\"?(?: --json '(.+)')?$", re.MULTILINE)
DIALECTS = list(get_args(DialectName))
#: How each dialect answers a request, with a login or without: the status, and the kind of the body.
ANSWERS: dict[tuple[str, str, bool], tuple[str, str, str]] = {
    ("GET", "/_nodes/hot_threads?type=bogus", False): ("400 JSON", "200 empty", "400 JSON"),
    ("GET", "/_nodes/hot_threads?threads=-1", False): ("400 JSON", "200 empty", "200 empty"),
    ("GET", "/_nodes/hot_threads?snapshots=0", False): ("400 JSON", "200 report", "200 empty"),
    ("GET", "/_nodes/hot_threads?interval=0", False): ("400 JSON", "200 report", "200 report"),
    ("GET", "/_nodes/hot_threads?timeout=1ms", False): ("503 JSON", "200 empty", "200 empty"),
    ("GET", "/_nodes/hot_threads?master_timeout=30s", False): ("200 report", "400 JSON", "400 JSON"),
    ("GET", "/_nodes/hot_threads?type=mem", False): ("400 JSON", "200 empty", "200 report"),
    ("GET", "/_nodes/hot_threads?sort=cpu", False): ("400 JSON", "400 JSON", "200 report"),
    ("GET", "/_nodes/hot_threads?pretty&human&error_trace&format=json&filter_path=x", False): (
        "400 JSON",
        "200 report",
        "200 report",
    ),
    ("GET", "/_nodes/_all,data:false/hot_threads", False): ("200 empty", "200 empty", "200 empty"),
    ("GET", "/_nodes/_cluster_manager/hot_threads", False): ("200 report", "200 report", "200 empty"),
    ("GET", "/_nodes/stats", False): ("200 JSON", "200 JSON", "200 JSON"),
    ("GET", "/_nodes/stats/jvm", False): ("200 JSON", "200 JSON", "200 JSON"),
    ("GET", "/_nodes/stats?groups=search", False): ("400 JSON", "200 JSON", "200 JSON"),
    ("GET", "/_nodes/hot_threads", True): ("401 JSON", "401 text", "401 JSON"),
    ("GET", "/no/such/route", True): ("401 JSON", "400 JSON", "401 JSON"),
    ("GET", "/no/such/route", False): ("400 JSON", "400 JSON", "400 JSON"),
    ("POST", "/_nodes/hot_threads", False): ("405 JSON", "405 JSON", "405 JSON"),
    ("HEAD", "/", False): ("200 empty", "200 empty", "200 empty"),
    ("HEAD", "/_nodes/stats", False): ("405 empty", "405 empty", "405 empty"),
}


async def test_every_command_on_the_page_works(sandbox: Sandbox) -> None:
    commands = CURL.findall(PAGE)
    assert len(commands) == PAGE.count("$ curl ")

    for delete, address, body in commands:
        if delete:
            reply = await sandbox.delete(address)
        elif body:
            reply = await sandbox.post(address, json=json.loads(body))
        else:
            reply = await sandbox.get(address)
        assert reply.is_success, (address, body, reply.text)


def test_every_kind_of_fault_is_on_the_page() -> None:
    shown = {json.loads(body).get("kind") for _, _, body in CURL.findall(PAGE) if body}

    assert shown >= {kind.model_fields["kind"].default for kind in Fault.__args__}


def test_every_setting_is_on_the_page_with_its_default() -> None:
    rows = filled("<!-- sandbox: options -->")

    assert "<!-- sandbox: options -->" in PAGE
    for name, field in Settings.model_fields.items():
        assert f"| `--{name.replace('_', '-')}` | {field.description} | `{field.default}` |" in rows


def test_the_shares_of_odd_fields_are_on_the_page() -> None:
    rows = filled("<!-- sandbox: forms -->")

    assert "<!-- sandbox: forms -->" in PAGE
    assert "| `title` | text 99, text that ends with a NUL byte 1 |" in rows
    assert rows.count("\n| `") == len(FORMS)


def test_the_common_parameters_are_on_the_page() -> None:
    assert [field.alias for field in CommonParameters.model_fields.values() if f"`{field.alias}`" not in PAGE] == []


def test_credentials_and_data_on_the_page_are_the_sandbox_s() -> None:
    names = [
        tokens.BEARER_TOKEN,
        tokens.READ_ONLY_TOKEN,
        tokens.CLIENT_ID,
        tokens.CLIENT_SECRET,
        tokens.REFRESH_TOKEN,
        tokens.API_KEY,
        cluster.LOGIN,
        cluster.PASSWORD,
        cluster.BEARER_TOKEN,
        cluster.GUEST_LOGIN,
        cluster.GUEST_PASSWORD,
        plans.INACTIVE_KEY,
        *(plan.key for plan in plans.PLANS),
        *(plan.root for plan in plans.PLANS),
        subscriptions.MINE,
        subscriptions.FEW,
        subscriptions.NONE,
        *subscriptions.WITHHELD,
        *subscriptions.WITHHELD.values(),
        bulletins.VIDEOS[0],
        bulletins.PLAYLISTS[0],
    ]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def outcome(reply: httpx.Response) -> str:
    """Describe a reply of the cluster in the words of the table."""
    kind = "JSON" if "json" in reply.headers["Content-Type"] else "report" if reply.text.startswith("::: ") else "text"
    return f"{reply.status_code} {kind if reply.content else 'empty'}"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_dialect_answers_as_its_product_does(make_sandbox: type[Sandbox], dialect: str) -> None:
    sandbox = make_sandbox(cluster_dialect=dialect)
    found = {}
    for method, path, nobody in ANSWERS:
        login = None if nobody else OPERATOR
        found[method, path, nobody] = outcome(await sandbox.request(method, f"/cluster{path}", auth=login))

    assert found == {request: answers[DIALECTS.index(dialect)] for request, answers in ANSWERS.items()}
