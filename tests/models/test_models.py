"""Exports and bulletins against their models, and worlds in which a model fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from airflow_provider_mediaops.http import errors
from airflow_provider_mediaops.storage.dataset import Staging
from airflow_provider_mediaops.storage.local import LocalBackend
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.triggers.dataset import DatasetTrigger
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
from airflow_provider_mediaops.video.at_most_once import Delivery
from airflow_provider_mediaops.video.paging import ListedPage, Listing
from tests.models.bulletin_model import BulletinMachine
from tests.models.export_model import TO_ITS_END, ExportMachine
from tests.models.places import DiskPlace, StorePlace

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.storage.files import Version
    from airflow_provider_mediaops.storage.scratch import NewFile
    from airflow_provider_mediaops.video.models import SubscriptionPage
    from tests.models.places import ModelPlace

_BY_HAND = os.environ.get("MODEL_EXAMPLES")
#: In CI the same examples in each run. ``MODEL_EXAMPLES=50000`` tries so many others, by hand.
SETTINGS = hypothesis.settings(
    max_examples=int(_BY_HAND or 400),
    derandomize=_BY_HAND is None,
    database=None,
    deadline=None,
    stateful_step_count=16,
    suppress_health_check=list(hypothesis.HealthCheck),
)
# That there is a failure is the point, and not which one is the smallest.
_UNTIL_ONE_FAILS = hypothesis.settings(
    SETTINGS, max_examples=2_000, derandomize=True, phases=[hypothesis.Phase.generate], report_multiple_bugs=False
)

_DECIDE, _PUBLISH, _COMMIT = Delivery.decide, LocalBackend.publish, Staging.commit
_TAKE, _PAYLOAD, _SERIALIZE = Listing._take, DatasetTrigger._payload, ExportSubscriptionsTrigger.serialize  # noqa: SLF001


def try_history(machine: Any, history: Callable[[Any, int], None]) -> None:
    """Try a history that is written down, for a fault that few examples of chance meet."""
    for steps in range(60):
        example = machine()
        try:
            history(example, steps)
        finally:
            example.teardown()


class World(NamedTuple):
    """
    A fault of the package, and what a model says about it.

    :param owner: what has the fault: a class or a module.
    :param name: the name of what is replaced there.
    :param message: a pattern of what the model says.
    :param place: the only place of all examples of an export; None if the examples choose.
    :param is_deferred: whether the tasks of all examples of an export are deferred.
    :param history: calls rules of the model, for a fault that few examples of chance meet; None if the examples do.
    """

    owner: object
    name: str
    fault: Any
    message: str
    place: type[ModelPlace] | None = None
    is_deferred: bool = False
    history: Callable[[Any, int], None] | None = None


@pytest.mark.parametrize("machine", [BulletinMachine, ExportMachine])
def test_a_task_is_what_its_model_says(machine: Any) -> None:
    run_state_machine_as_test(machine, settings=SETTINGS)


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


def _take_all(listing: Listing, page: SubscriptionPage) -> ListedPage:
    return replace(_TAKE(listing, page), fresh=page.items)


def _publish_anyway(backend: LocalBackend, new: NewFile, _replaces: Version | None) -> Version:
    return _PUBLISH(backend, new, backend.version())


async def _payload_even_if_cancelled(trigger: DatasetTrigger) -> dict[str, Any]:
    try:
        return await _PAYLOAD(trigger)
    except asyncio.CancelledError:
        return {"version": 1, "status": "done", "value": {"rows": 0}}


def _serialized_without_clears(trigger: ExportSubscriptionsTrigger) -> tuple[str, dict[str, Any]]:
    path, arguments = _SERIALIZE(trigger)
    work = arguments["work"]
    return path, {**arguments, "work": {**work, "owner": {**work["owner"], "clears": 0}}}


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


EXPORTS = {
    "a state is saved before its records": World(Staging, "commit", _commit_the_state_first, "lost", DiskPlace),
    "records that come again are kept": World(Listing, "_take", _take_all, "a record twice", StorePlace),
    "a run resumes what another has listed": World(
        Owner,
        "folder",
        property(lambda _: "one for all"),
        "list|other figures|nothing is published|nobody disturbed it",
        DiskPlace,
    ),
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
    "a row forgets the clears": World(
        ExportSubscriptionsTrigger, "serialize", _serialized_without_clears, "list", DiskPlace, is_deferred=True
    ),
}
BULLETINS = {
    "a lost reply is tried again": World(errors, "_of_a_write", lambda _, error: error, "posted |not its own id"),
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
            ("bulletins", BulletinMachine, BULLETINS),
        )
        for what, world in worlds.items()
    ],
)
def test_the_model_fails_where(machine: Any, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = partial(run_state_machine_as_test, machine, settings=_UNTIL_ONE_FAILS)
    if world.history:
        examples = partial(try_history, machine, world.history)
        # Else the history itself might be what fails.
        examples()
    monkeypatch.setattr(world.owner, world.name, world.fault)
    if world.place:
        monkeypatch.setattr(machine, "only", world.place)
        monkeypatch.setattr(machine, "only_deferred", world.is_deferred)

    with pytest.raises(AssertionError, match=world.message):
        examples()


def test_a_trigger_that_has_waited_begins_again() -> None:
    try_history(ExportMachine, _one_begins_again_after_another)
