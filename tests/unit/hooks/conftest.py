"""The default connection of the video platform, set by a test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.hooks.video_hook import BASE
from tests.unit.video_platform import connection

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def connect_video(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the default connection."""

    def set_connection(host: str = BASE, *, login: str = "", **fields: Any) -> None:
        value = {**json.loads(connection(host, **fields)), "login": login}
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", json.dumps(value))

    set_connection()
    return set_connection
