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
from tests.models.settings import try_examples
from tests.models.worlds import World

_OWNER_OF = dataset_owner.owner_of


def test_an_enrichment_is_what_its_model_says() -> None:
    try_examples(EnrichmentMachine)


def _owner_without_clears(*arguments: Any) -> Owner:
    return replace(_OWNER_OF(*arguments), clears=0)


WORLDS = {
    "a run resumes what another has looked up": World(
        Owner, "continues", lambda *_: True, "the service had", DiskPlace
    ),
    "a clear is not noticed": World(
        enrichment_arguments, "owner_of", _owner_without_clears, "the service had", DiskPlace
    ),
    "whatever is there is young enough": World(ReuseRule, "is_fresh", lambda *_, **__: True, "too long ago", DiskPlace),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WORLDS[world].check(EnrichmentMachine, monkeypatch)
