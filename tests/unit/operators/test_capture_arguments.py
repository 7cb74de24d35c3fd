"""The arguments of a capture that waits: refused when the DAG is parsed, or when templates are rendered."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.version_compat import HAS_RETRY_POLICY, AirflowFailException
from tests.airflow_names import TaskDeferred
from tests.unit.operators.capture_task import Task

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.conftest import Supervisor


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            ({"when_cpu_above": 100.1}, "when_cpu_above"),
            ({"when_cpu_above": -1}, "when_cpu_above"),
            ({"when_cpu_above": "hot"}, "when_cpu_above"),
            ({"nodes": []}, "nodes"),
            ({"sustained_for": -1}, "sustained_for"),
            ({"sustained_for": "long"}, "sustained_for"),
            ({"sustained_for": 60, "wait_timeout": 60}, "sustained_for"),
            ({"require": "some"}, "require"),
            ({"poll_interval": 0}, "poll_interval"),
            ({"wait_timeout": 0}, "wait_timeout"),
            ({"wait_timeout": float("inf")}, "wait_timeout"),
            ({"on_timeout": "retry"}, "on_timeout"),
            ({"captures": 0}, "captures"),
            ({"captures": "few"}, "captures"),
            ({"every": timedelta(0)}, "every"),
            ({"formats": ["svg"]}, "formats"),
            ({"threads": 0, "when_cpu_above": "{{ params.threshold }}"}, "threads"),
            ({"on_timeout": "retry", "nodes": "{{ params.nodes }}"}, "on_timeout"),
            ({"when_cpu_above": 0.85}, "when_cpu_above"),
            ({"when_cpu_above": "0.85", "nodes": "{{ x }}"}, "when_cpu_above"),
            ({"destination": ""}, "destination"),
            ({"destination": "/out/"}, "destination"),
            ({"formats": "txt,pdf"}, "formats"),
            ({"interval": "0.5s"}, "interval"),
            ({"snapshots": 0}, "snapshots"),
            ({"threads": "many"}, "threads"),
            ({"type": "mem"}, "type"),
            ({"master_timeout": "30"}, "master_timeout"),
            ({"timeout": 30}, "timeout"),
            ({"ignore_idle_threads": "perhaps"}, "ignore_idle_threads"),
            ({"deferrable": "perhaps"}, "deferrable"),
        ],
    )
    def test_arguments_that_can_never_be_used_raise_at_parse_time(self, arguments: dict[str, Any], word: str) -> None:
        with pytest.raises(ValueError, match=f"^{word} "):
            CaptureHotThreadsOperator(
                task_id="capture", **{"destination": "/out/hot.txt", "when_cpu_above": 85, **arguments}
            )

    @pytest.mark.parametrize(
        "argument",
        [
            {"sustained_for": 60},
            {"require": "all"},
            {"poll_interval": 10},
            {"wait_timeout": 3600},
            {"on_timeout": "capture"},
        ],
    )
    def test_argument_of_a_wait_without_one_raises(self, argument: dict[str, Any]) -> None:
        (name,) = argument
        with pytest.raises(ValueError, match=f"^{name} .*when_cpu_above"):
            CaptureHotThreadsOperator(task_id="capture", destination="/out/hot.txt", **argument)
        # Whether a template gives one is known when it is rendered.
        CaptureHotThreadsOperator(task_id="t", destination="/out/hot.txt", when_cpu_above="{{ x }}", **argument)

    def test_the_time_limit_of_sensors_is_the_default(self, tmp_path: Path, supervisor: Supervisor) -> None:
        task = Task(tmp_path, supervisor, "triggerer", wait_timeout=None)
        with pytest.raises(TaskDeferred) as caught:
            task.make().execute({})
        assert caught.value.timeout is not None
        assert caught.value.timeout > timedelta(days=7)

    def test_templates_are_rendered_and_then_judged(self, tmp_path: Path, supervisor: Supervisor) -> None:
        names = ("when_cpu_above", "sustained_for", "poll_interval", "wait_timeout", "captures", "every", "on_timeout")
        task = Task(tmp_path, supervisor, "worker", **{name: f"{{{{ params.{name} }}}}" for name in names})
        operator = task.make()
        values = {
            "when_cpu_above": 80.5,
            "sustained_for": 60,
            "poll_interval": 5,
            "wait_timeout": 30,
            "captures": 2,
            "every": 4,
            "on_timeout": "fail",
        }
        operator.render_template_fields({"params": values})
        with pytest.raises(ValueError if HAS_RETRY_POLICY else AirflowFailException, match=r"sustained_for \(60 s\)"):
            operator.execute({})
        assert [getattr(operator, name) for name in names] == [str(values[name]) for name in names]
