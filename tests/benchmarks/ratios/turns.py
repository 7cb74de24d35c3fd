"""Two pieces of work that take turns, and the ratio of the processor times that they take undisturbed."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The share of the turns of each that are taken for undisturbed.
UNDISTURBED = 0.1


def undisturbed_ratio(ours: Callable[[], float], peer: Callable[[], float], turns: int) -> float:
    """
    Do two pieces of work by turns, and compare the times that they take undisturbed.

    What else a machine does makes a turn longer: another program takes the caches, or the processor slows down. Both
    have many short turns in each state of the machine, so their fast turns are of the same state.

    :param turns: how many turns each has.
    """
    # What is imported or opened once is no part of a turn, nor is looking through it for garbage.
    ours()
    peer()
    gc.collect()
    gc.freeze()
    pairs: list[tuple[float, float]] = []
    for _ in range(turns):
        # No turn clears away what the one before has left.
        gc.collect()
        our_time = ours()
        gc.collect()
        pairs.append((our_time, peer()))
    gc.unfreeze()
    our_times, peer_times = zip(*pairs, strict=True)
    return _undisturbed(our_times) / _undisturbed(peer_times)


def _undisturbed(times: Sequence[float]) -> float:
    return sorted(times)[int(UNDISTURBED * len(times))]
