"""
Write the bill of materials of the package as CycloneDX JSON: `make sbom`.

It lists what runs with the newest locked versions, extras included, but no tools of contributors: those packages of the
environment that the package depends on, directly or not. The scripts in the page of a capture, which the package
brings along, are added from their table.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from airflow_provider_mediaops import __version__

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "dist" / "airflow-provider-mediaops.cdx.json"
VENDOR = ROOT / "airflow_provider_mediaops" / "cluster" / "page" / "static" / "vendor"
# The parts of D3 are under the ISC licence, but for these.
_LICENCES = {"d3-flame-graph": "Apache-2.0", "d3-ease": "BSD-3-Clause"}
# It is within d3-array, so its table has no file of it but the licence.
_EMBEDDED = {"internmap"}
_LINE = re.compile(r"^\| (\S+) (\S+) \| `\S+` \| `(\S+)` \| [0-9]+ \| `([0-9a-f]{64})` \|$", re.MULTILINE)

Bom = dict[str, Any]


def environment_bom() -> Bom:
    """Return the bill of materials of all packages beside this Python, as the tool of CycloneDX makes it."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", str(ROOT / "pyproject.toml")]
    command += ["--mc-type", "library", "--output-reproducible", "--of", "JSON", sys.executable]
    found: Bom = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def needed_packages(package: str) -> set[str]:
    """Return the packages that an installed one needs with all its extras, and others with those asked for."""
    own = {"", *(distribution(package).metadata.get_all("Provides-Extra") or [])}
    found, seen = [(package, extra) for extra in own], set[tuple[str, str]]()
    while found:
        name, extra = found.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        with suppress(PackageNotFoundError):
            for needed in map(Requirement, distribution(name).requires or []):
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    found += [(canonicalize_name(needed.name), each) for each in ("", *needed.extras)]
    return {name for name, _ in seen}


def only_needed(bom: Bom, names: set[str]) -> Bom:
    """Leave out other packages: the tool takes in what only tests of a package need."""
    kept = [each for each in bom["components"] if canonicalize_name(each["name"]) in names]
    references = {each["bom-ref"] for each in (*kept, bom["metadata"]["component"])}
    dependencies = [
        {"ref": each["ref"], "dependsOn": [other for other in each.get("dependsOn", []) if other in references]}
        for each in bom["dependencies"]
        if each["ref"] in references
    ]
    return {**bom, "components": kept, "dependencies": dependencies}


def embedded_scripts(table: str) -> list[Bom]:
    """Return the components that the package brings along as files."""
    lines = [line for line in _LINE.findall(table) if line[2].endswith(".js") or line[0] in _EMBEDDED]
    return [
        {
            "bom-ref": f"{name}@{version}",
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:npm/{name}@{version}",
            "licenses": [{"license": {"id": _LICENCES.get(name, "ISC")}}],
            **({"hashes": [{"alg": "SHA-256", "content": digest}]} if file.endswith(".js") else {}),
        }
        for name, version, file, digest in lines
    ]


def with_scripts(bom: Bom, scripts: list[Bom], version: str) -> Bom:
    """Add scripts to the main component, and its version."""
    main = {**bom["metadata"]["component"], "version": version}
    references = [script["bom-ref"] for script in scripts]
    dependencies = [
        {**each, "dependsOn": [*each.get("dependsOn", []), *references]} if each["ref"] == main["bom-ref"] else each
        for each in bom["dependencies"]
    ]
    return {
        **bom,
        "metadata": {**bom["metadata"], "component": main},
        "components": [*bom["components"], *scripts],
        "dependencies": [*dependencies, *({"ref": reference} for reference in references)],
    }


def main() -> None:
    """Write the file, and print where it is."""
    scripts = embedded_scripts((VENDOR / "README.md").read_text(encoding="utf-8"))
    bom = with_scripts(
        only_needed(environment_bom(), needed_packages("airflow-provider-mediaops")), scripts, __version__
    )
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(bom, indent=2) + "\n", encoding="utf-8")
    print(f"{OUTPUT.relative_to(ROOT)}: {len(bom['components'])} components")  # noqa: T201


if __name__ == "__main__":
    main()
