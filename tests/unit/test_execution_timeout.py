"""The time limit of a task, ``execution_timeout``, while it is deferred."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_provider_mediaops.hooks.base import ServiceHook
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.triggers import base as triggers_base
from airflow_provider_mediaops.triggers.base import deferral_timeout
from airflow_provider_mediaops.version_compat import AirflowTaskTimeout, TaskDeferralTimeout
from tests.airflow_names import TaskDeferred
from tests.unit.sensor_forms import Attempt

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

LIMIT = timedelta(seconds=90)
CONTEXT: Any = {}


def capture(folder: Path, **arguments: Any) -> BaseOperator:
    return CaptureHotThreadsOperator(
        task_id="task",
        destination=str(folder / "hot.txt"),
        when_cpu_above=90,
        wait_timeout=1800,
        deferrable=True,
        **arguments,
    )


def sensor(_: Path, **arguments: Any) -> BaseOperator:
    return ClusterCpuSensor(task_id="task", threshold=90, sustained_for=60, timeout=1800, deferrable=True, **arguments)


def export(folder: Path, **arguments: Any) -> BaseOperator:
    destination = str(folder / "subscriptions.csv")
    return ExportSubscriptionsOperator(task_id="task", destination=destination, mine=True, deferrable=True, **arguments)


def enrichment(folder: Path, **arguments: Any) -> BaseOperator:
    destination, isbns = str(folder / "books.csv"), ["9780140449136"]
    return EnrichIsbnsOperator(task_id="task", destination=destination, isbns=isbns, deferrable=True, **arguments)


@pytest.mark.parametrize("make", [capture, sensor, export, enrichment])
class TestADeferredTask:
    def test_is_deferred_for_no_longer(self, make: Any, tmp_path: Path) -> None:
        with pytest.raises(TaskDeferred) as deferred:
            make(tmp_path, execution_timeout=LIMIT).execute(CONTEXT)
        assert deferred.value.timeout is not None
        assert LIMIT - timedelta(seconds=60) < deferred.value.timeout <= LIMIT

    def test_is_deferred_for_its_own_time_without_it(self, make: Any, tmp_path: Path) -> None:
        with pytest.raises(TaskDeferred) as deferred:
            make(tmp_path).execute(CONTEXT)
        if make in (export, enrichment):
            assert deferred.value.timeout is None
        else:
            assert deferred.value.timeout is not None
            assert deferred.value.timeout >= timedelta(seconds=1800)

    @pytest.mark.parametrize("more", [{}, {"soft_fail": True}])
    def test_fails_as_one_in_a_worker_does(
        self, make: Any, tmp_path: Path, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task = make(tmp_path, execution_timeout=LIMIT, **(more if make is sensor else {}))

        def time_out(*_: object) -> None:
            raise TaskDeferralTimeout

        monkeypatch.setattr("airflow.sdk.bases.operator.BaseOperator.resume_execution", time_out)
        with pytest.raises(AirflowTaskTimeout, match=r"took longer than 0:01:30\."):
            task.resume_execution("execute_complete", {}, cast("Any", {}))


@pytest.mark.parametrize("mode", ["poke", "reschedule"])
@pytest.mark.parametrize("flag", ["soft_fail", "never_fail"])
def test_timeout_that_passes_in_the_middle_of_a_poke_fails_the_sensor_as_in_a_pause(
    mode: str, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_out(*_: object) -> None:
        raise AirflowTaskTimeout("it took too long")

    arguments: dict[str, Any] = {flag: True, "mode": mode, "execution_timeout": LIMIT}
    task = ClusterCpuSensor(task_id="task", threshold=90, **arguments)
    monkeypatch.setattr(ServiceHook, "run", time_out)
    with pytest.raises(AirflowTaskTimeout, match="took too long"):
        task.execute({"ti": Attempt()})  # type: ignore[typeddict-item]


def test_time_that_a_worker_has_used_up_is_subtracted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers_base, "time", SimpleNamespace(monotonic=lambda: 1_000.0))
    task = capture(tmp_path, execution_timeout=LIMIT)

    assert deferral_timeout(task, 940.0, 1800) == timedelta(seconds=30)
    assert deferral_timeout(task, 400.0, 1800) == timedelta()
    assert deferral_timeout(task, 1_000.0, 20) == timedelta(seconds=80), "a minute after that of the trigger"
    assert deferral_timeout(capture(tmp_path), 1_000.0) is None
