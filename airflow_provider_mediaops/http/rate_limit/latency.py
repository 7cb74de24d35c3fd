"""How long replies take as a rule, to tell which requests may have reached the service late. No clock and no store."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

# What a reply may take longer than usual, in seconds and in mean deviations, before it is noticed.
_UNNOTICED, _DEVIATIONS = 0.005, 4.0
# Three in four replies that are within this time of the fastest differ by what holds requests up on a busy machine;
# beyond it, by the service's work. A reply that is as short as this may be all waiting and no work.
_ALIKE, _SHORT = 0.05, 0.1
# So many replies are looked back at; from so few of them, the least time that one takes is not known.
_LOOKED_AT, _FEW = 16, 4
# The weight of one reply in the mean and in the deviation, those of a round trip in TCP (RFC 6298).
_OF_MEAN, _OF_DEVIATION = 1 / 8, 1 / 4


@dataclass(slots=True)
class Latency:
    """The usual time from a request to its reply, for one client of a service."""

    _latest: deque[float] = field(default_factory=lambda: deque(maxlen=_LOOKED_AT), init=False)
    _mean: float = field(default=0.0, init=False)
    _deviation: float = field(default=0.0, init=False)

    def delay(self, seconds: float) -> float:
        """
        Count a reply, and say by how much its request may have been late.

        Of the first reply nothing is known but that a name was looked up for it, and a connection made.

        :param seconds: the time from the request to its reply.
        :returns: the seconds by which it took longer than usual, and than what is not noticed; 0.0 where it did not.
        """
        beyond, noticed = seconds - self._mean, max(_UNNOTICED, _DEVIATIONS * self._deviation)
        self._count(seconds, min(beyond, noticed))
        if self._are_alike():
            return max(0.0, seconds - self._least() - _UNNOTICED)
        return beyond if beyond > noticed else 0.0

    def _count(self, seconds: float, beyond: float) -> None:
        self._latest.append(seconds)
        if len(self._latest) == 1:
            self._mean, self._deviation = seconds, seconds / 2
        else:
            # One that was held up says little of those to come.
            self._deviation += _OF_DEVIATION * (abs(beyond) - self._deviation)
            self._mean += _OF_MEAN * beyond

    def _are_alike(self) -> bool:
        in_order = sorted(self._latest)
        are_few = len(in_order) < _LOOKED_AT and in_order[0] < _SHORT
        return are_few or in_order[(len(in_order) - 1) * 3 // 4] - in_order[0] < _ALIKE

    def _least(self) -> float:
        fastest, replies = min(self._latest), len(self._latest)
        is_known = replies > _FEW or (replies > 1 and fastest >= _SHORT)
        return fastest if is_known else 0.0
