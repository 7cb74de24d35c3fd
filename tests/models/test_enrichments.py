"""Enrichments in both forms against their model, and worlds in which the model fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_mediaops.enrichment import deferred_list
from airflow_provider_mediaops.enrichment.reuse import ReuseRule
from airflow_provider_mediaops.operators import dataset_owner, enrichment_arguments
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from tests.models.enrichment_model import EnrichmentMachine
from tests.models.places import DiskPlace
from tests.models.settings import try_examples
from tests.models.worlds import World

_OWNER_OF, _SERIALIZE = dataset_owner.owner_of, EnrichmentTrigger.serialize
BOOKS = tuple(sample_isbns(2))


def test_an_enrichment_is_what_its_model_says() -> None:
    try_examples(EnrichmentMachine)


def _owner_without_clears(*arguments: Any) -> Owner:
    return replace(_OWNER_OF(*arguments), clears=0)


def _serialized_with_another_list(trigger: EnrichmentTrigger) -> tuple[str, dict[str, Any]]:
    path, arguments = _SERIALIZE(trigger)
    return path, {**arguments, "enrichment": {**arguments["enrichment"], "version": "another"}}


def _nothing(*_: Any) -> None:
    """Do nothing."""


def _begin(machine: EnrichmentMachine, steps: int) -> None:
    """Begin a list of two books, one of which changes later."""
    known = {"books": set(BOOKS), "reuses": False, "max_requests": None, "is_bulk": False, "is_deferred": False}
    machine.begin(place=DiskPlace, texts=list(BOOKS), run="today", steps=steps, **known)


def _one_dies_and_another_run_begins(machine: EnrichmentMachine, steps: int) -> None:
    _begin(machine, steps)
    if machine.running:
        machine.kill(0, 0, tears=False)
    machine.let_time_pass(40.0)
    machine.change_a_book(BOOKS[0])
    machine.let_time_pass(40.0)
    machine.complete("tomorrow")


def _one_is_cleared_after_its_end(machine: EnrichmentMachine, steps: int) -> None:
    _begin(machine, steps)
    if machine.running:
        machine.finish(0)
    machine.let_time_pass(40.0)
    machine.change_a_book(BOOKS[0])
    machine.let_time_pass(40.0)
    machine.clear("today")
    machine.complete("today")


WORLDS = {
    "a run resumes what another has looked up": World(
        Owner,
        "folder",
        property(lambda _: "one for all"),
        "the service had|other figures|nothing is published",
        history=_one_dies_and_another_run_begins,
    ),
    "a clear is not noticed": World(
        enrichment_arguments,
        "owner_of",
        _owner_without_clears,
        "the service had",
        history=_one_is_cleared_after_its_end,
    ),
    "whatever is there is young enough": World(ReuseRule, "is_fresh", lambda *_, **__: True, "too long ago", DiskPlace),
    "the list of a deferred task is left": World(
        deferred_list, "drop_list", _nothing, "left behind", DiskPlace, is_deferred=True
    ),
    "a row is of another list": World(
        EnrichmentTrigger, "serialize", _serialized_with_another_list, "has changed", DiskPlace, is_deferred=True
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WORLDS[world].check(EnrichmentMachine, monkeypatch)
