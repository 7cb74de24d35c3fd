"""Exports against their model, and worlds in which the model fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.operators import dataset_owner
from airflow_provider_mediaops.storage.dataset import Staging
from airflow_provider_mediaops.storage.held_lease import HeldLease
from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.video.paging import ListedPage, Listing
from tests.models.export_model import ExportMachine
from tests.models.places import DiskPlace, StorePlace
from tests.models.settings import try_examples
from tests.models.worlds import World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.video.models import SubscriptionPage

_COMMIT, _OWNER_OF, _TAKE = Staging.commit, dataset_owner.owner_of, Listing._take  # noqa: SLF001


def test_an_export_is_what_its_model_says() -> None:
    try_examples(ExportMachine)


def _commit_the_state_first(staging: Staging, records: Sequence[Mapping[str, Any]], state: Any) -> None:
    _COMMIT(staging, [], state)
    _COMMIT(staging, records, state)


def _owner_without_clears(*arguments: Any) -> Owner:
    return replace(_OWNER_OF(*arguments), clears=0)


def _take_all(listing: Listing, page: SubscriptionPage) -> ListedPage:
    return replace(_TAKE(listing, page), fresh=page.items)


def _take_any_lease(held: HeldLease) -> None:
    found = held._objects.read(held._objects.lease)  # noqa: SLF001
    held._version = found.condition  # noqa: SLF001
    held._verified = held._clock()  # noqa: SLF001


def _one_is_taken_over(machine: ExportMachine, steps: int) -> None:
    """Let an attempt stop for so long that another run takes its destination over, and then go on."""
    machine.begin(place=StorePlace, suffix="jsonl", numbers={1, 2, 3}, page_size=1, run="today", steps=steps)
    machine.let_time_pass(STALE_AFTER_SECONDS)
    machine.start("tomorrow", 1_000)
    if machine.running:
        machine.finish(0)


WORLDS = {
    "a state is saved before its records": World(Staging, "commit", _commit_the_state_first, "lost", DiskPlace),
    "records that come again are kept": World(Listing, "_take", _take_all, "a record twice", StorePlace),
    "a run resumes what another has listed": World(Owner, "continues", lambda *_: True, "list", DiskPlace),
    "a clear is not noticed": World(dataset_owner, "owner_of", _owner_without_clears, "list|left behind", DiskPlace),
    "a lease is not verified": World(
        HeldLease,
        "verify",
        _take_any_lease,
        "replaces a newer one|no dataset of any run",
        history=_one_is_taken_over,
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WORLDS[world].check(ExportMachine, monkeypatch)
