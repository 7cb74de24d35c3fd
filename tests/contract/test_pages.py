"""The pages of the documentation name what is there: files, tests, suites, errors, classes, metrics and versions."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from airflow.sdk import BaseHook
from packaging.requirements import Requirement
from packaging.version import Version

from airflow_provider_mediaops import exceptions, notifications, results
from scripts.generated_docs import statsd_mapping
from scripts.metric_table import METRICS
from tests.contract.page_tables import sections, table
from tests.contract.tasks import TASKS

pytestmark = pytest.mark.once

# Python 3.10 has it as a package only.
_toml = pytest.importorskip("tomllib" if importlib.util.find_spec("tomllib") else "tomli")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "airflow_provider_mediaops"
PROJECT: dict[str, Any] = _toml.loads((ROOT / "pyproject.toml").read_text())["project"]


def text_of(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def pinned(file: str, package: str) -> str:
    """Return the version of a package in a file of locked requirements."""
    text = (ROOT / "requirements" / f"{file}.txt").read_text()
    [version] = re.findall(rf"^{package}==(\S+)", text, re.MULTILINE)
    return str(version)


def test_links_of_the_pages_beside_the_documentation_lead_to_files() -> None:
    """`make docs` looks at those between the pages of the documentation."""
    broken = [
        f"{page.name}: {link}"
        for page in ROOT.glob("*.md")
        for link in re.findall(r"(?<!`)\]\((?!\w+:)([^)#\s]+)", page.read_text())
        if not (ROOT / unquote(link)).exists()
    ]
    assert broken == []


def test_guides_list_the_arguments_of_each_class_and_the_fields_of_each_result() -> None:
    """The lists are made when the pages are built, which fails if a docstring leaves one out."""
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "guides").glob("*.md"))
    classes = re.findall(r"^<!-- parameters: (\S+) -->$", text, re.MULTILINE)
    fields = re.findall(r"^<!-- fields: results\.(\w+) -->$", text, re.MULTILINE)

    named = [name.rpartition(".")[2] for name in classes]
    assert sorted(named) == sorted([*(task.kind.__name__ for task in TASKS), *notifications.__all__, "HighCpuTrigger"])
    assert {"ExportSummary", "CaptureSummary", "HotThreadsDigest", "EnrichmentSummary"} <= set(fields)
    assert [name for name in fields if fields.count(name) > 1 or not hasattr(results, name)] == []


def test_each_error_of_the_public_module_has_its_row_which_says_whether_it_is_retried() -> None:
    rows = {row["error"].strip("`"): row["retried?"] for row in table(sections(text_of("troubleshooting"))["By error"])}
    errors = {name: error for name, error in vars(exceptions).items() if name.endswith("Error")}
    # The base class.
    del errors["MediaOpsError"]

    assert errors.keys() - rows.keys() == set()
    temporary = {name for name, error in errors.items() if getattr(error, "temporary", False)}
    assert {name for name in errors if rows[name] == "yes"} == temporary


def test_every_subpackage_is_in_a_layer() -> None:
    block = re.search(r"<!-- layers -->\n```text\n(.*?)```", text_of("contributing"), flags=re.DOTALL)
    assert block
    packages = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    assert set(block[1].split()) == packages - {"__init__", "sandbox"}


def test_paths_that_contributors_are_told_exist() -> None:
    text = text_of("contributing") + (ROOT / "CONTRIBUTING.md").read_text()
    paths = set(re.findall(r"`([\w./]+(?:/|\.py|\.toml|\.ini|\.md|/\w+))`", text))
    places = {path for path in paths if (ROOT / path).exists() or (PACKAGE / path).exists()}

    assert [path for path in paths - places if not [*PACKAGE.rglob(path), *(ROOT / "tests").rglob(path)]] == []


def test_every_suite_is_listed_and_started() -> None:
    listed = {row["suite"].strip("`") for row in table(sections(text_of("contributing"))["Tests"])}
    suites = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if list(path.rglob("test_*.py"))}
    makefile = (ROOT / "Makefile").read_text()

    assert listed == suites
    assert [suite for suite in sorted(listed) if suite not in makefile] == []


def test_versions_are_those_of_the_package() -> None:
    rows = table(sections(text_of("compatibility"))["Airflow and Python"])
    pythons = [name.removeprefix("Python ") for name in rows[0] if name.startswith("Python")]
    oldest, newest = pinned("airflow-3.1.0", "apache-airflow"), pinned("newest", "apache-airflow")

    assert pythons == [text.rpartition(":: ")[2] for text in PROJECT["classifiers"] if ":: 3." in text]
    assert PROJECT["requires-python"] == f">={pythons[0]},<3.{int(pythons[-1].partition('.')[2]) + 1}"
    assert [rows[0]["Airflow"], rows[-1]["Airflow"]] == [version.rpartition(".")[0] for version in (oldest, newest)]
    assert f"apache-airflow>={oldest}" in PROJECT["dependencies"]
    assert f"apache/airflow:{newest}" in text_of("deployment")


@pytest.mark.parametrize("row", table(sections(text_of("security"))["Dependencies"]), ids=lambda row: row["package"])
def test_version_that_is_advised_fixes_each_fault_and_can_be_installed(row: dict[str, str]) -> None:
    declared = sum(PROJECT["optional-dependencies"].values(), PROJECT["dependencies"])
    [requirement] = [each for each in map(Requirement, declared) if each.name == row["package"]]
    advised = Version(row["at least"])
    assert advised in requirement.specifier
    assert max(map(Version, re.findall(r"\(([0-9.]+)\)", row["faults below it"]))) == advised
    assert Version(pinned("newest", row["package"])) >= advised


NAMED_TEST = re.compile(r"`(\w+/[\w/]+\.py(?:::\w+)*)`")


@pytest.mark.parametrize("name", sorted(set(NAMED_TEST.findall(text_of("security")))))
def test_a_test_that_the_page_about_security_names_exists(name: str) -> None:
    file, *parts = name.split("::")
    scope: Any = ast.parse((ROOT / "tests" / file).read_text())
    for part in parts:
        [scope] = [each for each in scope.body if getattr(each, "name", "") == part]


@pytest.mark.parametrize(("product", "key"), [("elasticsearch", "cluster"), ("opensearch", "cluster_permissions")])
def test_a_role_has_the_permissions_of_the_table_and_no_others(product: str, key: str) -> None:
    role = json.loads((DOCS / "snippets" / "roles" / f"{product}.json").read_text())
    rows = table(sections(text_of("security"))["Least privileges"].partition("### Search cluster")[2])
    assert role == {key: [name for row in rows for name in re.findall(r"`([\w:/]+)`", row["permission"])]}


def test_dashboard_asks_for_metrics_and_labels_of_the_mapping() -> None:
    mapped = {one["name"]: set(one.get("labels", {})) for one in yaml.safe_load(statsd_mapping())["mappings"]}
    assert len(mapped) == len(METRICS)
    dashboard = json.loads((DOCS / "watch_it.json").read_text(encoding="utf-8"))
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    for target in targets:
        (labels,) = {frozenset(mapped[name]) for name in re.findall(r"mediaops_\w+", target["expr"])}
        used = {label for by in re.findall(r"by \((.*?)\)", target["expr"]) for label in by.split(", ")}
        assert used <= labels
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= used


def test_connections_to_object_stores_are_read_by_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```json\n(.*?)^```", text_of("object_stores"), flags=re.DOTALL | re.MULTILINE)
    written = [connection for connection in map(json.loads, blocks) if "conn_type" in connection]
    assert len(written) >= 6
    for connection in written:
        monkeypatch.setenv("AIRFLOW_CONN_SHELF", json.dumps(connection))
        found = BaseHook.get_connection("shelf")
        assert (found.conn_type, found.extra_dejson) == (connection["conn_type"], connection["extra"])
