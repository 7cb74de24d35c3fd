"""docs/security.md names tests that exist, packages that are in pyproject.toml, and roles with what is listed."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
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
PAGE = (ROOT / "docs" / "security.md").read_text()
SECTIONS = sections(PAGE)
PROJECT: dict[str, Any] = _toml.loads((ROOT / "pyproject.toml").read_text())["project"]
_NAMED = re.compile(r"`(\w+/[\w/]+\.py(?:::\w+)*)`")
TESTS = sorted(set(_NAMED.findall(PAGE)))
THREATS = table(SECTIONS["Threats"])
FAULTS = table(SECTIONS["Dependencies"])


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


def test_each_threat_has_its_test() -> None:
    assert len(THREATS) >= 25
    assert [row["could"] for row in THREATS if not _NAMED.search(row["test"])] == []
    assert [row["could"] for row in THREATS if not row["protection"]] == []


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
