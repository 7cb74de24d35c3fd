"""A Python process of its own, for what happens only once in each: imports, and the discovery of providers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SECONDS = 1200
_ROOT = Path(__file__).parents[2]


def run(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run this Python with these arguments, in the environment of the test and these variables."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=_ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def printed_by(module: str, *arguments: str, home: Path) -> Any:
    """Run a program of the tests, and return the plain values that it prints."""
    done = run("-m", module, *arguments, env={"AIRFLOW_HOME": str(home)})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def result_of(script: str, *, env: Mapping[str, str] | None = None) -> Any:
    """Run a script that binds ``result`` to plain values, and give them. It may print before and after: logs do."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        save = f"import pathlib, json\npathlib.Path({str(path)!r}).write_text(json.dumps(result))"
        done = run("-c", f"{script}\n{save}", env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(path.read_text())
