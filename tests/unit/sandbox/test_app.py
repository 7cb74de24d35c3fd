"""What holds for every address: whose host names it has, how unknown ones are refused, and what the manual shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.unit.sandbox.conftest import Sandbox

PAGE = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text(encoding="utf-8")
CURL = re.compile(r"^\$ curl (-X DELETE )?\"?\$SANDBOX(/_sandbox/[^ \"\n]+)\"?(?: --json '(.+)')?$", re.MULTILINE)


@pytest.mark.parametrize("host", ["127.0.0.1:8900", "localhost:8900", "localhost", "sandbox.test"])
async def test_its_own_host_names_are_served(sandbox: Sandbox, host: str) -> None:
    assert (await sandbox.get("/_sandbox/requests", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("path", ["/_sandbox/requests", "/docs", "/books/pro/key", "/video/oauth2/token"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8900", "127.0.0.1.evil.example", ""])
async def test_other_host_names_are_refused(sandbox: Sandbox, host: str, path: str) -> None:
    assert (await sandbox.get(path, headers={"Host": host})).status_code == 400
    assert not sandbox.state.requests


def _cluster_refusal(reason: str) -> dict[str, Any]:
    cause = {"type": "illegal_argument_exception", "reason": reason}
    return {"error": {"root_cause": [cause], **cause}, "status": 400}


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/books/pro/author/anybody", 404, {"message": "There is no endpoint GET /books/pro/author/anybody."}),
        ("POST", "/books/pro/book/1", 405, {"message": "There is no endpoint POST /books/pro/book/1."}),
        (
            "GET",
            "/video/oauth2/token",
            405,
            {"error": "invalid_request", "error_description": "There is no endpoint GET /video/oauth2/token."},
        ),
        ("GET", "/elsewhere", 404, {"detail": "Not Found"}),
        (
            "GET",
            "/cluster/_cat/nodes",
            400,
            _cluster_refusal("no handler found for uri [/_cat/nodes] and method [GET]"),
        ),
    ],
)
async def test_an_unknown_address_is_refused_as_its_service_refuses(
    sandbox: Sandbox, method: str, path: str, status: int, body: Any
) -> None:
    reply = await sandbox.request(method, path)

    assert (reply.status_code, reply.json()) == (status, body)


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
