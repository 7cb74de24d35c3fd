"""The package as it would be published."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "airflow_provider_mediaops"


def built_wheel(folder: Path) -> Path:
    """Build the wheel."""
    source = folder / "source"
    shutil.copytree(ROOT / PACKAGE, source / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "flit_core.wheel", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    [built] = folder.glob("*.whl")
    return built
