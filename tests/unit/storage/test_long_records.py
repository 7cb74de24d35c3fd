"""Records of any length that can be written: they can be read again, and others are refused."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage import formats, sources
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.files import path_of
from airflow_provider_mediaops.storage.formats import FlatView, json_line
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.storage.source_file import DATASET

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from airflow_provider_mediaops.storage.formats import Format

OWNER = Owner("dag/run/task/-1", "parameters")
LIMIT = 10_000


def flatten(record: Mapping[str, Any]) -> dict[str, object]:
    """Return a field as a column, and the whole record as JSON, as the views of the package do."""
    value = record["value"]
    text = value if isinstance(value, str) else "; ".join(map(str, value))
    return {"value": text, "record": json_line(record).decode()}


VIEW = FlatView(columns={"value": str, "record": str}, flatten=flatten)


@pytest.fixture
def short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lines have 10,000 bytes, and the files of datasets what follows from that."""
    factor = DATASET.max_row_bytes // formats.MAX_LINE_BYTES
    monkeypatch.setattr(formats, "MAX_LINE_BYTES", LIMIT)
    monkeypatch.setattr(sources, "DATASET", dataclasses.replace(DATASET, max_row_bytes=factor * LIMIT))


def longest(value: str | list[Any]) -> dict[str, Any]:
    """Return the longest record of such values that can be written."""
    count = (LIMIT - 20) // (len(json_line(value)) + 1)
    while len(json_line({"value": value * (count + 1)})) <= LIMIT:
        count += 1
    return {"value": value * count}


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("value", ["x", '"', "\n", '","\n', "\1", "ä", "\ud800", [1e16], ["", '"'], [1]], ids=ascii)
def test_the_longest_record_is_read_again(tmp_path: Path, format: Format, value: Any) -> None:
    record = longest(value)
    with Dataset(str(tmp_path / "d"), view=VIEW, format=format).staging(OWNER) as staging:
        staging.commit([record, {"value": "next"}], None)

    read = list(map(json.loads, sources.read_records(path_of(str(tmp_path / "d")), format)))

    assert read == [record, {"value": "next"}]


@pytest.mark.usefixtures("short_lines")
def test_a_longer_one_is_refused_and_what_was_committed_stays(tmp_path: Path) -> None:
    dataset = Dataset(str(tmp_path / "d.jsonl"), view=VIEW)
    short, too_long = {"value": "x" * (LIMIT // 2)}, {"value": "x" * LIMIT}
    with dataset.staging(OWNER) as staging:
        staging.commit([short, short, short], 1)
        with pytest.raises(
            PermanentError, match=r"^A row of the dataset has 10,012 bytes as JSON, and one of more than"
        ):
            staging.commit([short, too_long], 2)

        assert (staging.rows, staging.state) == (3, 1)


def test_a_file_without_lines_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "DATASET", dataclasses.replace(DATASET, max_row_bytes=1 << 20))
    (tmp_path / "d.jsonl").write_bytes(b"x" * (3 << 20))

    with pytest.raises(
        ValueError, match=r"^dataset \S+d\.jsonl: the next line is longer than 1 MB, so it is no dataset"
    ):
        list(sources.read_records(path_of(str(tmp_path / "d.jsonl")), "jsonl"))
