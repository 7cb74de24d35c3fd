"""The wait for a spike: readings of the nodes' CPU, one after the other, until nodes have been hot for long enough."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_provider_mediaops.cluster.api import node_stats
from airflow_provider_mediaops.cluster.cpu import Streaks
from airflow_provider_mediaops.exceptions import MediaOpsError, NotFoundError, TemporaryError
from airflow_provider_mediaops.http.exchange import Wait
from airflow_provider_mediaops.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_mediaops.cluster.cpu import CpuWatch
    from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
    from airflow_provider_mediaops.http.exchange import Ask, Conversation
    from airflow_provider_mediaops.waiting import Pace


class Readings(Protocol):
    """Where readings of the nodes' CPU come from."""

    def next(self, pause: float, deadline: float) -> Conversation[NodeStats | None]:
        """
        Wait, then read the CPU of the nodes.

        :param pause: seconds to wait first; 0 reads at once.
        :param deadline: when to give up, as ``time.monotonic`` counts.
        :returns: a conversation with the statistics; None where the deadline comes first.
        :raises MediaOpsError: where the cluster does not tell.
        """
        ...


@dataclass(frozen=True, slots=True)
class OwnReadings:
    """
    Readings that are asked for by the one who waits, as a worker does.

    :param ask: makes a conversation of a call.
    :param nodes: ids or names of the nodes, in a list or in one text with commas; None for all.
    :param monotonic: seconds that never run backwards.
    """

    ask: Ask
    nodes: str | Sequence[str] | None = None
    monotonic: Callable[[], float] = time.monotonic

    def next(self, pause: float, deadline: float) -> Conversation[NodeStats | None]:
        """Wait, then read; see :meth:`Readings.next`."""
        return (yield from until(deadline, self._reading(pause), self.monotonic))

    def _reading(self, pause: float) -> Conversation[NodeStats]:
        # No reason: a line in the log for each pause of a long wait would bury what changes.
        yield Wait(pause)
        return (yield from self.ask(node_stats(self.nodes)))


@dataclass(frozen=True, slots=True)
class Spike:
    """
    Nodes that have been hot for long enough.

    :param nodes: they, the hottest first.
    :param stats: the whole reading that showed it.
    """

    nodes: tuple[NodeCpu, ...]
    stats: NodeStats


class Progress:
    """
    How far a wait for a spike has come.

    :param watch: what is waited for.
    :param tell: is told each change of state once.
    """

    def __init__(self, watch: CpuWatch, tell: Callable[[int, str], None]) -> None:
        self.streaks = Streaks(watch)
        self.has_read = False
        self._tell = tell
        self._state: object = None
        self._unknown = ""

    def tell_state(self, state: object, level: int, sentence: str) -> None:
        """
        Tell in what state the wait is, unless that was told last.

        :param state: what makes it another state.
        :param level: a level of :mod:`logging`.
        :param sentence: the state in words.
        """
        if state != self._state:
            self._tell(level, sentence)
        self._state = state

    def tell_unknown(self, unknown: str) -> None:
        """
        Tell which nodes do not answer, unless it is the same that was told last.

        :param unknown: in words; none where all answer.
        """
        if unknown and unknown != self._unknown:
            self._tell(logging.WARNING, f"Only some of the nodes are watched: {unknown}.")
        self._unknown = unknown


def await_spike(
    readings: Readings,
    watch: CpuWatch,
    pace: Pace,
    *,
    deadline: float = float("inf"),
    tell: Callable[[int, str], None],
    monotonic: Callable[[], float] = time.monotonic,
    failures: int = 0,
    silent_fail: bool = False,
    first_pause: float = 0.0,
    progress: Progress | None = None,
) -> Conversation[Spike | None]:
    """
    Read the CPU of nodes until they have been hot for long enough.

    A reading that fails for a time is waited out, with a longer pause each time and one warning per change of state; it
    breaks no streak and makes none. So is one for which all nodes are gone, once they have answered.

    :param readings: where the readings come from: those of the watch's nodes.
    :param watch: which nodes, from what threshold on, and for how long.
    :param pace: how long to wait between two readings; while nodes are hot, the watch's own interval if it is shorter.
    :param deadline: when to give up, as ``monotonic`` counts.
    :param tell: is told each change of state once: a level of :mod:`logging`, and a sentence.
    :param monotonic: seconds that never run backwards.
    :param failures: how many readings have failed in a row before this wait.
    :param silent_fail: whether permanent errors are waited out like temporary ones.
    :param first_pause: seconds before the first reading.
    :param progress: that of an earlier wait, which this one goes on with; None begins anew.
    :returns: a conversation; None where the deadline comes first.
    :raises PermanentError: where the cluster refuses for good, or knows none of the nodes.
    """
    progress = progress or Progress(watch, tell)
    streaks = progress.streaks
    pause, looks = first_pause, 0
    while True:
        looks += 1
        try:
            stats = yield from readings.next(pause, deadline)
        except MediaOpsError as error:
            # Nodes that have answered exist: they are away, to be started again perhaps.
            away = progress.has_read and isinstance(error, NotFoundError)
            if not (isinstance(error, TemporaryError) or away or silent_fail):
                raise
            failures += 1
            streaks.add(None, monotonic())
            pause = _sooner(pace.after_failure(failures, error.retry_after), streaks, monotonic())
            pause = max(pause, error.retry_after or 0.0)
            progress.tell_state(type(error), logging.WARNING, f"The wait goes on in {pause:.0f} s: {error.message}")
            continue
        if stats is None:
            return None
        progress.has_read = True
        progress.tell_unknown(watch.unknown(stats))
        if hot := streaks.add(stats, monotonic()):
            return Spike(tuple(hot), stats)
        failures = 0
        pause = _sooner(pace.after_look(looks), streaks, monotonic())
        seen = watch.open_question() if streaks.running else watch.seen(stats)
        progress.tell_state(seen, logging.INFO, f"Waiting: {seen}")


def _sooner(pause: float, streaks: Streaks, now: float) -> float:
    # Two readings that are minutes apart would prove no streak.
    return min(pause, streaks.pause(now)) if streaks.running else pause
