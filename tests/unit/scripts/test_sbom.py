"""The bill of materials has what runs and what is embedded, and no tools."""

from __future__ import annotations

import json
import re
from importlib.metadata import distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from airflow_provider_mediaops import __version__
from scripts import sbom

TOOLS = {"pytest", "ruff", "mypy", "cyclonedx-bom", "sphinx"}


def test_embedded_scripts_are_components_with_their_licences() -> None:
    scripts = sbom.embedded_scripts((sbom.VENDOR / "README.md").read_text())
    (bundle,) = sbom.VENDOR.glob("*.js")
    # The first line of each part of D3 names it. That of the flame graph has none, and internmap is within d3-array.
    named = re.findall(r"^// https://d3js.org/(\S+)/ v(\S+) ", bundle.read_text("utf-8"), re.MULTILINE)
    assert {f"pkg:npm/{name}@{version}" for name, version in named} < {script["purl"] for script in scripts}
    assert len(scripts) == len({script["purl"] for script in scripts}) == len(named) + 2
    licences = {script["name"]: script["licenses"][0]["license"]["id"] for script in scripts}
    shown = [licences[name] for name in ("d3-flame-graph", "d3-ease", "internmap")]
    assert shown == ["Apache-2.0", "BSD-3-Clause", "ISC"]
    assert all("hashes" in script for script in scripts if script["name"] != "internmap")


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
    assert TOOLS & versions.keys() == set()
    assert (bom["bomFormat"], bom["metadata"]["component"]["version"]) == ("CycloneDX", __version__)
