"""Deferred exports against their model, and worlds in which the model fails."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.operators import video as video_operators
from airflow_provider_mediaops.storage.held_lease import HeldLease
from airflow_provider_mediaops.storage.lease import Lease
from airflow_provider_mediaops.storage.ownership import Receipt
from airflow_provider_mediaops.triggers import base, dataset
from airflow_provider_mediaops.triggers.dataset import DatasetTrigger
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
from tests.models.deferral import TO_ITS_END
from tests.models.deferred_export_model import DeferredExportMachine
from tests.models.places import DiskPlace, StorePlace
from tests.models.settings import failure_in, try_examples
from tests.models.worlds import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
    from contextlib import AbstractContextManager

    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.ownership import Owner
    from airflow_provider_mediaops.storage.segments import Segment

_PAYLOAD, _SERIALIZE = DatasetTrigger._payload, ExportSubscriptionsTrigger.serialize  # noqa: SLF001
_ACQUIRED_BY = Lease.acquired_by


def test_a_deferred_export_is_what_its_model_says() -> None:
    try_examples(DeferredExportMachine)


async def _payload_even_if_cancelled(trigger: DatasetTrigger) -> dict[str, Any]:
    try:
        return await _PAYLOAD(trigger)
    except asyncio.CancelledError:
        return {"version": 1, "status": "done", "value": {"rows": 0}}


@asynccontextmanager
async def _entered_and_kept_if_cancelled(manager: AbstractContextManager[Any]) -> AsyncIterator[Any]:
    value = manager.__enter__()
    try:
        yield value
    except BaseException as error:
        is_kept = isinstance(error, asyncio.CancelledError)
        with mock.patch.object(HeldLease, "release") if is_kept else nullcontext():
            manager.__exit__(type(error), error, error.__traceback__)
        raise
    else:
        manager.__exit__(None, None, None)


async def _written_in_one_staging(
    trigger: DatasetTrigger, made: Dataset, owner: Owner, attempt: Callable[[Staging], Awaitable[None]]
) -> dict[str, Any]:
    """Write a dataset, and keep its destination while the trigger waits."""
    summary = made.published(owner)
    if summary is not None:
        return summary
    with made.staging(owner) as staging:
        while True:
            try:
                await attempt(staging)
            except TemporaryError as error:
                pause = trigger._pause_after(error)  # noqa: SLF001
                if pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                break
    return staging.summary


async def _at_once(_trigger: object, work: Awaitable[Any], _seconds: float) -> Any:
    return await work


def _never(_trigger: DatasetTrigger, _error: TemporaryError) -> None:
    """Wait for nothing."""


def _serialized_without_clears(trigger: ExportSubscriptionsTrigger) -> tuple[str, dict[str, Any]]:
    path, arguments = _SERIALIZE(trigger)
    export = arguments["export"]
    return path, {**arguments, "export": {**export, "owner": {**export["owner"], "clears": 0}}}


def _serialized_with_another_size(trigger: ExportSubscriptionsTrigger) -> tuple[str, dict[str, Any]]:
    path, arguments = _SERIALIZE(trigger)
    export = arguments["export"]
    return path, {**arguments, "export": {**export, "query": {**export["query"], "max_results": "three"}}}


def _acquired_without_receipt(
    lease: Lease, owner: Owner, token: str, since: float, segments: Iterable[Segment], _found_receipt: Receipt | None
) -> Lease:
    return _ACQUIRED_BY(lease, owner, token, since, segments, None)


def _alone(receipt: Receipt, _latest: Receipt | None) -> Receipt:
    return receipt


def _begin(machine: DeferredExportMachine, steps: int) -> None:
    # A third of the steps are the trigger's.
    begun = {"suffix": "jsonl", "numbers": {1, 2, 3}, "page_size": 1, "run": "today", "steps": 3 * steps}
    machine.begin(place=StorePlace, **begun)


def _one_is_cancelled(machine: DeferredExportMachine, steps: int) -> None:
    """Cancel a trigger, and have the other run begin."""
    _begin(machine, steps)
    if machine.triggerers:
        machine.cancel(0, 0, TO_ITS_END, None)
    machine.start("tomorrow", TO_ITS_END)


def _one_waits(machine: DeferredExportMachine, steps: int) -> None:
    """Let a trigger wait for the reset of its quota, and have the other run begin."""
    _begin(machine, steps)
    if machine.triggerers:
        machine.use_up_the_quota(0, 1)
    machine.start("tomorrow", TO_ITS_END)


def _one_begins_again_after_another(machine: DeferredExportMachine, steps: int) -> None:
    """Let a trigger wait for the reset of its quota, and go on once the other run has published."""
    machine.begin(place=DiskPlace, suffix="jsonl", numbers=set(), page_size=1, run="tomorrow", steps=0)
    machine.use_up_the_quota(0, 1)
    machine.start("today", steps)
    machine.start("today", TO_ITS_END)
    machine.finish(0)


def _one_dies_before_its_receipt(machine: DeferredExportMachine, steps: int) -> None:
    """Let a trigger replace what another one of its try has published, and die; then clear the task."""
    machine.begin(place=StorePlace, suffix="jsonl", numbers=set(), page_size=1, run="today", steps=steps)
    machine.start("today", TO_ITS_END)
    while machine.running and len(machine.published) == 1:
        machine.advance(0, 1)
    if machine.running:
        machine.kill(0, 0, tears=False)
    machine.change_a_record(0)
    machine.start("today", 1)
    machine.clear("today")
    machine.complete("today")


def _one_goes_on_after_another_run(machine: DeferredExportMachine, steps: int) -> None:
    """Let a trigger wait while its task publishes, and then the other run; it goes on, and dies. Clear the task."""
    machine.begin(place=StorePlace, suffix="jsonl", numbers=set(), page_size=1, run="today", steps=0)
    machine.use_up_the_quota(0, 1)
    machine.start("today", TO_ITS_END)
    for _ in ("the task", "its trigger"):
        machine.start("tomorrow", TO_ITS_END)
    if machine.running:
        machine.advance(0, steps)
    if machine.running:
        machine.kill(0, 0, tears=False)
    machine.start("today", 1)
    machine.change_a_record(0)
    machine.clear("today")
    machine.complete("today")


WORLDS = {
    "a cancelled trigger sends an event": World(
        DatasetTrigger,
        "_payload",
        _payload_even_if_cancelled,
        "although it was cancelled|other figures|nothing is published",
        DiskPlace,
    ),
    "a cancelled trigger keeps its lease": World(
        dataset,
        "_entered",
        _entered_and_kept_if_cancelled,
        "nobody disturbed it: .*InUse",
        history=_one_is_cancelled,
    ),
    "a trigger keeps its lease while it waits": World(
        DatasetTrigger, "_written", _written_in_one_staging, "nobody disturbed it: .*InUse", history=_one_waits
    ),
    "a trigger does not wait for a quota": World(
        ExportSubscriptionsTrigger, "_pause_after", _never, "nobody disturbed it: .*QuotaExceeded", StorePlace
    ),
    "an event comes at once": World(base, "settled", _at_once, "before the task may resume", DiskPlace),
    "a deferral has no time limit": World(
        video_operators, "deferral_timeout", lambda *_: None, "a deferral without a time limit", DiskPlace
    ),
    "a time limit is no longer that of the task": World(
        video_operators, "ending_at_execution_timeout", lambda _: nullcontext(), "Trigger timeout", DiskPlace
    ),
    "a row forgets the clears": World(
        ExportSubscriptionsTrigger, "serialize", _serialized_without_clears, "left behind", DiskPlace
    ),
    "a lease forgets the receipt that its owner has found": World(
        Lease,
        "acquired_by",
        _acquired_without_receipt,
        "no dataset of any run: .*'today': 'not listed'",
        history=_one_dies_before_its_receipt,
    ),
    "a receipt forgets who has published before": World(
        Receipt,
        "after",
        _alone,
        "^not listed$",
        history=_one_goes_on_after_another_run,
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
