"""The usual time from a question to its answer, to notice requests that may have reached the service late. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

#: Lateness of less is not noticed: the guard band of the window absorbs it.
UNNOTICED_SECONDS = 0.004
# Three in four replies lie within the spread. If it is wide, or if replies take time, it is that of the service's own
# work, which is not taken for lateness: up to this multiple of it, and up to the time of the fastest reply if it is not
# wide. Shorter replies may be all waiting and no work: any spread of theirs is that of a busy machine.
_SPREADS, _WIDE_SECONDS, _SHORT_SECONDS = 2.0, 0.05, 0.03
# So few replies do not show their spread; if they are short, nor how fast a reply is that did not wait.
_FEW = 4
# The number of latest replies that are compared.
_REPLIES = 16


@dataclass(slots=True)
class Latency:
    """
    The latest times from request to reply, for one client of a service.

    :param has_work: whether the service may take its time, and not always as long. If not, as a rate store, all that
        exceeds the fastest of the latest replies is lateness: a busy machine is late again and again.
    """

    has_work: bool = True
    _latest: deque[float] = field(default_factory=lambda: deque(maxlen=_REPLIES), init=False)

    def delay(self, seconds: float, *, was_connected: bool = False) -> float:
        """
        Count a reply, and return by how much its request may have reached the service late.

        The first reply counts whole, if a name may have been looked up and a connection made for it.

        :param seconds: the time from the request to its reply.
        :param was_connected: whether the time begins when the request was sent, over a connection that was made by
            then. A first reply of such a time is the service's work, unless it is short.
        :returns: by how many seconds it is slower than the fastest of the latest replies; 0.0 if that is usual.
        """
        self._latest.append(seconds)
        in_order = sorted(self._latest)
        fastest, spread = in_order[0], in_order[(len(in_order) - 1) * 3 // 4] - in_order[0]
        are_few, are_short = len(in_order) <= _FEW, fastest < _SHORT_SECONDS
        usual = self._usual(fastest, spread, are_few=are_few)
        if are_few and (are_short or (len(in_order) == 1 and not was_connected)):
            fastest, usual = 0.0, 0.0
        beyond = seconds - fastest
        return beyond if beyond > usual + UNNOTICED_SECONDS else 0.0

    def _usual(self, fastest: float, spread: float, *, are_few: bool) -> float:
        if not self.has_work:
            return 0.0
        if spread > _WIDE_SECONDS:
            return _SPREADS * spread
        if fastest < _SHORT_SECONDS:
            return 0.0
        return fastest if are_few else min(_SPREADS * spread, fastest)
