"""The usual time from a request to its reply, to notice requests that may have reached the service late. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

# A reply this much slower than the fastest is never noticed: the guard band of the window absorbs it.
_UNNOTICED_SECONDS = 0.004
# Three in four replies lie within the spread. If it is wide, or if replies take time, it is that of the service's own
# work, which is not taken for lateness: up to this multiple of it, and up to the time of the fastest reply if it is not
# wide. Shorter replies may be all waiting and no work: any spread of theirs is that of a busy machine.
_SPREADS, _WIDE_SECONDS, _SHORT_SECONDS = 2.0, 0.05, 0.03
# So few short replies do not show how fast a reply is that did not wait.
_FEW = 4
# The number of latest replies that are compared.
_REPLIES = 16


@dataclass(slots=True)
class Latency:
    """The latest times from request to reply, for one client of a service."""

    _latest: deque[float] = field(default_factory=lambda: deque(maxlen=_REPLIES), init=False)

    def delay(self, seconds: float) -> float:
        """
        Count a reply, and return by how much its request may have reached the service late.

        The first reply counts whole: its request had to look up a name and to make a connection.

        :param seconds: the time from the request to its reply.
        :returns: by how many seconds it is slower than the fastest of the latest replies; 0.0 if that is usual.
        """
        self._latest.append(seconds)
        in_order = sorted(self._latest)
        fastest, spread = in_order[0], in_order[(len(in_order) - 1) * 3 // 4] - in_order[0]
        usual = 0.0
        if spread > _WIDE_SECONDS:
            usual = _SPREADS * spread
        elif fastest >= _SHORT_SECONDS:
            usual = min(_SPREADS * spread, fastest)
        if len(in_order) == 1 or (len(in_order) <= _FEW and fastest < _SHORT_SECONDS):
            fastest = 0.0
        beyond = seconds - fastest
        return beyond if beyond > usual + _UNNOTICED_SECONDS else 0.0
