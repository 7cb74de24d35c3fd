"""The video platform that tasks ask over their default connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.video_platform import connection

if TYPE_CHECKING:
    from requests_mock import Mocker

BASE = "https://video.example"
ACTIVITIES = f"{BASE}/v3/activities"
SUBSCRIPTIONS = f"{BASE}/v3/subscriptions"


def render(operator: Any, **context: Any) -> None:
    operator.render_template_fields(context)


@pytest.fixture(autouse=True)
def platform(monkeypatch: pytest.MonkeyPatch, requests_mock: Mocker) -> Mocker:
    """Have a platform that answers nothing yet."""
    monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", connection(BASE))
    return requests_mock


@pytest.fixture
def posts(platform: Mocker) -> Mocker:
    """Have a platform that counts its bulletins."""
    platform.post(ACTIVITIES, [{"json": {"id": f"act-{number}", "new": None}} for number in (1, 2, 3)])
    return platform
