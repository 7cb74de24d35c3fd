"""CONTRIBUTING.md and docs/contributing.md describe the tree as it is, and docs/compatibility.md the versions."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.page_tables import sections, table

pytestmark = pytest.mark.once

# Python 3.10 has it as a package only.
_toml = pytest.importorskip("tomllib" if importlib.util.find_spec("tomllib") else "tomli")

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_provider_mediaops"
PAGE = (ROOT / "docs" / "contributing.md").read_text()
STEPS = (ROOT / "CONTRIBUTING.md").read_text()
COMPATIBILITY = sections((ROOT / "docs" / "compatibility.md").read_text())
PYPROJECT: dict[str, Any] = _toml.loads((ROOT / "pyproject.toml").read_text())


def test_every_subpackage_is_in_a_layer() -> None:
    block = re.search(r"<!-- layers -->\n```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert block
    packages = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    assert set(block[1].split()) == packages - {"__init__", "sandbox"}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w./]+(?:/|\.py|\.toml|\.ini|\.md|/\w+))`", PAGE + STEPS))))
def test_a_path_that_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists() or (PACKAGE / path).exists() or [*PACKAGE.rglob(path), *(ROOT / "tests").rglob(path)]


def test_every_suite_is_listed_and_started() -> None:
    listed = {row["suite"].strip("`") for row in table(sections(PAGE)["Tests"])}
    suites = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if list(path.rglob("test_*.py"))}
    makefile = (ROOT / "Makefile").read_text()

    assert listed == suites - {"tests/benchmarks"}
    assert [suite for suite in sorted(listed) if suite not in makefile] == []


def test_the_versions_are_those_of_the_package() -> None:
    rows = table(COMPATIBILITY["Airflow and Python"])
    pythons = [name.removeprefix("Python ") for name in rows[0] if name.startswith("Python")]
    named = [text.rpartition(":: ")[2] for text in PYPROJECT["project"]["classifiers"] if ":: 3." in text]
    [airflow] = [text for text in PYPROJECT["project"]["dependencies"] if text.startswith("apache-airflow>=")]
    [newest] = re.findall(r"^apache-airflow==(.+)$", (ROOT / "requirements" / "newest.txt").read_text(), re.MULTILINE)
    [oldest] = re.findall(
        r"^apache-airflow==(.+)$", (ROOT / "requirements" / "airflow-3.1.0.txt").read_text(), re.MULTILINE
    )

    assert pythons == named
    assert PYPROJECT["project"]["requires-python"] == f">={pythons[0]},<3.{int(pythons[-1].partition('.')[2]) + 1}"
    assert (rows[0]["Airflow"], rows[-1]["Airflow"]) == (_minor(oldest), _minor(newest))
    assert airflow == f"apache-airflow>={oldest}"
    text = COMPATIBILITY["Airflow and Python"]
    assert f"the oldest version, {oldest}, and on the newest, {newest}" in " ".join(text.split())
    assert f"apache/airflow:{newest}" in (ROOT / "docs" / "deployment.md").read_text()


def _minor(version: str) -> str:
    return version.rpartition(".")[0]
