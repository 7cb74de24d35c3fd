"""The state of a key, for people: reserved slots, a pause, a lower rate, an exhausted quota. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from airflow_provider_mediaops.http.rate_limit.schedule import GUARD, from_text, reading_at

State: TypeAlias = Literal["free", "reserved", "paused", "exhausted"]

# The share of a slot by which rounding may move its time.
_ROUNDING = 0.001


@dataclass(frozen=True, slots=True)
class KeyState:
    """
    The state of a key at a moment.

    :param exhausted_seconds: until the key's quota is restored; 0 if it is not known to be used up.
    :param paused_seconds: until the end of the pause; 0 if there is none.
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

    @property
    def state(self) -> State:
        """The state in a word: of several, the one that delays the next request the longest."""
        if self.exhausted_seconds:
            return "exhausted"
        if self.paused_seconds:
            return "paused"
        return "reserved" if self.reserved or (self.reserved is None and self.reserved_seconds) else "free"


def state_of(text: str | None, now: float, rate: float | None = None) -> KeyState | None:
    """Read the state of a key off the text that a back end keeps of it; None if there is none, or a damaged one."""
    schedule = from_text(text, now) if text else None
    if not schedule:
        return None
    ahead = max(0.0, schedule.next_free - reading_at(schedule, now))
    return KeyState(
        exhausted_seconds=max(0.0, schedule.blocked_until - now),
        paused_seconds=max(0.0, schedule.at - now),
        reserved_seconds=ahead / schedule.speed,
        # The last slot is a gap before the first free one. A slot that was due before now was used, or passed.
        reserved=None if rate is None else math.floor(ahead * rate / GUARD + _ROUNDING),
        rate_factor=schedule.speed,
        idle_seconds=max(0.0, now - schedule.sent[-1]) if schedule.sent else None,
    )
