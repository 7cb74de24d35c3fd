"""The results that the guides show have the shape, and where they are fixed the values, of real ones."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from airflow_provider_mediaops.sandbox.cluster.nodes import CpuPin
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
from tests.contract import dag_runs
from tests.unit.cluster.digest.captured_days import MONDAY, write_two_weeks

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = pytest.mark.once

SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"


def shown(name: str) -> Any:
    return json.loads((SNIPPETS / f"{name}.json").read_text(encoding="utf-8"))


def shape(value: Any) -> Any:
    """Return the fields of a value in their order, and the type of each; all numbers are of one type."""
    if isinstance(value, dict):
        return [(name, shape(each)) for name, each in value.items()]
    if isinstance(value, list | tuple):
        return [shape(each) for each in value]
    return "number" if type(value) in (int, float) else type(value).__name__


def assert_is_shown(name: str, real: Any) -> None:
    assert shape(shown(name)) == shape(real), f"{name}.json should be like this:\n{json.dumps(real, indent=2)}"


class TestCluster:
    @pytest.fixture(autouse=True)
    def hot_node(self, sandbox: SandboxServer) -> None:
        for node, percent in (("sandbox-1", 21), ("sandbox-2", 97), ("sandbox-3", 6)):
            sandbox.state.cluster.pin(CpuPin(node=node, percent=percent))

    def test_capture(self, tmp_path: Path) -> None:
        operator = CaptureHotThreadsOperator(
            task_id="capture",
            destination=str(tmp_path / "hot_threads.txt"),
            when_cpu_above=85,
            threads=2,
            interval="10ms",
            deferrable=False,
        )
        result = operator.execute({})
        assert_is_shown("capture_result", result)
        assert {node["node"] for node in result["cpu"]} == {"sandbox-2"}

    def test_sensor(self) -> None:
        assert_is_shown(
            "cpu_sensor_result", ClusterCpuSensor(task_id="wait", threshold=85, poke_interval=1).execute({})
        )

    def test_event(self) -> None:
        async def first() -> Any:
            async with aclosing(HighCpuTrigger(sustained_for=0, poll_interval=1).run()) as events:  # type: ignore[type-var]
                return (await anext(events)).payload

        payload = asyncio.run(asyncio.wait_for(first(), 240))
        assert_is_shown("hot_nodes_event", payload)
        assert [node["name"] for node in payload["nodes"]] == ["sandbox-2"]


def test_digest(tmp_path: Path) -> None:
    write_two_weeks(tmp_path / "hot_threads")
    made = HotThreadsDigestOperator(
        task_id="digest",
        source=str(tmp_path / "hot_threads"),
        since=MONDAY,
        until=MONDAY + timedelta(days=7),
        destination=str(tmp_path / "weeks" / "2026-11-23.html"),
    )
    text = (SNIPPETS / "hot_threads_digest_result.json").read_text()
    for folder in ("s3://aws_default@reports", "s3://reports"):
        text = text.replace(folder, str(tmp_path))
    assert made.execute({}) == json.loads(text)


class TestVideo:
    @pytest.mark.usefixtures("airflow_db")
    def test_tasks_and_how_one_uses_another(self, sandbox: SandboxServer, tmp_path: Path) -> None:
        run = dag_runs.run_file(Path(__file__).with_name("subscriptions_dag.py"), folder=tmp_path.as_uri())

        assert run.state == "success"
        with create_session() as session:
            (event,) = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id))
            assert event.extra == {name: value for name, value in run.values["export"].items() if name in event.extra}
            assert {"path", "rows", "bytes", "complete"} <= set(event.extra)
            keys = session.scalars(select(XComModel.key).where(XComModel.run_id == run.run_id))
            # One for each task, and none for each value of a result; others are Airflow's own, for the task's links.
            assert {key for key in keys if not key.startswith("_link_")} == {"return_value"}
        assert_is_shown("subscription_sensor_result", run.values["wait"])
        assert_is_shown("export_result", run.values["export"])
        # What one task returned was used by the next.
        assert [bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins] == [
            f"We follow {run.values['export']['rows']} channels now."
        ]

    @pytest.mark.usefixtures("sandbox")
    def test_bulletin(self) -> None:
        made = PostBulletinOperator(task_id="post", text="New in the catalogue", video_id="sandbox-video-1")
        activity = made.execute({})
        assert_is_shown("bulletin_result", activity)
        assert shown("bulletin_result")["snippet"]["description"] == activity["snippet"]["description"]

    @pytest.mark.usefixtures("sandbox")
    def test_line_of_an_export(self, tmp_path: Path) -> None:
        file = tmp_path / "subscriptions.jsonl"
        ExportSubscriptionsOperator(task_id="export", destination=str(file), mine=True).execute({})
        records = {record["id"]: record for record in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
        record = records[shown("subscription_record")["id"]]
        assert_is_shown("subscription_record", record)
        assert record["snippet"]["title"] == shown("subscription_record")["snippet"]["title"]


@pytest.mark.usefixtures("sandbox")
class TestBooks:
    def test_enrichment(self, tmp_path: Path) -> None:
        first, second = sample_isbns(2)
        isbns = [first, second, first, "9791090648524", "no ISBN"]
        summary = EnrichIsbnsOperator(task_id="enrich", isbns=isbns, destination=str(tmp_path / "books.jsonl")).execute(
            {}
        )
        assert_is_shown("enrichment_result", summary)
        varies = {"path": "", "requests": 0, "rows_per_second": 0, "bytes": 0}
        assert {**shown("enrichment_result"), **varies} == {**summary, **varies}

    def test_row_of_an_enrichment_and_record_of_the_sensor(self, tmp_path: Path) -> None:
        row, source, file = shown("enrichment_row"), tmp_path / "source.csv", tmp_path / "books.jsonl"
        source.write_text(f"isbn,sku,price\n{row['input']},{row['source']['sku']},{row['source']['price']}\n")
        EnrichIsbnsOperator(task_id="enrich", source=str(source), destination=str(file)).execute({})
        real = json.loads(file.read_text())
        assert_is_shown("enrichment_row", real)
        assert {**real, "fetched_at": row["fetched_at"]} == row
        record = BookSensor(task_id="wait", isbn="978-0-14-044913-6").execute({})
        assert record == shown("book_sensor_result")
