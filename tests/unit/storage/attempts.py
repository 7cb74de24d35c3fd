"""Attempts at a dataset: to begin one on an object store, to have one die there, and to see where the next resumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.storage.dying import DeathError, Life
from tests.unit.storage.places import Place, StoppedError, owner, stopped

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from airflow_provider_mediaops.storage.dataset import Staging
    from tests.unit.storage.conftest import Store

LEASE = "/bucket/top/.d.jsonl.checkpoint"


def begin(place: Place, task: str = "dag/run/task/-1", name: str = "d.jsonl") -> tuple[Any, Staging]:
    """Begin an attempt that other attempts may come upon; give what ends it, and what it commits to."""
    block: AbstractContextManager[Staging] = place.dataset(name).staging(owner(task))
    return block, block.__enter__()


def die(patch: pytest.MonkeyPatch, store: Store, place: Place, *batches: list[dict[str, Any]]) -> None:
    """Commit batches, and die without a word to the store."""
    block, staging = begin(place)
    for batch in batches:
        staging.commit(batch, staging.rows)
    with patch.context() as dead:
        Life(dead, left=0).of(store)
        with pytest.raises(DeathError):
            block.__exit__(StoppedError, StoppedError(), None)


def resumed(place: Place) -> tuple[int | None, list[dict[str, Any]]]:
    """Return the batch and the records with which the next attempt begins."""
    with stopped(), place.dataset().staging(owner()) as staging:
        found = staging.state["batch"] if staging.state else None, list(staging.records())
        assert staging.resumed is (found[0] is not None)
        raise StoppedError
    return found
