"""The code that the documentation shows runs as it stands."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import DAG

from airflow_provider_mediaops.sandbox.server import SandboxServer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SNIPPETS = sorted((ROOT / "docs" / "snippets").glob("*.py"))


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        for name, value in server.connections().items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda path: path.stem)
def test_a_snippet_runs_against_the_sandbox(
    sandbox: SandboxServer, snippet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(snippet), f"{sandbox.url}/video", "sandbox-bearer-token"])

    names = runpy.run_path(str(snippet))

    made = [value for name, value in names.items() if name not in ("DAG", "sys") and not name.startswith("__")]
    assert made


def test_every_snippet_is_shown_somewhere() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))

    assert [path.name for path in SNIPPETS if f"snippets/{path.name}" not in pages] == []


def test_the_dag_in_the_readme_is_one() -> None:
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(f"{code}\n    made = capture.dag", "README.md", "exec"), names)  # noqa: S102 - the project's own page

    dag = names["made"]
    assert isinstance(dag, DAG)
    assert sorted(dag.task_ids) == ["capture", "post"]
    assert len(code.strip().splitlines()) <= 18
