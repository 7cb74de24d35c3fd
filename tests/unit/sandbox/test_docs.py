"""docs/sandbox.md agrees with the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.sandbox.books import routes as books
from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.faults import Fault
from airflow_provider_mediaops.sandbox.video import bulletins, subscriptions, tokens

if TYPE_CHECKING:
    from tests.unit.sandbox.conftest import Sandbox

PAGE = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text(encoding="utf-8")
CURL = re.compile(r"^\$ curl (-X DELETE )?\"?\$SANDBOX(/_sandbox/[^ \"\n]+)\"?(?: --json '(.+)')?$", re.MULTILINE)


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


def test_settings_and_oddities_of_books_are_on_the_page() -> None:
    """The comments are filled when the pages are built."""
    assert PAGE.count("<!-- sandbox: options -->") == PAGE.count("<!-- sandbox: oddities -->") == 1


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
        books.INACTIVE_KEY,
        *(plan.key for plan in books.PLANS),
        *(plan.root for plan in books.PLANS),
        subscriptions.MINE,
        subscriptions.FEW,
        subscriptions.NONE,
        *subscriptions.WITHHELD,
        *subscriptions.WITHHELD.values(),
        bulletins.VIDEOS[0],
        bulletins.PLAYLISTS[0],
    ]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
