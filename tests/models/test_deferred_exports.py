"""Deferred exports against their model, and worlds in which the model fails."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.storage.held_lease import HeldLease
from airflow_provider_mediaops.triggers import base, dataset
from airflow_provider_mediaops.triggers.dataset import DatasetTrigger
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
from tests.models.deferred_export_model import DeferredExportMachine
from tests.models.places import DiskPlace, StorePlace
from tests.models.settings import failure_of, try_examples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractContextManager

    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.ownership import Owner
    from tests.models.places import ModelPlace

_PAYLOAD, _SERIALIZE = DatasetTrigger._payload, ExportSubscriptionsTrigger.serialize  # noqa: SLF001


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


#: Each is a fault of the package, where it shows, and a pattern of what the model says about it.
WORLDS: dict[str, tuple[object, str, Any, type[ModelPlace], str]] = {
    "a cancelled trigger sends an event": (
        DatasetTrigger,
        "_payload",
        _payload_even_if_cancelled,
        DiskPlace,
        "although it was cancelled|other figures|nothing is published",
    ),
    "a cancelled trigger keeps its lease": (
        dataset,
        "_entered",
        _entered_and_kept_if_cancelled,
        StorePlace,
        "nobody disturbed it: .*InUse",
    ),
    "a trigger keeps its lease while it waits": (
        DatasetTrigger,
        "_written",
        _written_in_one_staging,
        StorePlace,
        "nobody disturbed it: .*InUse",
    ),
    "a trigger does not wait for a quota": (
        ExportSubscriptionsTrigger,
        "_pause_after",
        _never,
        StorePlace,
        "nobody disturbed it: .*QuotaExceeded",
    ),
    "an event comes at once": (base, "settled", _at_once, DiskPlace, "before the task may resume"),
    "a row forgets the clears": (
        ExportSubscriptionsTrigger,
        "serialize",
        _serialized_without_clears,
        DiskPlace,
        "",
    ),
    "a row cannot be used": (
        ExportSubscriptionsTrigger,
        "serialize",
        _serialized_with_another_size,
        DiskPlace,
        "nobody disturbed it",
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, fault, place, message = WORLDS[world]
    monkeypatch.setattr(owner, name, fault)
    monkeypatch.setattr(DeferredExportMachine, "only", place)
    found = failure_of(DeferredExportMachine)
    assert found
    assert re.search(message, found)
