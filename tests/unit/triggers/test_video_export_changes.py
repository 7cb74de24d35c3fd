"""An export with changes in the triggerer: the second look, its resumption, and the task that is skipped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.triggers.deferral import done_event
from airflow_provider_mediaops.version_compat import AirflowSkipException
from tests.unit.triggers.exports import OWNER, exported, platform, refusal, trigger  # noqa: F401  fixtures
from tests.unit.video_platform import page_reply

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
    from tests.unit.triggers.exports import Platform


def of_run(folder: Path, run: str) -> ExportSubscriptionsTrigger:
    owner = {"task": f"dag/{run}/export/-1", "parameters": OWNER.parameters}
    return trigger(folder, owner=owner, changes=f"{folder}/c.jsonl")


def rows(folder: Path) -> list[tuple[str, str]]:
    return [(row["change"], row["id"]) for row in map(json.loads, (folder / "c.jsonl").read_text().splitlines())]


def test_the_second_look_is_resumed_after_a_wait(tmp_path: Path, platform: Platform) -> None:  # noqa: F811
    platform.replies = [page_reply(1, 2, 3)]
    assert exported(of_run(tmp_path, "one"))["compared"] is False
    # The quota is spent at the second look, and is waited for.
    platform.replies = [page_reply(1, 4), refusal(403, "quotaExceeded"), page_reply(3)]

    summary = exported(of_run(tmp_path, "two"))

    assert rows(tmp_path) == [("removed", "sub-2"), ("added", "sub-4")]
    assert (summary["recovered"], summary["rows"], summary["resumed"]) == (1, 3, True)
    assert summary["changes"] == f"{tmp_path}/c.jsonl"


@pytest.mark.parametrize(("changed", "is_skipped"), [(0, True), (1, False)])
def test_the_task_is_skipped_when_it_resumes(tmp_path: Path, *, changed: int, is_skipped: bool) -> None:
    counts = {"compared": True, "added": 0, "removed": 0, "changed_records": changed}
    event: Any = done_event({"path": "p", "rows": 1, **counts})
    operator = ExportSubscriptionsOperator(
        task_id="export", destination=f"{tmp_path}/d.csv", mine=True, changes=f"{tmp_path}/c.jsonl", on_unchanged="skip"
    )
    if is_skipped:
        with pytest.raises(AirflowSkipException):
            operator.execute_complete({}, event)
    else:
        assert operator.execute_complete({}, event)["changed_records"] == 1
