"""Two attempts at one destination, with a switch between any two of their requests, and three in any order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_mediaops.exceptions import DestinationInUseError
from tests.unit.storage.dying import DeathError
from tests.unit.storage.interleaving import interleave, requests_of
from tests.unit.storage.places import owner
from tests.unit.storage.turns import (
    World,
    actors,
    check_committed,
    check_next_attempt,
)

STORES = pytest.mark.parametrize("conditional", [True, False], ids=["conditional", "unconditional"])
ROLLING: dict[str, int] = {}
SINGLE, BLOCKS = {"segment_bytes": 1}, {"block_bytes": 1}


@pytest.mark.long
@STORES
@pytest.mark.parametrize("retry", [True, False], ids=["retry", "another task"])
@pytest.mark.parametrize("sizes", [ROLLING, BLOCKS], ids=["one request", "blocks"])
def test_a_switch_between_any_two_requests(conditional: bool, retry: bool, sizes: dict[str, int]) -> None:  # noqa: FBT001
    total = requests_of(World(2, conditional, sizes))
    for before in range(total):
        for between in range(1, total + 4):
            world = World(2, conditional, sizes)
            interleave(world, before, between, retry=retry)


@pytest.mark.long
@STORES
@pytest.mark.parametrize("retry", [True, False], ids=["retry", "another task"])
def test_a_switch_between_any_two_requests_of_a_publication_with_a_companion(
    conditional: bool,  # noqa: FBT001
    retry: bool,  # noqa: FBT001
) -> None:
    total = requests_of(World(1, conditional, has_companion=True))
    # Before these, nothing is published; the other test has those, and files that go up in blocks.
    for before in range(total // 3, total):
        for between in range(1, total + 4):
            world = World(1, conditional, has_companion=True)
            interleave(world, before, between, retry=retry)
            check_next_attempt(world)


@STORES
@pytest.mark.parametrize("retry", [True, False], ids=["retry", "another task"])
def test_a_companion_goes_with_its_file_whoever_comes_between(conditional: bool, retry: bool) -> None:  # noqa: FBT001
    total = requests_of(World(1, conditional, has_companion=True))
    for before in range(total // 3, total):
        # Another attempt that only acquires, and one that comes to its end.
        for between in (8, total + 4):
            world = World(1, conditional, has_companion=True)
            interleave(world, before, between, retry=retry)
            check_next_attempt(world)


STEPS = st.tuples(
    st.integers(0, 2), st.sampled_from(["", "", "", "refused", "reply lost", "late", "dies"]), st.integers(1, 30)
)


@pytest.mark.long
@STORES
@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from([(5, ROLLING), (9, SINGLE), (40, ROLLING), (7, {"segment_bytes": 150})]),
    st.lists(STEPS, min_size=2, max_size=14),
    st.booleans(),
)
def test_three_attempts_in_any_order(
    conditional: bool,  # noqa: FBT001
    shape: tuple[int, dict[str, int]],
    schedule: list[tuple[int, str, int]],
    has_companion: bool,  # noqa: FBT001
) -> None:
    world = World(shape[0], conditional, shape[1], has_companion=has_companion)
    with actors(world, first=owner(), second=owner(), third=owner()) as made:
        for number, event, steps in schedule:
            if event == "dies":
                made[number].die()
            elif event == "late":
                # Long enough for the next look at the lease.
                world.now += 40
            else:
                made[number].fault = event
            made[number].step(steps)
        for actor in made:
            actor.die()
            assert isinstance(actor.outcome, (type(None), DeathError, OSError, DestinationInUseError)), actor.outcome
        # What was committed although it seemed to fail is committed again; an heir may know of the first try only.
        if "reply lost" not in {event for _, event, _ in schedule}:
            for actor in made:
                check_committed(world, actor)
    check_next_attempt(world)
