"""Deferred exports against their model, and worlds in which the model fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from airflow_provider_mediaops.operators import base as operators
from airflow_provider_mediaops.triggers import base
from airflow_provider_mediaops.triggers.dataset import DatasetTrigger
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
from tests.models.deferral import TO_ITS_END
from tests.models.deferred_export_model import DeferredExportMachine
from tests.models.places import DiskPlace, StorePlace
from tests.models.settings import failure_in, try_examples
from tests.models.worlds import World

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import TemporaryError


_PAYLOAD, _SERIALIZE = DatasetTrigger._payload, ExportSubscriptionsTrigger.serialize  # noqa: SLF001


def test_a_deferred_export_is_what_its_model_says() -> None:
    try_examples(DeferredExportMachine)


async def _payload_even_if_cancelled(trigger: DatasetTrigger) -> dict[str, Any]:
    try:
        return await _PAYLOAD(trigger)
    except asyncio.CancelledError:
        return {"version": 1, "status": "done", "value": {"rows": 0}}


def _never(_trigger: DatasetTrigger, _error: TemporaryError) -> None:
    """Wait for nothing."""


def _fail_with_it(_operator: object, error: Exception, _context: object) -> NoReturn:
    raise error


def _serialized_without_clears(trigger: ExportSubscriptionsTrigger) -> tuple[str, dict[str, Any]]:
    path, arguments = _SERIALIZE(trigger)
    export = arguments["export"]
    return path, {**arguments, "export": {**export, "owner": {**export["owner"], "clears": 0}}}


def _serialized_with_another_size(trigger: ExportSubscriptionsTrigger) -> tuple[str, dict[str, Any]]:
    path, arguments = _SERIALIZE(trigger)
    export = arguments["export"]
    return path, {**arguments, "export": {**export, "query": {**export["query"], "max_results": "three"}}}


def _one_begins_again_after_another(machine: DeferredExportMachine, steps: int) -> None:
    """Let a trigger wait for the reset of its quota, and go on once the other run has published."""
    machine.begin(place=DiskPlace, suffix="jsonl", numbers=set(), page_size=1, run="tomorrow", steps=0)
    machine.use_up_the_quota(0, 1)
    machine.start("today", steps)
    machine.start("today", TO_ITS_END)
    machine.finish(0)


WORLDS = {
    "a cancelled trigger sends an event": World(
        DatasetTrigger,
        "_payload",
        _payload_even_if_cancelled,
        "although it was cancelled|other figures|nothing is published",
        DiskPlace,
    ),
    "a trigger does not wait for a quota": World(
        ExportSubscriptionsTrigger, "_pause_after", _never, "nobody disturbed it: .*QuotaExceeded", StorePlace
    ),
    "an event comes at once": World(base.TaskTrigger, "settled_after", 0.0, "before the task may resume", DiskPlace),
    "a deferral has no time limit": World(
        operators, "deferral_timeout", lambda *_: None, "a deferral without a time limit", DiskPlace
    ),
    "a time limit is no longer that of the task": World(
        operators.ServiceOperator, "_after_deferral_timeout", _fail_with_it, "Trigger timeout", DiskPlace
    ),
    "a row forgets the clears": World(
        ExportSubscriptionsTrigger, "serialize", _serialized_without_clears, "list", DiskPlace
    ),
    "a row cannot be used": World(
        ExportSubscriptionsTrigger, "serialize", _serialized_with_another_size, "nobody disturbed it", DiskPlace
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WORLDS[world].check(DeferredExportMachine, monkeypatch)


def test_a_trigger_that_has_waited_begins_again() -> None:
    assert failure_in(DeferredExportMachine, _one_begins_again_after_another) == ""
