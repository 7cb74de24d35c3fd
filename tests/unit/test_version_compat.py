"""What differs between the versions of Airflow stands in one module."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.sdk import BaseOperator

import airflow_provider_mediaops
from airflow_provider_mediaops import version_compat

ROOT = Path(airflow_provider_mediaops.__file__).parent


def modules_that_try_an_import_of_airflow() -> Iterator[str]:
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Try):
                imported = [part for part in ast.walk(node) if isinstance(part, (ast.Import, ast.ImportFrom))]
                names = [part.module or "" for part in imported if isinstance(part, ast.ImportFrom)]
                names += [alias.name for part in imported if isinstance(part, ast.Import) for alias in part.names]
                # Whether another provider is installed says nothing about the version of Airflow.
                if any(name.startswith("airflow.") and not name.startswith("airflow.providers.") for name in names):
                    yield str(file.relative_to(ROOT))


def test_no_module_but_these_tries_an_import_of_airflow() -> None:
    assert set(modules_that_try_an_import_of_airflow()) == {"version_compat.py", "plugin/airflow_plugin.py"}


def test_retry_policies_are_used_if_operators_take_them() -> None:
    parameters = inspect.signature(BaseOperator.__init__).parameters
    assert version_compat.HAS_RETRY_POLICY is ("retry_policy" in parameters)


def test_the_error_of_a_deferral_is_the_one_that_a_resumed_task_meets() -> None:
    with pytest.raises(version_compat.TaskDeferralTimeout):
        BaseOperator(task_id="task").resume_execution("__fail__", {"error": "Trigger timeout"}, {})
