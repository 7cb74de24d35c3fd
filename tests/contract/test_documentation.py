"""The code that the documentation shows runs as it stands."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import DAG

from airflow_provider_mediaops.sandbox.books import sample_isbns
from scripts import shown_code
from tests.contract import dag_runs

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer

ROOT = Path(__file__).parents[2]
SNIPPETS = ROOT / "docs" / "snippets"
# A line that each script prints.
PRINTED = {
    "books_hook": "not an ISBN invalid",
    "cluster_hook": r"sandbox-2 \d+\.\d .+ \d+",
    "plain_script": "5",
    "video_hook": "SUB-mine-000001 .+",
}
DAG_FILES = sorted({path.stem for path in SNIPPETS.glob("*.py")} - PRINTED.keys())


@pytest.mark.long
@pytest.mark.parametrize("name", PRINTED)
def test_a_script_prints_what_the_sandbox_has(
    sandbox: SandboxServer, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, f"{sandbox.url}/video", "sandbox-bearer-token"])

    runpy.run_path(str(SNIPPETS / f"{name}.py"))

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if re.fullmatch(PRINTED[name], line)]
    assert sandbox.state.requests


@pytest.mark.parametrize("name", DAG_FILES)
def test_a_dag_file_is_read_by_airflow(name: str) -> None:
    assert dag_runs.dags_of(SNIPPETS / f"{name}.py")


@pytest.mark.long
@pytest.mark.usefixtures("airflow_db", "sandbox")
def test_the_event_of_an_asset_tells_the_next_dag_what_was_written(tmp_path: Path) -> None:
    file = SNIPPETS / "books_of_the_day.py"
    (tmp_path / "wanted.csv").write_text("\n".join(["isbn", *sample_isbns(2), "none"]))

    run = dag_runs.run_file(file, "books_of_the_day", folder=tmp_path.as_uri())
    told = dag_runs.run_file(file, "report_on_books")

    assert told.values["report"] == f"2 books in {run.values['enrich']['path']}"


def test_every_snippet_is_shown_somewhere() -> None:
    shown = {ROOT / file for page in shown_code.PAGES for file in shown_code.files_of(page.read_text())}

    assert {path for path in SNIPPETS.rglob("*") if path.suffix in (".py", ".json")} - shown == set()


def test_no_template_asks_for_what_only_scheduled_runs_have() -> None:
    """`ds` and the other names of the logical date are undefined in a run that a person or an asset has started."""
    folders = ("example_dags", "docs/recipes", "docs/snippets")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    code = {file.name: re.sub(r"^ *#.*$", "", file.read_text(), flags=re.MULTILINE) for file in files}
    templates = [(name, found) for name, text in code.items() for found in re.findall(r"{{(.*?)}}", text)]
    assert len(templates) > 20
    of_logical_dates = re.compile(r"(?<!\| )\b([dt]s|[dt]s_nodash|logical_date|data_interval_\w+)\b")
    assert [(name, found) for name, found in templates if of_logical_dates.search(found)] == []


def test_pages_show_the_code_of_their_files() -> None:
    for page in shown_code.PAGES:
        text = page.read_text()
        assert text == shown_code.with_code(text), f"{page}: run python -m scripts.shown_code"


def test_the_dag_in_the_readme_is_one() -> None:
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(f"{code}\n    made = capture.dag", "README.md", "exec"), names)  # noqa: S102 - the project's own page

    dag = names["made"]
    assert isinstance(dag, DAG)
    assert sorted(dag.task_ids) == ["capture", "post"]
