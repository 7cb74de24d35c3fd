"""What Airflow knows of what the tasks of a run have read and written: by asset events, links and OpenLineage."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.sandbox.server import SandboxServer
from tests.contract import fresh_python, lineage_run

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SECRET = lineage_run.USERINFO.partition(":")[2]


class Ended:
    """A run that has ended.

    :param folder: where its tasks wrote.
    :param known: what it wrote down.
    :param log: its log, the events of OpenLineage included.
    """

    def __init__(self, folder: Path, known: dict[str, Any], log: str) -> None:
        self.folder = folder
        self.run_id: str = known["run_id"]
        self.tasks: dict[str, str] = known["tasks"]
        self.events: list[tuple[str, int, str, dict[str, Any]]] = known["events"]
        self.links: dict[str, str] = known["links"]
        self.lineage: list[dict[str, Any]] = [json.loads(text) for text in re.findall(r'\{"eventTime".*\}', log)]

    def extra_of(self, task: str, uri: str) -> Any:
        """Return the extra of the event that a task has made of an asset."""
        [extra] = [extra for task_id, _, asset, extra in self.events if (task_id, asset) == (task, uri)]
        return extra

    def openlineage_event(self, task: str, kind: str) -> dict[str, Any]:
        """Return the event of a task that OpenLineage got."""
        [event] = [e for e in self.lineage if (e["job"]["name"], e["eventType"]) == (f"lineage.{task}", kind)]
        return event


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, airflow_db: Path) -> Ended:
    """Run the DAG once, in a process whose Airflow sends OpenLineage's events to its console."""
    assert airflow_db.exists()
    folder = tmp_path_factory.mktemp("lineage")
    with SandboxServer() as server:
        env = {
            **server.connections(),
            "PYTHONPATH": str(ROOT),
            "AIRFLOW__OPENLINEAGE__TRANSPORT": '{"type": "console"}',
            # On a busy machine an event takes its time.
            "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "120",
        }
        done = fresh_python.run("-m", "tests.contract.lineage_run", str(folder), env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    # Airflow 3.1 has the log in the one, later versions in the other.
    return Ended(folder, json.loads((folder / lineage_run.KNOWN).read_text()), done.stdout + done.stderr)


def names(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(dataset["namespace"], dataset["name"]) for dataset in datasets]


def test_the_tasks_end_as_they_are_meant_to(ended: Ended) -> None:
    assert ended.tasks == {
        "post": "success",
        "export": "success",
        "enrich[0]": "success",
        "enrich[1]": "success",
        "capture": "success",
        "fail": "failed",
    }


class TestAssetEvents:
    def test_each_outlet_says_what_was_written(self, ended: Ended) -> None:
        assert ended.extra_of("post", "bulletins")["id"]
        hot = ended.extra_of("capture", "hot_threads")
        assert (hot["path"], hot["complete"], hot["captures"]) == (f"{ended.folder}/hot.txt", True, 1)
        assert hot["hottest"]["node"].startswith("sandbox-")
        export = ended.extra_of("export", "subscriptions")
        assert export["path"] == f"{ended.folder}/export.parquet"
        assert export["bytes"] == (ended.folder / "export.parquet").stat().st_size
        assert export["rows"] > 0
        assert export["complete"] is True

    def test_an_alias_has_the_asset_that_a_template_named(self, ended: Ended) -> None:
        uri = (ended.folder / "export.parquet").as_uri()
        assert ended.extra_of("export", uri) == ended.extra_of("export", "subscriptions")

    def test_each_instance_of_a_mapped_task_that_was_deferred_has_its_own(self, ended: Ended) -> None:
        for name in "ab":
            file = ended.folder / f"{name}.csv"
            extra = ended.extra_of("enrich", file.as_uri())
            assert (extra["path"], extra["bytes"]) == (str(file), file.stat().st_size)
            assert (extra["rows"], extra["found"], extra["invalid"], extra["complete"]) == (2, 1, 1, True)


class TestOpenLineage:
    def test_the_console_shows_what_an_export_has_read_and_written(self, ended: Ended) -> None:
        event = ended.openlineage_event("export", "COMPLETE")
        assert names(event["inputs"]) == [("mediaops-video://mediaops_video_default", "subscriptions/mine")]
        assert names(event["outputs"]) == [("file", f"{ended.folder}/export.parquet")]
        (output,) = event["outputs"]
        statistics = output["outputFacets"]["outputStatistics"]
        extra = ended.extra_of("export", "subscriptions")
        assert (statistics["rowCount"], statistics["size"]) == (extra["rows"], extra["bytes"])
        fields = [(field["name"], field["type"]) for field in output["facets"]["schema"]["fields"]]
        assert (fields[0], fields[-1]) == (("id", "string"), ("record", "string"))

    def test_each_instance_of_a_mapped_task_that_was_deferred_is_reported(self, ended: Ended) -> None:
        events = [e for e in ended.lineage if (e["job"]["name"], e["eventType"]) == ("lineage.enrich", "COMPLETE")]
        assert sorted(name for event in events for name in names(event["outputs"])) == [
            ("file", f"{ended.folder}/{name}.csv") for name in "ab"
        ]
        for event in events:
            assert names(event["inputs"]) == [
                ("file", f"{ended.folder}/list.csv"),
                ("mediaops-books://mediaops_books_default", "books"),
            ]
            assert event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 2

    def test_a_failed_task_has_written_nothing(self, ended: Ended) -> None:
        event = ended.openlineage_event("fail", "FAIL")
        assert names(event["inputs"]) == [("mediaops-video://there_is_none", "subscriptions/mine")]
        assert event["outputs"] == []


def test_nothing_of_a_connection_is_in_events_and_links(ended: Ended) -> None:
    assert SECRET not in json.dumps([ended.events, ended.links, ended.lineage])
