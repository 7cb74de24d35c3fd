"""The credentials that docs/security.md calls the least are enough, and no file that a task writes holds one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import AuthenticationError, PermissionDeniedError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sandbox import video
from airflow_provider_mediaops.sandbox.books import sample_isbns
from airflow_provider_mediaops.sensors.video import SubscriptionSensor
from tests.system.connections import SECRETS
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


@pytest.mark.long
def test_no_file_of_a_task_holds_a_credential(sandbox: SandboxServer, tmp_path: Path) -> None:
    export(tmp_path, mine=True)
    EnrichIsbnsOperator(task_id="enrich", isbns=sample_isbns(3), destination=str(tmp_path / "books.csv")).execute({})
    CaptureHotThreadsOperator(task_id="capture", destination=str(tmp_path / "hot.txt"), interval="10ms").execute({})

    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"export.jsonl", "books.csv", "hot.txt", "hot.json", "hot.folded", "hot.html"} < files.keys()
    assert len(files) > 7, "what is in the hidden folders is looked at, too"
    for secret in SECRETS:
        assert [name for name, content in files.items() if secret.encode() in content] == []
    assert sandbox.state.requests
