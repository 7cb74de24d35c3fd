"""What holds for every address: whose host names it has, its manual, and how unknown ones are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_provider_mediaops.sandbox.app import create_app
from airflow_provider_mediaops.sandbox.faults import Fault
from airflow_provider_mediaops.sandbox.state import SandboxState

if TYPE_CHECKING:
    from tests.unit.sandbox.conftest import Sandbox


@pytest.mark.parametrize("host", ["127.0.0.1:8900", "localhost:8900", "localhost", "sandbox.test"])
async def test_its_own_host_names_are_served(sandbox: Sandbox, host: str) -> None:
    assert (await sandbox.get("/_sandbox/requests", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("path", ["/_sandbox/requests", "/docs", "/books/pro/key", "/video/oauth2/token"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8900", "127.0.0.1.evil.example", ""])
async def test_other_host_names_are_refused(sandbox: Sandbox, host: str, path: str) -> None:
    assert (await sandbox.get(path, headers={"Host": host})).status_code == 400
    assert not sandbox.state.requests


async def test_the_manual_describes_every_parameter_and_fault(sandbox: Sandbox) -> None:
    described = (await sandbox.get("/openapi.json")).json()

    assert "/openapi.json" in (await sandbox.get("/docs")).text
    hot_threads = described["paths"]["/cluster/_nodes/{node_list}/hot_threads"]["get"]["parameters"]
    assert {parameter["name"] for parameter in hot_threads} == {
        *("node_list", "ignore_idle_threads", "interval", "snapshots", "threads", "master_timeout", "timeout", "type")
    }
    assert {kind.__name__ for kind in Fault.__args__} <= described["components"]["schemas"].keys()


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


async def test_the_name_on_which_it_listens_is_its_own() -> None:
    transport = httpx.ASGITransport(create_app(SandboxState(), host="media.example"))
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.get("http://media.example:8900/docs")).status_code == 200
