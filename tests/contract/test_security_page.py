"""docs/security.md names tests that exist, packages that are in pyproject.toml, and roles with what is listed."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.contract.page_tables import sections, table

pytestmark = pytest.mark.once

# Python 3.10 has it as a package only.
_toml = pytest.importorskip("tomllib" if importlib.util.find_spec("tomllib") else "tomli")

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_provider_mediaops"
PAGE = (ROOT / "docs" / "security.md").read_text()
SECTIONS = sections(PAGE)
PROJECT: dict[str, Any] = _toml.loads((ROOT / "pyproject.toml").read_text())["project"]
_NAMED = re.compile(r"`(\w+/[\w/]+\.py(?:::\w+)*)`")
TESTS = sorted(set(_NAMED.findall(PAGE)))
THREATS = table(SECTIONS["Threats"])
FAULTS = table(SECTIONS["Dependencies"])
_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}


def members_of(scope: ast.Module | ast.ClassDef) -> dict[str, ast.stmt]:
    """Return the tests and classes of tests in a file or class, by their names."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {each.name: each for each in scope.body if isinstance(each, kinds) and each.name.lower().startswith("test")}


@pytest.mark.parametrize("name", TESTS)
def test_a_test_that_is_named_exists(name: str) -> None:
    file, *parts = name.split("::")
    scope: Any = ast.parse((ROOT / "tests" / file).read_text())
    for part in parts:
        found = members_of(scope)
        assert part in found, f"{file} has no {part}"
        scope = found[part]
    assert isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) or members_of(scope)


@pytest.mark.long
@pytest.mark.airflow(">=3.3")  # some are about its retry policies
def test_they_are_collected() -> None:
    names = [f"tests/{name}" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    collected = set(re.findall(r"^tests/(\S+?)(?:\[.*)?$", done.stdout, re.MULTILINE))
    assert [name for name in TESTS if not any(f"{each}::".startswith(f"{name}::") for each in collected)] == []


def test_each_threat_has_its_test() -> None:
    assert len(THREATS) >= 25
    assert [row["could"] for row in THREATS if not _NAMED.search(row["test"])] == []
    assert [row["could"] for row in THREATS if not row["protection"]] == []


def test_each_of_them_who_could_do_something_is_looked_at() -> None:
    named = " ".join(row["who"] for row in THREATS)
    all_of_them = ("DAG author", "viewer", "service", "cluster", "neighbour", "reader of the", "writer of", "database")
    assert [who for who in all_of_them if who not in named] == []


@pytest.mark.parametrize("row", FAULTS, ids=lambda row: row["package"])
def test_a_version_that_is_advised_fixes_each_fault_and_can_be_installed(row: dict[str, str]) -> None:
    declared = sum(PROJECT["optional-dependencies"].values(), PROJECT["dependencies"])
    [requirement] = [each for each in map(Requirement, declared) if each.name == row["package"]]
    advised = Version(row["at least"])
    assert advised in requirement.specifier
    assert re.search(r"CVE-20[0-9]{2}-[0-9]+", row["faults below it"])
    assert max(map(Version, re.findall(r"\(([0-9.]+)\)", row["faults below it"]))) == advised
    [newest] = re.findall(
        rf"^{row['package']}==(\S+)", (ROOT / "requirements" / "newest.txt").read_text(), re.MULTILINE
    )
    assert Version(newest) >= advised


@pytest.mark.parametrize(("product", "key"), [("elasticsearch", "cluster"), ("opensearch", "cluster_permissions")])
def test_a_role_has_the_permissions_of_the_table_and_no_others(product: str, key: str) -> None:
    role = json.loads((ROOT / "docs" / "snippets" / "roles" / f"{product}.json").read_text())
    rows = table(SECTIONS["Least privileges"].partition("### Search cluster")[2])
    listed = [name for row in rows for name in re.findall(r"`([\w:/]+)`", row["permission"])]
    assert role == {key: listed}
    assert all(name.startswith("cluster:monitor/") for name in listed)


def test_the_levels_of_the_log_are_those_that_the_package_uses() -> None:
    """The sandbox is a server of its own, with the log of uvicorn."""
    used = {
        node.func.attr
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(PACKAGE / "sandbox")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _METHODS
        and ast.unparse(node.func.value).rpartition(".")[2].strip("_").lower() in {"log", "logger"}
    }
    listed = {row["level"].strip("`").lower() for row in table(SECTIONS["The log"])}
    assert {"error" if name == "exception" else name for name in used} == listed


def test_the_page_for_reports_names_the_bill_of_materials() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert "make sbom" in text
    assert "docs/security.md" in text
