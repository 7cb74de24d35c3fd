"""Read the state of a key off its schedule: reserved slots, a pause, a lower rate, a quota that is used up. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.schedule import Schedule

State: TypeAlias = Literal["free", "reserved", "paused", "exhausted"]

# The share of a slot by which rounding may move its time.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class KeyState:
    """
    The state of a key at a moment.

    :param exhausted_seconds: until the key's quota is restored; 0 if it is not known to be used up.
    :param paused_seconds: until the end of the latest pause; 0 if there is none.
    :param reserved_seconds: from now, or from the end of the pause, until the first slot that is free.
    :param reserved: the number of slots ahead that are reserved; None if the key's rate is not known.
    :param rate_factor: the share of the rate that is used: below 1 after the service refused a request.
    :param idle_seconds: since the latest request was permitted; None if none is known.
    """

    exhausted_seconds: float
    paused_seconds: float
    reserved_seconds: float
    reserved: int | None
    rate_factor: float
    idle_seconds: float | None

    @classmethod
    def of(cls, schedule: Schedule, now: float, gap: float | None = None) -> KeyState:
        """
        Read the state of a key off its schedule.

        :param schedule: the schedule.
        :param now: the time on the store's clock.
        :param gap: seconds from one slot to the next at the full rate; None if the rate is not known.
        :returns: the state.
        """
        now = max(now, schedule.seen)
        first = schedule.position(now)
        ahead = max(0.0, schedule.next_free - first)
        past = [moment for moment in schedule.sent if moment <= now]
        return cls(
            exhausted_seconds=max(0.0, schedule.blocked_until - now),
            paused_seconds=max(0.0, schedule.paused_until - now),
            reserved_seconds=ahead,
            reserved=None if gap is None else _slots(schedule, first, gap / schedule.rate_factor),
            rate_factor=schedule.rate_factor,
            idle_seconds=now - past[-1] if past else None,
        )

    @property
    def state(self) -> State:
        """Return the state in a word: of several, the one that delays the next request the longest."""
        if self.exhausted_seconds:
            return "exhausted"
        if self.paused_seconds:
            return "paused"
        return "reserved" if self.reserved or (self.reserved is None and self.reserved_seconds) else "free"


def _slots(schedule: Schedule, first: float, gap: float) -> int:
    # The last slot is a gap before the next free one; a slot that was due before now was used, or passed.
    ahead = math.floor((schedule.next_free - first) / gap + _ROUNDING)
    free_again = sum(position >= first for position in schedule.vacant)
    return max(0, ahead - free_again)
