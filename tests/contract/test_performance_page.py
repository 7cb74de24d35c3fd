"""docs/performance.md and docs/figures.md get the recorded figures each time that they are built."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from scripts.generated_docs import filled
from tests.benchmarks.results import GLANCE, PAGE, RECORDED, Limit, Row, glance
from tests.contract.page_tables import sections, table

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.once


def test_page_has_each_table_of_what_users_ask() -> None:
    assert re.findall(r"<!-- benchmarks: (.+) -->", PAGE.read_text(encoding="utf-8")) == [*GLANCE, "missed"]


def test_each_record_has_its_table_among_all_measurements() -> None:
    page = filled((PAGE.parent / "figures.md").read_text(encoding="utf-8"))
    records = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in RECORDED.glob("*.json")}
    assert records
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == records.keys()
    for name, run in records.items():
        shown = sections(page)[name]
        assert "`make benchmarks BENCHMARKS=" in shown
        assert [row["measured"] for row in table(shown)] == [row["what"] for row in run["rows"]]
        assert run["machine"] in page


LATE = Row("time to post", "s", 6.0, limit=Limit("at most", 5.0))
SLOW = Row("processor time", "s", 6.0, "a loop", 8.0, Limit("at most", 0.5, "ratio"))
GOOD = Row("rate used", "%", 99.0, limit=Limit("at least", 97.0))


def test_the_table_of_missed_limits_has_those_alone(tmp_path: Path) -> None:
    run = {"rows": [asdict(row) for row in (LATE, GOOD, SLOW)]}
    (tmp_path / "posting.json").write_text(json.dumps(run))
    shown = glance("missed", tmp_path)
    assert [line.split(" | ")[:2] for line in shown.splitlines()[2:]] == [
        ["| `posting`", "time to post"],
        ["| `posting`", "processor time"],
    ]
