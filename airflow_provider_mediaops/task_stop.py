"""End a running task when Airflow stops it: it was marked or cleared, or its worker ends."""

from __future__ import annotations

from airflow_provider_mediaops.http.stop import Stop


class StoppableTask:
    """
    Base of the operators and sensors, before Airflow's own: a stopped task sends nothing more.

    Airflow's handler of SIGTERM calls :meth:`on_kill` in the task's thread and does nothing else; five seconds later
    the supervisor kills the process. Airflow also calls it after ``execution_timeout``.
    """

    @property
    def stop(self) -> Stop:
        """Whether this task is to end; hooks and waits of the task look at it."""
        # Made at first use: Airflow copies operators, and a copy shares nothing with the original before it runs.
        stop: Stop = self.__dict__.setdefault("_stop", Stop())
        return stop

    def on_kill(self) -> None:
        """End the request or the wait that is under way, by a TaskStoppedError in the task, and let no other begin."""
        self.stop.request()
