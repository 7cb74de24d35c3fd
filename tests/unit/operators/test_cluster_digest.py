"""The operator of a digest: its arguments, its attempts, its end when it is stopped, its lineage."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.digest import attempt as digest_attempt
from airflow_provider_mediaops.cluster.digest.source import read_captures
from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError, TaskStoppedError
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from tests.unit.cluster.digest.captured_days import MONDAY, SEARCH, hot, text_at, write_capture
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.source import FoundCapture


def mapped(index: int) -> Any:
    """Give the context of an instance of a mapped task; -1 for one that is not."""
    return {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=index, max_tries=2)}


CONTEXT = mapped(-1)


def made(**arguments: Any) -> HotThreadsDigestOperator:
    return HotThreadsDigestOperator(**{"task_id": "t", "source": "/in", "destination": "/out/d.html", **arguments})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for number in range(9):
        at = MONDAY + timedelta(hours=number)
        write_capture(tmp_path / "in", at, text_at(at, hot("n", "search", 50, SEARCH)))
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": ""}, r"^source is the path of a file"),
        ({"source": []}, r"^source needs at least one entry.* Give a folder"),
        ({"source": "/"}, r"^source '/' is a whole disk or store"),
        ({"source": ["s3://"]}, r"^source 's3://' is a whole disk or store"),
        ({"destination": "/out/"}, r"^destination is the path of a file"),
        ({"since": "monday"}, r"^since is a datetime, or the text of one"),
        ({"since": "2026-11-16", "until": MONDAY - timedelta(days=7)}, r"^since .* must be before until"),
    ],
)
def test_arguments_that_cannot_be_used_raise_at_parse_time(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        made(**arguments)


@pytest.mark.parametrize("folder", ["", "link/"])
def test_destination_that_turns_out_to_be_the_source_raises(tmp_path: Path, folder: str) -> None:
    task = made(source="{{ x }}", destination=f"{tmp_path}/a.html")
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path)
    task.source = f"{tmp_path}/{folder}a.json"
    with pytest.raises(permanent(InvalidArgumentError), match="is the source, too"):
        task.execute(CONTEXT)


def test_the_period_is_that_of_the_rendered_texts(source: Path, tmp_path: Path) -> None:
    task = made(source=str(source), destination=str(tmp_path / "d.html"))
    task.since, task.until = str(MONDAY + timedelta(hours=4)), f"{MONDAY + timedelta(hours=8):%Y-%m-%dT%H:%M:%SZ}"
    result = task.execute(CONTEXT)
    assert (result["captures"], result["outside"]) == (4, 1)
    assert result["frames"][0]["new"] is False


def test_stopped_task_ends_before_the_next_capture_and_its_next_attempt_begins_anew(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(files: FoundCapture, *arguments: Any) -> Any:
        read.append(files.name)
        if len(read) == 5:
            # Airflow's handler of SIGTERM, which runs between two steps of the task.
            task.on_kill()
        return read_captures(files, *arguments)

    monkeypatch.setattr(digest_attempt, "read_captures", counted)
    task = made(source=str(source), destination=str(tmp_path / "d.html"))
    with pytest.raises(TaskStoppedError):
        task.execute(CONTEXT)
    assert len(read) == 5
    assert not list(tmp_path.glob("d.*"))
    again = made(source=str(source), destination=str(tmp_path / "d.html"))
    result = again.execute(CONTEXT)
    assert result["captures"] == 9
    assert read[5:] == [str(source / f"2026-11-16T0{hour}00.txt") for hour in range(9)]


def test_mapped_task_whose_destination_another_one_has_is_refused(source: Path, tmp_path: Path) -> None:
    for index in (0, 1):
        task = made(source=str(source), destination=str(tmp_path / f"{index}.html"))
        task.execute(mapped(index))
    with pytest.raises(permanent(PermanentError), match=r"0 is the digest of d/r/t/0, .* \{\{ ti\.map_index \}\}"):
        made(source=str(source), destination=str(tmp_path / "0.html")).execute(mapped(1))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("cpu_percent", percent) for percent in (1e308, 1e20, -1e300, float("nan"))),
        *(("snapshots", count) for count in (-5, 10**30)),
    ],
)
def test_figure_that_no_report_can_hold_is_damage_of_its_file_alone(
    source: Path, tmp_path: Path, field: str, value: float
) -> None:
    at = MONDAY + timedelta(days=1)
    text = text_at(at, hot("n", "search", 50, SEARCH))
    file = write_capture(tmp_path / "in", at, text, formats=("json",)).with_suffix(".json")
    document = json.loads(file.read_text())
    thread = document["nodes"][0]["threads"][0]
    part = thread if field in thread else thread["groups"][0]
    part[field] = value
    file.write_text(json.dumps(document))
    result = made(source=str(source), destination=str(tmp_path / "d.html")).execute(CONTEXT)
    assert result["captures"] == 9
    assert [each["file"] for each in result["damaged_files"]] == [str(file)]


def test_the_lineage_is_from_the_captures_to_the_files(source: Path, tmp_path: Path) -> None:
    task = made(source=str(source), destination=str(tmp_path / "d.html"))
    task.execute(CONTEXT)
    lineage = task.get_openlineage_facets_on_complete(None)
    assert lineage is not None
    assert [each.name for each in lineage.inputs] == [str(source)]
    assert [each.name for each in lineage.outputs] == [
        str(tmp_path / f"d.{name}") for name in ("html", "json", "folded")
    ]
