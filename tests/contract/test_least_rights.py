"""The credentials that docs/security.md calls the least are enough."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import AuthenticationError, PermissionDeniedError
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sandbox import video
from airflow_provider_mediaops.sensors.video import SubscriptionSensor
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer

CHANNEL = "UCsandbox-few"


@pytest.fixture
def connect(sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    def connected(auth: str, password: str) -> None:
        extra = {"auth": auth, "kind_prefix": sandbox.state.settings.kind_prefix}
        monkeypatch.setenv(
            "AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT",
            json.dumps(
                {"conn_type": "mediaops_video", "host": f"{sandbox.url}/video", "password": password, "extra": extra}
            ),
        )

    return connected


def export(folder: Path, **whose: Any) -> dict[str, Any]:
    task = ExportSubscriptionsOperator(task_id="export", destination=str(folder / "export.jsonl"), **whose)
    summary: dict[str, Any] = task.execute({})
    return summary


def test_a_scope_that_only_reads_is_enough_to_read_and_cannot_post(connect: Any, tmp_path: Path) -> None:
    connect("bearer", video.READ_ONLY_TOKEN)
    assert export(tmp_path, mine=True)["rows"] == 120
    assert SubscriptionSensor(task_id="wait", mine=True).execute({})
    with pytest.raises(permanent(PermissionDeniedError), match="insufficientPermissions"):
        PostBulletinOperator(task_id="post", text="Hello").execute({})


def test_public_data_need_no_user(connect: Any, tmp_path: Path) -> None:
    connect("api_key", video.API_KEY)
    assert "rows" in export(tmp_path, channel_id=CHANNEL)
    with pytest.raises(permanent(AuthenticationError)):
        export(tmp_path, mine=True)
    with pytest.raises(permanent(AuthenticationError)):
        PostBulletinOperator(task_id="post", text="Hello").execute({})
