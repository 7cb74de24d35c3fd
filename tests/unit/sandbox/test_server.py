"""The sandbox as a server: real connections, dropped ones among them, and the command that starts it."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from airflow_provider_mediaops.sandbox import video
from airflow_provider_mediaops.sandbox.__main__ import main
from airflow_provider_mediaops.sandbox.faults import DropFault
from airflow_provider_mediaops.sandbox.server import SandboxServer
from scripts.processes import free_port
from tests.unit.sandbox.credentials import OPERATOR

COMMAND = [sys.executable, "-m", "airflow_provider_mediaops.sandbox", "--port", "0"]


@pytest.fixture
def server() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


@pytest.fixture
def client(server: SandboxServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as client:
        yield client


def post_bulletin(client: httpx.Client) -> httpx.Response:
    return client.post(
        "/video/v3/activities",
        params={"part": "snippet"},
        json={"snippet": {"description": "x"}},
        headers={"Authorization": f"Bearer {video.BEARER_TOKEN}"},
    )


def test_sandbox_answers_on_a_free_port_and_stops(server: SandboxServer, client: httpx.Client) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert client.get("/cluster/", auth=OPERATOR).status_code == 200

    # A port that the system chooses may belong to the next server as soon as this one stops.
    with SandboxServer(port=free_port()) as another:
        assert another.url != server.url
        gone = another.url
    with pytest.raises(httpx.ConnectError):
        httpx.get(gone, trust_env=False)


def test_a_taken_port_is_an_error(server: SandboxServer) -> None:
    port = int(server.url.rpartition(":")[2])

    with pytest.raises(OSError, match="in use"), SandboxServer(port=port):
        pytest.fail("It must not start.")


@pytest.mark.parametrize(
    ("point", "posted", "status"), [("before_work", 0, None), ("before_reply", 1, None), ("mid_body", 1, 200)]
)
def test_a_connection_is_dropped_before_or_after_the_work(
    server: SandboxServer, client: httpx.Client, point: Any, posted: int, status: int | None
) -> None:
    server.state.faults.arm(DropFault(service="video", point=point))
    server.state.faults.arm(DropFault(service="cluster", point=point))

    # A connection that is closed while the body is still coming in is reset.
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        post_bulletin(client)
    # Its reply is empty.
    with pytest.raises(httpx.RemoteProtocolError):
        client.get("/cluster/_nodes/nobody/hot_threads", auth=OPERATOR)
    assert len(server.state.bulletins) == posted
    assert [(record.status, record.fault) for record in server.state.requests] == [(status, "drop")] * 2
    assert post_bulletin(client).status_code == 200


@pytest.mark.long
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_the_connections_and_runs_until_it_is_stopped(stop: signal.Signals) -> None:
    command = [*COMMAND, "--subscriptions", "3", "--video-auth", "api_key"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [shlex.split(process.stdout.readline()) for _ in range(3)]
            assert [line[0] for line in lines] == ["export"] * 3
            variables = dict(line[1].split("=", 1) for line in lines)
            video = json.loads(variables["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"])
            reply = httpx.get(
                f"{video['host']}/v3/subscriptions",
                params={"part": "id", "channelId": "UCsandbox-mine", "key": video["password"]},
                timeout=120,
                trust_env=False,
            )
            assert reply.json()["pageInfo"]["totalResults"] == 3
            process.send_signal(stop)
            rest, messages = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0
    assert rest == ""
    assert messages.startswith("The sandbox's manual is at http://127.0.0.1:")
    assert "Traceback" not in messages


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--subscriptions", "many"], "--subscriptions: Input should be a valid integer"),
        (["--cpu-cycle", "0"], "--cpu-cycle: Input should be greater than 0"),
        (["--video-auth", "magic"], "--video-auth"),
    ],
)
def test_a_wrong_option_is_explained(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)

    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_the_command_says_that_the_port_is_taken(server: SandboxServer, capsys: pytest.CaptureFixture[str]) -> None:
    port = server.url.rpartition(":")[2]

    assert main(["--port", port]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"port {port}" in shown.err
    assert "Choose another --port" in shown.err


@pytest.mark.long
def test_sandbox_stands_apart_from_the_provider_and_its_clients() -> None:
    program = (
        "import sys, airflow_provider_mediaops.sandbox.__main__; "
        "print(*[n for n in sys.modules if n.split('.')[0] in ('airflow', 'requests', 'httpx') "
        "or n.startswith('airflow_provider_mediaops.') and not n.startswith('airflow_provider_mediaops.sandbox')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout.split() == []
