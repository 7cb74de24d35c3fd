"""How long replies take as a rule, to tell which requests may have reached the service late. No clock and no store."""

from __future__ import annotations

from dataclasses import dataclass, field

# What a reply may take longer than usual, in seconds and in mean deviations, before it is noticed.
_UNNOTICED, _DEVIATIONS = 0.005, 4.0
# Below this time, replies differ by what holds requests up on a busy machine, and not by the service's work.
_SHORT = 0.05
# The weight of one reply in the mean and in the deviation, those of a round trip in TCP (RFC 6298).
_OF_MEAN, _OF_DEVIATION = 1 / 8, 1 / 4


@dataclass(slots=True)
class Latency:
    """The usual time from a request to its reply, for one client of a service."""

    _replies: int = field(default=0, init=False)
    _mean: float = field(default=0.0, init=False)
    _deviation: float = field(default=0.0, init=False)

    def delay(self, seconds: float) -> float:
        """
        Count a reply, and say by how much its request may have been late.

        Of the first reply nothing is known but that a name was looked up for it, and a connection made.

        :param seconds: the time from the request to its reply.
        :returns: the seconds by which it took longer than usual; 0.0 where it took about as long as they do.
        """
        self._replies += 1
        if self._replies == 1:
            self._mean = seconds
            return seconds if seconds > _UNNOTICED else 0.0
        if self._replies == 2:  # noqa: PLR2004 the first without such extras, so it should take no longer
            beyond, self._mean = seconds - self._mean, min(seconds, self._mean)
            self._deviation = self._mean / 2
            return beyond if beyond > _UNNOTICED else 0.0
        beyond = seconds - self._mean
        noticed = max(_UNNOTICED, _DEVIATIONS * self._deviation) if self._mean >= _SHORT else _UNNOTICED
        # One that was held up says little of those to come.
        counted = min(beyond, noticed)
        self._deviation += _OF_DEVIATION * (abs(counted) - self._deviation)
        self._mean += _OF_MEAN * counted
        return beyond if beyond > noticed else 0.0
