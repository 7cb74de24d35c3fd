"""
Capture at detection: the hot threads, asked for by the step that saw the spike.

One call flow serves the worker and the triggerer. Files are written in a thread beside it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.cluster.capture.model import take_capture
from airflow_provider_mediaops.cluster.capture.plan import why
from airflow_provider_mediaops.cluster.capture.summary import bounded
from airflow_provider_mediaops.cluster.errors import EMPTY_REPORT
from airflow_provider_mediaops.cluster.running_tasks.sampling import task_sampler
from airflow_provider_mediaops.cluster.statistics import MOST_SECONDS, read_statistics
from airflow_provider_mediaops.cluster.text import listed
from airflow_provider_mediaops.exceptions import MediaOpsError, TemporaryError
from airflow_provider_mediaops.http.exchange import Blocking, Clock, Wait
from airflow_provider_mediaops.json_text import storable
from airflow_provider_mediaops.waiting import Done, Pace, Progress, Term, wait

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
    from airflow_provider_mediaops.cluster.capture.plan import CapturePlan
    from airflow_provider_mediaops.cluster.cpu_watch import Spike
    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.cluster.query import HotThreadsQuery
    from airflow_provider_mediaops.cluster.running_tasks.sampling import TaskSampler
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow
    from airflow_provider_mediaops.waiting import Readings

# So many failures are listed: the last ones.
_TOLD_FAILURES = 20
_LONGEST_MESSAGE = 500
# Clusters take some 4,000 characters of address; there are others beside the ids.
_LONGEST_IDS = 3000


def capture_when_hot(
    ask: Ask,
    plan: CapturePlan,
    files: CaptureFiles,
    *,
    readings: Readings[NodeStats] | None = None,
    deadline: float = float("inf"),
    log: Callable[[int, str], None],
    clock: Clock | None = None,
    cause: str | None = None,
) -> CallFlow[dict[str, Any]]:
    """
    Wait for a spike, and ask for the hot threads of its nodes in the step that saw it, before anything else.

    Without readings, or without a spike to wait for in the plan, all its nodes are captured at once, for the given
    cause or that of the plan. After a capture that fails temporarily, or that covers none of the nodes, the failure is
    logged and the wait continues, until the deadline, as the clock's ``monotonic`` counts. A MediaOpsError means that
    the cluster refuses for good, an OSError that a capture cannot be kept. The log is called with a level of
    :mod:`logging` and a sentence.
    """
    clock = clock or Clock()
    sampler = task_sampler(ask, clock, running_tasks=plan.running_tasks, show_queries=plan.show_queries)
    series = _Series(ask, plan, files, log, clock, sampler, cause)
    yield Blocking(files.check)
    if readings is None or plan.watch is None:
        return (yield from series.take_from(1, plan.query))
    judge = plan.watch.judge(clock.monotonic)
    pace, progress, pause = Pace(plan.poll_interval, may_return=True), Progress(log), 0.0
    term = Term(clock.monotonic, clock.monotonic(), deadline)
    while True:
        done = yield from wait(readings, judge, pace, progress, term, first_pause=pause)
        if not isinstance(done, Done):
            return (yield from _at_the_limit(series, progress))
        spike: Spike = done.value
        query, stats = _limited(plan.query, spike, log)
        try:
            yield from series.take(query, 1, stats)
        except MediaOpsError as error:
            if not _may_pass(error):
                raise
            series.note(error, 1)
            pause = pace.after_failure(term.elapsed, error.retry_after)
            nodes = listed([node.label for node in spike.nodes], 20)
            sentence = f"The capture of {nodes} failed, and the wait continues: {error.message}"
            progress.tell("state", (type(error), nodes), logging.WARNING, sentence)
            if not term.left:
                return (yield from _at_the_limit(series, progress))
        else:
            return (yield from series.take_from(2, query))


def _at_the_limit(series: _Series, progress: Progress) -> CallFlow[dict[str, Any]]:
    series.timed_out = True
    failed = progress.failed_readings
    if series.plan.on_timeout != "capture":
        return {**series.outcome(), "no_reading_worked": progress.none_worked, "failed_readings": failed}
    why_not = f"; {failed}" if failed else "."
    series.log(logging.WARNING, f"The time limit has come without a spike: capturing anyway{why_not}")
    return (yield from series.take_from(1, series.plan.query))


def _may_pass(error: MediaOpsError) -> bool:
    # An empty report is not a refusal: the nodes have gone, or were too slow.
    return isinstance(error, TemporaryError) or error.reason == EMPTY_REPORT


def _limited(
    query: HotThreadsQuery, spike: Spike, log: Callable[[int, str], None]
) -> tuple[HotThreadsQuery, NodeStats]:
    """Return the query of the hot nodes, unless they are too many for an address, and their reading."""
    ids = [node.node_id for node in spike.nodes]
    if len(",".join(ids)) <= _LONGEST_IDS:
        return replace(query, nodes=ids), replace(spike.stats, nodes=spike.nodes, failures=(), failed=0)
    what = "too many to be named in one request: the report is of all that were watched."
    log(logging.WARNING, f"{len(ids)} nodes ran hot, {what}")
    return query, spike.stats


@dataclass(slots=True)
class _Series:
    """The captures of one spike, with their results."""

    ask: Ask
    plan: CapturePlan
    files: CaptureFiles
    log: Callable[[int, str], None]
    clock: Clock
    sampler: TaskSampler | None
    cause: str | None
    timed_out: bool = False
    _kept: list[dict[str, Any]] = field(default_factory=list)
    _failures: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_TOLD_FAILURES))
    failed: int = 0
    _began: float = 0.0

    def take(self, query: HotThreadsQuery, number: int, stats: NodeStats | None = None) -> CallFlow[None]:
        """Take a capture, after a reading if there is one, and keep it."""
        if number == 1:
            self._began = self.clock.monotonic()
        reason, cause = why(self.plan.watch, timed_out=self.timed_out)
        try:
            capture = yield from take_capture(
                self.ask,
                query,
                stats,
                now=self.clock.now,
                reason=reason,
                cause=self.cause or cause,
                sampler=self.sampler,
            )
            if stats:
                metrics.timing("cluster.capture_delay", self.clock.monotonic() - self._began)
            if self.files.shows_statistics and self._is_time_for_statistics(number):
                capture.statistics = yield from read_statistics(self.ask, query)
            self._kept.append((yield Blocking(lambda: self.files.keep(capture, number))))
        except (MediaOpsError, OSError):
            metrics.count("cluster.captures.failed")
            raise
        metrics.count("cluster.captures.kept")

    def _is_time_for_statistics(self, number: int) -> bool:
        """Return whether the next capture, if there is one, does not wait for the statistics of this one."""
        time_left = self._due(number + 1) - self.clock.monotonic()
        return number == self.plan.captures or time_left >= MOST_SECONDS

    def _due(self, number: int) -> float:
        # From beginning to beginning: a report may take longer than the pause.
        return self._began + (number - 1) * self.plan.every

    def take_from(self, number: int, query: HotThreadsQuery) -> CallFlow[dict[str, Any]]:
        """
        Take the captures from one on.

        One after the first that fails is left out. Whatever comes, those there are are kept.
        """
        for each in range(number, self.plan.captures + 1):
            which = f"{each} of {self.plan.captures}"
            if each > 1:
                yield Wait(max(self._due(each) - self.clock.monotonic(), 0.0), f"capture {which}")
            try:
                yield from self.take(query, each)
            except MediaOpsError as error:
                if each == 1 or not _may_pass(error):
                    yield Blocking(self.files.finish)
                    raise
                self.note(error, each)
                self.log(logging.WARNING, f"Capture {which} failed: {error.message}")
            except OSError:
                # The page of those there are may still fit; the first error says what happened.
                with suppress(OSError):
                    yield Blocking(self.files.finish)
                raise
        yield Blocking(self.files.finish)
        return self.outcome()

    def note(self, error: MediaOpsError, number: int) -> None:
        """Note a capture that failed."""
        self.failed += 1
        self._failures.append(
            {
                "at": self.clock.now().isoformat(timespec="milliseconds"),
                "capture": number,
                "error": type(error).__name__,
                "message": storable(error.message, _LONGEST_MESSAGE),
            }
        )

    def outcome(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            **bounded(self._kept, list(self._failures)),
            "failure_count": self.failed,
            "timed_out": self.timed_out,
        }
