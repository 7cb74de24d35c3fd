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
from tests.unit.sandbox.credentials import OPERATOR

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox

PAGE = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text(encoding="utf-8")
CURL = re.compile(r"^\$ curl (-X DELETE )?\"?\$SANDBOX(/_sandbox/[^ \"\n]+)\"?(?: --json '(.+)')?$", re.MULTILINE)
DIALECTS = list(get_args(DialectName))
REQUEST = re.compile(r"^\| `(\w+) (/\S*)`( without a login)? \|(.+)\|$", re.MULTILINE)


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
    for name, field in Settings.model_fields.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `--{name.replace('_', '-')}`"))
        shown = row.rstrip("| ").rpartition("| ")[2].strip("` ")
        assert shown in (str(field.default), f"{field.default:g}" if isinstance(field.default, float) else None)


def table(head: str) -> list[list[str]]:
    """Return the cells of the table with this head, row by row."""
    rows = PAGE.partition(f"{head}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_shares_of_odd_fields_are_on_the_page() -> None:
    shown = {field.strip("`"): forms for field, forms in table("| field | forms, with their share in percent |")}

    assert shown == {
        field: ", ".join(f"{form} {share}" for form, share in forms.items()) for field, forms in FORMS.items()
    }


def test_the_common_parameters_are_on_the_page() -> None:
    named = {name for names, _ in table("| parameter | in the sandbox |") for name in re.findall("`([^`]+)`", names)}

    assert named == {field.alias for field in CommonParameters.model_fields.values()}


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
    """Describe a reply of the cluster in the words of the page's table."""
    kind = "JSON" if "json" in reply.headers["Content-Type"] else "report" if reply.text.startswith("::: ") else "text"
    return f"{reply.status_code} {kind if reply.content else 'empty'}"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_dialect_answers_as_the_table_says(make_sandbox: type[Sandbox], dialect: str) -> None:
    sandbox = make_sandbox(cluster_dialect=dialect)
    shown, found = {}, {}
    for method, path, nobody, cells in REQUEST.findall(PAGE):
        login = None if nobody else OPERATOR
        reply = await sandbox.request(method, f"/cluster{path}", auth=login)
        found[method, path, nobody] = outcome(reply)
        shown[method, path, nobody] = cells.split("|")[DIALECTS.index(dialect)].strip()

    assert found == shown
    assert len(found) == 20
