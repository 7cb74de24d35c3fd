"""What can defer has the argument of the official providers, with Airflow's own default."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from airflow.providers.http.sensors.http import HttpSensor

from tests.contract import fresh_python
from tests.contract.tasks import TASKS


def deferrable_of(kind: type) -> inspect.Parameter | None:
    """Return the argument of a constructor, which may be that of a base class."""
    found = (inspect.signature(base).parameters.get("deferrable") for base in kind.__mro__ if "__init__" in vars(base))
    return next(filter(None, found), None)


ALL: list[Any] = [*(task.kind for task in TASKS), HttpSensor]
KINDS = [kind for kind in ALL if deferrable_of(kind)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_deferrable_is_a_boolean_whose_default_the_signature_shows(kind: type) -> None:
    deferrable = deferrable_of(kind)
    assert deferrable
    assert (deferrable.annotation, deferrable.default) == ("bool", False)


@pytest.mark.long
def test_airflows_setting_makes_all_that_can_defer_do_so() -> None:
    places = {kind.__name__: kind.__module__ for kind in KINDS}
    assert len(places) == len(KINDS) >= 6
    deferred = fresh_python.result_of(
        "import importlib\n"
        "from tests.contract.test_conventions import deferrable_of\n"
        f"kinds = {places}\n"
        "result = {name: deferrable_of(vars(importlib.import_module(kinds[name]))[name]).default for name in kinds}\n",
        env={"AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True"},
    )
    assert deferred == dict.fromkeys(places, True)
