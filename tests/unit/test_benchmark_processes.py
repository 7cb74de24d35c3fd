"""What the benchmarks share: fresh processes of their own environment, servers, and contenders that take turns."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.fresh_process import environment, last_line_of, peak_memory_mb
from tests.benchmarks.rounds import in_rounds
from tests.server_process import ServerProcess, running

if TYPE_CHECKING:
    from pathlib import Path


def test_a_fresh_process_has_its_own_airflow_and_keeps_byte_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AIRFLOW__CORE__PARALLELISM", "_AIRFLOW_PROCESS_CONTEXT", "PYTHONDONTWRITEBYTECODE", "AIRFLOW_HOME"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("ELSE", "stays")

    line = last_line_of(
        ["-c", "import json, os; print('first'); print(json.dumps([dict(os.environ), os.getcwd()]))"],
        environment(tmp_path, OWN="given"),
        seconds=240,
        folder=tmp_path,
    )

    variables, folder = json.loads(line)
    of_airflow = {name: value for name, value in variables.items() if "AIRFLOW" in name}
    assert of_airflow == {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    assert "PYTHONDONTWRITEBYTECODE" not in variables
    assert (variables["ELSE"], variables["OWN"]) == ("stays", "given")
    assert os.path.realpath(folder) == os.path.realpath(tmp_path)


def test_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)exit code 1: .*no such thing"):
        last_line_of(["-c", "raise LookupError('no such thing')"], environment(tmp_path), seconds=240)


def test_the_peak_is_that_of_the_process_and_not_of_its_parent(tmp_path: Path) -> None:
    held = bytearray(200_000_000)
    program = "from tests.benchmarks.fresh_process import peak_memory_mb; print(peak_memory_mb())"
    child = float(last_line_of(["-c", program], environment(tmp_path), seconds=240))
    assert peak_memory_mb() > len(held) / 2**20
    assert child < 150


def test_nobody_waits_for_a_server_whose_process_has_died() -> None:
    with pytest.raises(EOFError), running(ServerProcess, partial(os._exit, 1)):
        pass


def test_contenders_take_turns_and_the_practice_does_not_count() -> None:
    turns: list[str] = []

    def measure(name: str) -> int:
        turns.append(name)
        return len(turns)

    contenders = {name: partial(measure, name) for name in "ab"}
    assert in_rounds(contenders, 2) == {"a": [3, 5], "b": [4, 6]}
    assert "".join(turns) == "ababab"
    assert in_rounds(contenders, 1, has_practice=False) == {"a": [7], "b": [8]}
