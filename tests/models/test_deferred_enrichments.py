"""Deferred enrichments against their model, and worlds in which the model fails."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_mediaops.enrichment import attempt
from airflow_provider_mediaops.operators import dataset_owner, enrichment_arguments
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from tests.models.deferred_enrichment_model import DeferredEnrichmentMachine
from tests.models.places import DiskPlace
from tests.models.settings import failure_of, try_examples

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


#: Each is a fault of the package, where it shows, and a pattern of what the model says about it.
WORLDS: dict[str, tuple[object, str, Any, str]] = {
    "the list is left": (attempt, "drop_list", _nothing, "left behind"),
    "a row is of another list": (EnrichmentTrigger, "serialize", _serialized_with_another_list, "has changed"),
    "a clear is not noticed": (enrichment_arguments, "owner_of", _owner_without_clears, "left behind"),
    "a run resumes what another has looked up": (Owner, "continues", lambda *_: True, "the service had"),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, fault, message = WORLDS[world]
    monkeypatch.setattr(owner, name, fault)
    monkeypatch.setattr(DeferredEnrichmentMachine, "only", DiskPlace)
    found = failure_of(DeferredEnrichmentMachine)
    assert found
    assert re.search(message, found)
