"""The tables of docs/performance.md are those of the recorded benchmarks."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.results import PAGE, RECORDED, Limit, Row, record, with_tables

if TYPE_CHECKING:
    from pathlib import Path


def test_the_page_shows_what_was_recorded() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "write the tables anew: python -m tests.benchmarks.results"


def test_each_record_has_its_table() -> None:
    tables = set(re.findall(r"<!-- benchmarks: (\w+) -->", PAGE.read_text(encoding="utf-8")))
    records = {file.stem for file in RECORDED.glob("*.json")}
    assert records
    assert records <= tables


def test_each_record_says_where_and_when_it_was_made() -> None:
    for file in RECORDED.glob("*.json"):
        run = json.loads(file.read_text(encoding="utf-8"))
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"])
        assert "cores of" in run["machine"]
        assert "Airflow 3." in run["versions"]
        assert run["rows"]


@pytest.mark.parametrize(
    ("limit", "holds"),
    [
        (None, None),
        (Limit("at most", 6.0), True),
        (Limit("at most", 5.9), False),
        (Limit("at least", 6.0), True),
        (Limit("at least", 6.1), False),
        (Limit("at most", 0.5, "ratio"), True),
        (Limit("at most", 0.49, "ratio"), False),
    ],
)
def test_a_limit_holds_for_the_figure_or_its_ratio(limit: Limit | None, *, holds: bool | None) -> None:
    assert Row("time", "s", 6.0, "a loop", 12.0, limit).holds is holds


def test_a_table_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    run = {"date": "2026-11-24", "load_before": 0.1, "machine": "2 cores", "versions": "Python 3.11"}
    rows = [
        {"what": "time", "unit": "s", "ours": 6.0, "peer": "a loop", "peer_figure": 12.0, "limit": None},
        {"what": "asked", "unit": "", "ours": 5.0, "peer": "a loop", "peer_figure": 2_000.0, "limit": None},
        {
            "what": "used",
            "unit": "%",
            "ours": 98.26,
            "peer": None,
            "peer_figure": None,
            "limit": {"bound": "at least", "value": 99.0, "of": "ours"},
        },
    ]
    (tmp_path / "export.json").write_text(json.dumps({**run, "rows": rows}))
    page = "before\n\n<!-- benchmarks: export -->\n\n| old |\n| --- |\n\nafter\n"
    assert with_tables(page, tmp_path) == (
        "before\n\n<!-- benchmarks: export -->\n\n"
        "| measured | this provider | beside | its figure | ratio | limit |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| time | 6 s | a loop | 12 s | 0.5x | – |\n"  # noqa: RUF001 - a dash
        "| asked | 5 | a loop | 2,000 | 1/400 | – |\n"  # noqa: RUF001
        "| used | 98.3 % | – | – | – | at least 99 %: **missed** |\n"  # noqa: RUF001
        "\nafter\n"
    )


LATE = Row("time to post", "s", 6.0, limit=Limit("at most", 5.0))
SLOW = Row("processor time", "s", 6.0, "a loop", 8.0, Limit("at most", 0.5, "ratio"))
GOOD = Row("rate used", "%", 99.0, limit=Limit("at least", 97.0))


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([GOOD, Row("size", "kB", 1.0)], "Limits that hold: 1 of 1."),
        ([Row("size", "kB", 1.0)], "No limit is set."),
        (
            [Row("time", "s", 6.0, peer, 7.0, Limit("at most", 5.0)) for peer in ("a loop", "a hook")],
            "Limits that hold: 0 of 1. Missed:\n- time: 6 s; the limit is at most 5 s",
        ),
        (
            [LATE, GOOD, SLOW],
            """Limits that hold: 1 of 3. Missed:
- time to post: 6 s; the limit is at most 5 s
- processor time: 0.75x of a loop; the limit is at most 0.5x""",
        ),
    ],
)
def test_a_benchmark_ends_with_the_limits_that_it_missed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, rows: list[Row], verdict: str
) -> None:
    monkeypatch.delenv("WRITE_RESULTS", raising=False)
    record("any", rows)
    assert capsys.readouterr().out.endswith(f"|\n{verdict}\n")


def test_the_page_lists_what_missed_its_limit(tmp_path: Path) -> None:
    run = {"rows": [asdict(row) for row in (LATE, GOOD, SLOW)]}
    (tmp_path / "posting.json").write_text(json.dumps(run))
    page = with_tables("<!-- benchmarks: missed -->\n\n", tmp_path)
    assert [line.split(" | ")[:2] for line in page.splitlines()[4:]] == [
        ["| `posting`", "time to post"],
        ["| `posting`", "processor time"],
    ]
