"""Exports against their model, and worlds in which the model fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.operators import dataset_owner
from airflow_provider_mediaops.storage.dataset import Staging
from airflow_provider_mediaops.storage.local import LocalBackend
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.video.paging import ListedPage, Listing
from tests.models.export_model import ExportMachine
from tests.models.places import DiskPlace, StorePlace
from tests.models.settings import try_examples
from tests.models.worlds import World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.storage.backend import Version
    from airflow_provider_mediaops.storage.scratch import NewFile
    from airflow_provider_mediaops.video.models import SubscriptionPage

_PUBLISH = LocalBackend.publish
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


def _publish_anyway(backend: LocalBackend, new: NewFile, _replaces: Version | None) -> Version:
    return _PUBLISH(backend, new, backend.version())


def _one_stands_still(machine: ExportMachine, steps: int) -> None:
    """Let an attempt stop while another run publishes, and then go on."""
    machine.begin(place=DiskPlace, suffix="jsonl", numbers={1, 2, 3}, page_size=1, run="today", steps=steps)
    machine.start("tomorrow", 1_000)
    if machine.running:
        machine.finish(0)


WORLDS = {
    "a state is saved before its records": World(Staging, "commit", _commit_the_state_first, "lost", DiskPlace),
    "records that come again are kept": World(Listing, "_take", _take_all, "a record twice", StorePlace),
    "a run resumes what another has listed": World(
        Owner, "folder", property(lambda _: "one for all"), "list|other figures|nothing is published", DiskPlace
    ),
    "a clear is not noticed": World(dataset_owner, "owner_of", _owner_without_clears, "list", DiskPlace),
    "a version is not checked": World(
        LocalBackend, "publish", _publish_anyway, "replaces a newer one", history=_one_stands_still
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WORLDS[world].check(ExportMachine, monkeypatch)
