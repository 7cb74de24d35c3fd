"""Enrichments against their model, and worlds in which the model fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_mediaops.enrichment.reuse import ReuseRule
from airflow_provider_mediaops.operators import dataset_owner, enrichment_arguments
from airflow_provider_mediaops.storage.ownership import Owner
from tests.models.enrichment_model import EnrichmentMachine
from tests.models.places import DiskPlace
from tests.models.settings import failure_of, try_examples

_OWNER_OF = dataset_owner.owner_of


def test_an_enrichment_is_what_its_model_says() -> None:
    try_examples(EnrichmentMachine)


def _owner_without_clears(*arguments: Any) -> Owner:
    return replace(_OWNER_OF(*arguments), clears=0)


#: Each is a fault of the package, and a part of what the model says about it.
WORLDS: dict[str, tuple[object, str, Any, str]] = {
    "a run resumes what another has looked up": (Owner, "continues", lambda *_: True, "the service had"),
    "a clear is not noticed": (enrichment_arguments, "owner_of", _owner_without_clears, "the service had"),
    "whatever is there is young enough": (ReuseRule, "is_fresh", lambda *_, **__: True, "too long ago"),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, fault, message = WORLDS[world]
    monkeypatch.setattr(owner, name, fault)
    monkeypatch.setattr(EnrichmentMachine, "only", DiskPlace)
    found = failure_of(EnrichmentMachine)
    assert found
    assert message in found
