"""The bill of materials has what runs and what is embedded, and no tools."""

from __future__ import annotations

import json
from importlib.metadata import distribution
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from airflow_provider_mediaops import __version__
from scripts import sbom

MAIN = {"bom-ref": "root", "name": "package", "type": "library"}


def bom_of(dependencies: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "metadata": {"component": MAIN},
        "components": [{"bom-ref": name, "name": name} for name in dependencies if name != "root"],
        "dependencies": [{"ref": name, "dependsOn": others} for name, others in dependencies.items()],
    }


def names_of(bom: dict[str, Any]) -> list[str]:
    return [component["name"] for component in bom["components"]]


def test_package_that_is_not_needed_is_left_out() -> None:
    bom = sbom.only_needed(bom_of({"root": ["a"], "a": ["b", "tool"], "b": ["a"], "tool": ["b"]}), {"a", "b"})
    assert names_of(bom) == ["a", "b"]
    assert {each["ref"]: each["dependsOn"] for each in bom["dependencies"]} == {"root": ["a"], "a": ["b"], "b": ["a"]}


def test_the_package_needs_its_extras_and_no_tools() -> None:
    names = sbom.needed_packages("airflow-provider-mediaops")
    assert {"urllib3", "h11", "redis", "pyarrow", "uvicorn"} < names
    assert {"pytest", "ruff", "mypy", "cyclonedx-bom", "sphinx"} & names == set()


def test_embedded_scripts_are_components_of_the_package() -> None:
    table = (sbom.VENDOR / "README.md").read_text()
    scripts = sbom.embedded_scripts(table)
    files = [path for path in sbom.VENDOR.iterdir() if path.suffix == ".js"]
    assert len(scripts) == len({script["purl"] for script in scripts}) == len(files) + 1
    by_name = {script["name"]: script for script in scripts}
    assert by_name["d3-flame-graph"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert by_name["d3-ease"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert by_name["d3-scale"]["licenses"] == by_name["internmap"]["licenses"] == [{"license": {"id": "ISC"}}]
    assert all("hashes" in script for script in scripts if script["name"] != "internmap")

    bom = sbom.with_scripts(bom_of({"root": ["a"], "a": []}), scripts, "1.2")
    assert bom["metadata"]["component"] == {**MAIN, "version": "1.2"}
    assert bom["dependencies"][0]["dependsOn"] == ["a", *(script["bom-ref"] for script in scripts)]
    assert {component["bom-ref"] for component in bom["components"]} == {
        each["ref"] for each in bom["dependencies"] if each["ref"] != "root"
    }


@pytest.mark.long
def test_the_whole_bill_has_every_dependency_and_no_tool(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cyclonedx_py")
    sbom.main()
    assert "dist/airflow-provider-mediaops.cdx.json" in capsys.readouterr().out

    bom = json.loads(sbom.OUTPUT.read_text())
    required = [Requirement(text) for text in distribution("airflow-provider-mediaops").requires or []]
    versions: dict[str, str] = {canonicalize_name(each["name"]): each["version"] for each in bom["components"]}
    assert {canonicalize_name(each.name) for each in required} - versions.keys() == set()
    assert versions["urllib3"] == distribution("urllib3").version
    assert "h11" in versions
    assert {"pytest", "ruff", "mypy", "cyclonedx-bom", "sphinx"} & versions.keys() == set()
    assert (bom["bomFormat"], bom["metadata"]["component"]["version"]) == ("CycloneDX", __version__)
