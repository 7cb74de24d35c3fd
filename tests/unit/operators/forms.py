"""A task that works in the triggerer, from what Airflow's database keeps of its trigger and of its event."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.airflow_names import TaskDeferred
from tests.unit.call_flows import on_a_loop
from tests.unit.sensor_forms import first_event, made_again


def in_triggerer(operator: Any, context: Any) -> dict[str, Any]:
    """Run an operator that defers to its end."""
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(context)
    left = caught.value
    payload = on_a_loop(asyncio.wait_for(first_event(made_again(left.trigger)), 240))
    assert len(json.dumps(payload)) < 5000
    result: dict[str, Any] = operator.resume_execution(
        left.method_name, {**(left.kwargs or {}), "event": payload}, context
    )
    return result
