"""What unit tests of hooks and of what uses them share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.memory_rates import forget_rates


class Supervisor:
    """The process that a task asks for what it needs; this one knows of no connection beyond the environment."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def connect(self, conn_id: str, connection: str) -> None:
        """Put a connection into the environment, until the test is over."""
        self._patch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", connection)

    def send(self, msg: Any) -> Any:
        from airflow.sdk.exceptions import ErrorType
        from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection

        if isinstance(msg, GetConnection):
            return ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND, detail={"conn_id": msg.conn_id})
        return None

    async def asend(self, msg: Any) -> Any:
        return self.send(msg)


@pytest.fixture(autouse=True)
def new_rates() -> Iterator[None]:
    """Have no limit or spent quota of one test hold for the next that uses the same key."""
    yield
    forget_rates()


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """Run as within a task: connections come from the environment, and those not in it do not exist."""
    stand_in = Supervisor(monkeypatch)
    monkeypatch.setattr("airflow.sdk.execution_time.task_runner.SUPERVISOR_COMMS", stand_in, raising=False)
    return stand_in
