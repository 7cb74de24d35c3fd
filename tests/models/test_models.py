"""Exports, enrichments and bulletins against their models, and worlds in which a model fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from airflow_provider_mediaops.enrichment.reuse import ReuseRule
from airflow_provider_mediaops.http import client, errors
from airflow_provider_mediaops.operators import base as operators
from airflow_provider_mediaops.storage import ownership
from airflow_provider_mediaops.storage.dataset import Staging
from airflow_provider_mediaops.storage.local import LocalBackend
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.triggers import base
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from airflow_provider_mediaops.triggers.dataset import DatasetTrigger
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
from airflow_provider_mediaops.video.at_most_once import Delivery
from airflow_provider_mediaops.video.paging import ListedPage, Listing
from tests.models.bulletin_model import BulletinMachine
from tests.models.dataset_machine import TO_ITS_END
from tests.models.enrichment_model import EnrichmentMachine
from tests.models.export_model import ExportMachine
from tests.models.places import DiskPlace, StorePlace
from tests.models.worlds import World, failure_in, try_examples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.exceptions import TemporaryError
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.storage.backend import Version
    from airflow_provider_mediaops.storage.scratch import NewFile
    from airflow_provider_mediaops.video.models import SubscriptionPage

_DECIDE, _PUBLISH, _COMMIT = Delivery.decide, LocalBackend.publish, Staging.commit
_OWNER_OF, _TAKE, _PAYLOAD = ownership.owner_of, Listing._take, DatasetTrigger._payload  # noqa: SLF001
_SERIALIZE, _SERIALIZE_ENRICHMENT = ExportSubscriptionsTrigger.serialize, EnrichmentTrigger.serialize


@pytest.mark.parametrize("machine", [BulletinMachine, EnrichmentMachine, ExportMachine])
def test_a_task_is_what_its_model_says(machine: Any) -> None:
    try_examples(machine)


class _NeverRaisedError(Exception):
    """Takes the place of a class of errors that is looked for."""


def _nothing(*_: Any) -> None:
    """Do nothing."""


def _intend_after_the_post(delivery: Any, posting: CallFlow[Any]) -> CallFlow[Any]:
    activity = yield from posting
    delivery.intend()
    delivery.settle(activity)
    return activity


def _decide_without_clears(delivery: Delivery, found: Any) -> Any:
    delivery.post_again_on_clear = False
    return _DECIDE(delivery, found)


def _commit_the_state_first(staging: Staging, records: Sequence[Mapping[str, Any]], state: Any) -> None:
    _COMMIT(staging, [], state)
    _COMMIT(staging, records, state)


def _owner_without_clears(*arguments: Any) -> Owner:
    return replace(_OWNER_OF(*arguments), clears=0)


def _take_all(listing: Listing, page: SubscriptionPage) -> ListedPage:
    return replace(_TAKE(listing, page), fresh=page.items)


def _publish_anyway(backend: LocalBackend, new: NewFile, _replaces: Version | None) -> Version:
    return _PUBLISH(backend, new, backend.version())


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


def begin(machine: ExportMachine, numbers: set[int], run: str, steps: int, *, is_deferred: bool = False) -> None:
    """Begin an export to a file on the disk, a record a page."""
    how = {"place": DiskPlace, "suffix": "jsonl", "page_size": 1, "is_deferred": is_deferred}
    machine.begin(numbers=numbers, run=run, steps=steps, **how)


def _one_begins_again_after_another(machine: ExportMachine, steps: int) -> None:
    """Let a trigger wait for the reset of its quota, and go on once the other run has published."""
    begin(machine, set(), run="tomorrow", steps=0, is_deferred=True)
    machine.use_up_the_quota(0, 1)
    machine.start("today", steps)
    machine.start("today", TO_ITS_END)
    machine.finish(0)


def _one_stands_still(machine: ExportMachine, steps: int) -> None:
    """Let an attempt stop while another run publishes, and then go on."""
    begin(machine, {1, 2, 3}, run="today", steps=steps)
    machine.start("tomorrow", 1_000)
    if machine.running:
        machine.finish(0)


def _serialized_with_another_list(trigger: EnrichmentTrigger) -> tuple[str, dict[str, Any]]:
    path, arguments = _SERIALIZE_ENRICHMENT(trigger)
    return path, {**arguments, "enrichment": {**arguments["enrichment"], "version": "another"}}


EXPORTS = {
    "a state is saved before its records": World(Staging, "commit", _commit_the_state_first, "lost", DiskPlace),
    "records that come again are kept": World(Listing, "_take", _take_all, "a record twice", StorePlace),
    "a run resumes what another has listed": World(
        Owner, "folder", property(lambda _: "one for all"), "list|other figures|nothing is published", DiskPlace
    ),
    "a clear is not noticed": World(ownership, "owner_of", _owner_without_clears, "list", DiskPlace),
    "a version is not checked": World(
        LocalBackend, "publish", _publish_anyway, "replaces a newer one", history=_one_stands_still
    ),
    "a cancelled trigger sends an event": World(
        DatasetTrigger,
        "_payload",
        _payload_even_if_cancelled,
        "although it was cancelled|other figures|nothing is published",
        DiskPlace,
        is_deferred=True,
    ),
    "a trigger does not wait for a quota": World(
        ExportSubscriptionsTrigger,
        "_pause_after",
        _never,
        "nobody disturbed it: .*QuotaExceeded",
        StorePlace,
        is_deferred=True,
    ),
    "an event comes at once": World(
        base.TaskTrigger, "settled_after", 0.0, "before the task may resume", DiskPlace, is_deferred=True
    ),
    "a deferral has no time limit": World(
        operators, "deferral_timeout", lambda *_: None, "a deferral without a time limit", DiskPlace, is_deferred=True
    ),
    "a time limit is no longer that of the task": World(
        operators.ServiceOperator,
        "_after_deferral_timeout",
        _fail_with_it,
        "Trigger timeout",
        DiskPlace,
        is_deferred=True,
    ),
    "a row forgets the clears": World(
        ExportSubscriptionsTrigger, "serialize", _serialized_without_clears, "list", DiskPlace, is_deferred=True
    ),
    "a row cannot be used": World(
        ExportSubscriptionsTrigger,
        "serialize",
        _serialized_with_another_size,
        "nobody disturbed it",
        DiskPlace,
        is_deferred=True,
    ),
}
ENRICHMENTS = {
    "whatever is there is young enough": World(ReuseRule, "is_fresh", lambda *_, **__: True, "too long ago", DiskPlace),
    "a row is of another list": World(
        EnrichmentTrigger, "serialize", _serialized_with_another_list, "has changed", DiskPlace, is_deferred=True
    ),
}
BULLETINS = {
    "a lost reply is tried again": World(errors, "_of_a_write", lambda _, error: error, "posted |not its own id"),
    "a lost reply counts as a refusal": World(client, "UncertainDeliveryError", _NeverRaisedError, "posted "),
    "no intent is written": World(Delivery, "intend", _nothing, "posted |another id than before"),
    "an intent stays after a refusal": World(Delivery, "withdraw", _nothing, "ncertain"),
    "a post is not written": World(Delivery, "settle", _nothing, "ncertain|posted "),
    "the intent comes after the post": World(Delivery, "around", _intend_after_the_post, "posted"),
    "a clear posts nothing": World(Delivery, "decide", _decide_without_clears, "not posted again"),
}


@pytest.mark.parametrize(
    ("machine", "world"),
    [
        pytest.param(machine, world, id=f"{name}-{what}")
        for name, machine, worlds in (
            ("exports", ExportMachine, EXPORTS),
            ("enrichments", EnrichmentMachine, ENRICHMENTS),
            ("bulletins", BulletinMachine, BULLETINS),
        )
        for what, world in worlds.items()
    ],
)
def test_the_model_fails_where(machine: Any, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.check(machine, monkeypatch)


def test_a_trigger_that_has_waited_begins_again() -> None:
    assert failure_in(ExportMachine, _one_begins_again_after_another) == ""
