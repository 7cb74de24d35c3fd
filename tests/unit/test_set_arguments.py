"""A set in the place of a list: each argument takes it, and sorts it, so that every try sees the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
from tests.unit.operators.enrichment import database as database  # noqa: PLC0414 a fixture
from tests.unit.operators.enrichment import json_rows, make

pytestmark = pytest.mark.usefixtures("supervisor")

#: In no order; a hash seed gives it one of 120.
ISBNS = {"e", "d", "c", "b", "a"}


def test_enrichment_of_a_set_has_its_rows_sorted(tmp_path: Path) -> None:
    make(tmp_path / "books.jsonl", isbns=ISBNS).execute({})

    assert [row["input"] for row in json_rows(tmp_path / "books.jsonl")] == sorted(ISBNS)


def test_hook_looks_up_a_set_sorted() -> None:
    with BookDatabaseHook() as hook:
        assert [each.input for each in hook.books(ISBNS)] == sorted(ISBNS)


def test_event_trigger_serializes_a_set_of_nodes_sorted() -> None:
    # Airflow identifies the trigger by a hash of its arguments.
    assert HighCpuTrigger(nodes={"c", "a", "b"}).serialize()[1]["nodes"] == ["a", "b", "c"]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [set, frozenset])
def test_each_list_of_a_task_can_be_a_set(tmp_path: Path, kind: type) -> None:
    both: Any = kind(("b", "a"))
    formats: Any = kind(("txt", "json"))
    CaptureHotThreadsOperator(task_id="t", destination=f"{tmp_path}/a.txt", nodes=both, formats=formats)
    ClusterCpuSensor(task_id="t", nodes=both)
    ExportSubscriptionsOperator(task_id="t", destination=f"{tmp_path}/a.jsonl", ids=both, for_channel_ids=both)
    digest = HotThreadsDigestOperator(task_id="t", source=kind((tmp_path / "b", "/a")), destination="/c.html")
    assert digest.source == ["/a", f"{tmp_path}/b"]
    enrich = make(tmp_path / "books.jsonl", isbns="1", reuse=kind((tmp_path / "b.jsonl", "/a.jsonl")))
    assert enrich.reuse == ["/a.jsonl", f"{tmp_path}/b.jsonl"]
