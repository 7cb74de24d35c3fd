"""Deferred enrichments against their model, and worlds in which the model fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_mediaops.enrichment import deferred_list
from airflow_provider_mediaops.operators import dataset_owner, enrichment_arguments
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from tests.models.deferred_enrichment_model import DeferredEnrichmentMachine
from tests.models.places import DiskPlace
from tests.models.settings import try_examples
from tests.models.worlds import World

_OWNER_OF, _SERIALIZE = dataset_owner.owner_of, EnrichmentTrigger.serialize


def test_a_deferred_enrichment_is_what_its_model_says() -> None:
    try_examples(DeferredEnrichmentMachine)


def _owner_without_clears(*arguments: Any) -> Owner:
    return replace(_OWNER_OF(*arguments), clears=0)


def _serialized_with_another_list(trigger: EnrichmentTrigger) -> tuple[str, dict[str, Any]]:
    path, arguments = _SERIALIZE(trigger)
    return path, {**arguments, "enrichment": {**arguments["enrichment"], "version": "another"}}


def _nothing(*_: Any) -> None:
    """Do nothing."""


WORLDS = {
    "the list is left": World(deferred_list, "drop_list", _nothing, "left behind", DiskPlace),
    "a row is of another list": World(
        EnrichmentTrigger, "serialize", _serialized_with_another_list, "has changed", DiskPlace
    ),
    "a clear is not noticed": World(
        enrichment_arguments, "owner_of", _owner_without_clears, "the service had|left behind", DiskPlace
    ),
    "a run resumes what another has looked up": World(
        Owner,
        "folder",
        property(lambda _: "one for all"),
        "the service had|other figures|nothing is published",
        DiskPlace,
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WORLDS[world].check(DeferredEnrichmentMachine, monkeypatch)
