"""Whether a task waits in the triggerer, how soon it may resume, and the events that it resumes with."""

from __future__ import annotations

import asyncio
import bisect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models import crypto
from airflow.models.trigger import Trigger
from cryptography.fernet import Fernet

from airflow_provider_mediaops.exceptions import InvalidReplyError, RateLimitedError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.sensors.video import SubscriptionSensor
from airflow_provider_mediaops.triggers.base import done_event, error_event, value_of
from airflow_provider_mediaops.triggers.cluster import CpuSensorTrigger
from tests.airflow_names import TaskDeferred
from tests.unit.log_lines import log_lines
from tests.unit.scripted_cluster import CONN_ID, ScriptedCluster
from tests.unit.sensor_forms import a_day, first_event
from tests.unit.virtual_time import START, in_virtual_time

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

# What a column of type TEXT holds in MySQL.
TEXT_BYTES = 65_535
REFUSED = re.compile(
    r"WARNING: This task is not deferred: the arguments of its trigger have 48,\d{3} bytes, and the databases of "
    r"Airflow take 48,000\. It does its work in the worker, and holds a slot meanwhile\."
)
# Airflow writes a letter that is not in ASCII as six.
NAME = "n" * 60 + "\u00fc" * 5
SENSOR: dict[str, Any] = {"task_id": "wait", "deferrable": True, "silent_fail": True, "timeout": 0}


def subscription_sensor(_: Path, names: list[str]) -> Any:
    return SubscriptionSensor(ids=names, **SENSOR)


def cpu_sensor(_: Path, names: list[str]) -> Any:
    return ClusterCpuSensor(nodes=names, **SENSOR)


def capture(folder: Path, names: list[str]) -> Any:
    return CaptureHotThreadsOperator(
        task_id="wait", destination=f"{folder}/hot.txt", nodes=names, when_cpu_above=85, deferrable=True
    )


def export(folder: Path, names: list[str]) -> Any:
    return ExportSubscriptionsOperator(task_id="wait", destination=f"{folder}/subs.csv", ids=names, deferrable=True)


def enrichment(folder: Path, names: list[str]) -> Any:
    wide = folder / "wide.csv"
    wide.write_text(",".join(["isbn", *names]) + "\n9780140449136" + ",x" * len(names) + "\n")
    return EnrichIsbnsOperator(task_id="wait", destination=f"{folder}/books.csv", source=str(wide), deferrable=True)


def deferred(task: Any) -> BaseTrigger | None:
    """Run a task; give its trigger if it defers."""
    try:
        task.execute({})
    except TaskDeferred as error:
        trigger: BaseTrigger = error.trigger
        return trigger
    except Exception:  # noqa: BLE001 there is no connection to work with
        return None
    raise AssertionError("there is no connection, but no error")


@pytest.fixture
def fernet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Airflow encrypt the arguments of triggers."""
    key = Fernet(Fernet.generate_key())
    monkeypatch.setattr(crypto, "get_fernet", lambda: key)


class TestSettled:
    """apache/airflow#71580: a task that resumes within seconds of its deferral may be failed."""

    @pytest.mark.parametrize(
        ("trigger_id", "sustained_for", "seconds"),
        [(7, 2, 10), (7, 20, 20), (None, 2, 2)],
        ids=["event held back", "longer wait", "no scheduler"],
    )
    def test_event_comes_ten_seconds_after_the_deferral_where_there_is_a_scheduler(
        self, cluster: ScriptedCluster, trigger_id: int | None, sustained_for: int, seconds: int
    ) -> None:
        cluster.cpu["node-1"] = 99.0
        watch = {"threshold": 85, "sustained_for": sustained_for}
        trigger = CpuSensorTrigger(conn_id=CONN_ID, watch=watch, **a_day(1))
        trigger.trigger_id = trigger_id

        async def run() -> float:
            assert value_of(await first_event(trigger))
            return asyncio.get_running_loop().time() - START

        assert in_virtual_time(run()) == seconds
        assert cluster.times[-1] == START + sustained_for


class TestEvent:
    @pytest.mark.parametrize(
        "event",
        [None, {}, [], "done", 3, {"status": "later"}, {"status": "error"}, {"status": "error", "error": "x"}],
    )
    def test_event_of_another_version_is_reported(self, event: Any) -> None:
        with pytest.raises(InvalidReplyError, match="this version of the provider cannot read"):
            value_of(event)

    def test_value_and_error_are_what_was_sent(self) -> None:
        assert value_of(done_event({"rows": 2})) == {"rows": 2}
        with pytest.raises(RateLimitedError, match="too often") as caught:
            value_of(error_event(RateLimitedError("too often", retry_after=9.0)))
        assert caught.value.retry_after == 9.0

    @pytest.mark.parametrize("make", [capture, export])
    def test_error_of_the_triggerer_is_that_of_the_operator(self, tmp_path: Path, make: Any) -> None:
        with pytest.raises(RateLimitedError, match="too often"):
            make(tmp_path, ["a"]).execute_complete({}, error_event(RateLimitedError("too often")))


@pytest.mark.long
@pytest.mark.usefixtures("supervisor", "fernet")
@pytest.mark.parametrize("make", [subscription_sensor, cpu_sensor, capture, export, enrichment])
def test_a_task_defers_as_long_as_any_database_takes_the_arguments_and_else_works_in_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    lines = log_lines(monkeypatch, type(make(tmp_path, ["a"])))

    def trigger_with(count: int) -> BaseTrigger | None:
        return deferred(make(tmp_path, [f"{NAME}{number:04}" for number in range(count)]))

    # The most names with which it defers.
    most = bisect.bisect_left(range(1, 1000), 1, key=lambda count: int(trigger_with(count) is None))
    trigger = trigger_with(most)
    assert trigger is not None
    stored = Trigger.from_object(trigger).encrypted_kwargs
    assert stored.startswith("gAAAA")
    assert 62_000 < len(stored) <= TEXT_BYTES

    lines.clear()
    assert trigger_with(most + 1) is None
    assert [line for line in lines if REFUSED.match(line)], lines
