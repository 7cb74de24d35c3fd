"""Work in a thread that takes one step for each that a test allows; it dies or fails at any step."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod

from tests.unit.storage.dying import DeathError


class Paced(ABC):
    """
    Work that stops before each of its steps.

    A step is whatever the work does after a call of :meth:`pause`, for example one request.
    """

    def __init__(self) -> None:
        self.ended = False
        #: What has ended it; None if it came to its end.
        self.outcome: BaseException | None = None
        #: What goes wrong at its next step.
        self.fault = ""
        #: Whether it has died.
        self.is_dead = False
        # The steps that it may take before it stops again.
        self._left = 0
        # Two locks that are passed back and forth take a fraction of the time of semaphores.
        self._go, self._paused = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._paused.acquire()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def step(self, count: int = 1) -> None:
        """Take this number of steps, or fewer if the work ends."""
        if count and not self.ended:
            self._left = count
            self._go.release()
            self._paused.acquire()

    def finish(self) -> None:
        """Run it to its end."""
        self.step(sys.maxsize)

    def die(self) -> None:
        """End it without another step."""
        self.is_dead = not self.ended
        self.finish()
        self._thread.join()

    def pause(self) -> str:
        """
        Wait for the next step.

        :returns: what goes wrong at it; empty if nothing does.
        """
        # Nobody looks at what is between the steps of one call, and each change of threads takes as long as a step.
        self._left -= 1
        if not self._left:
            self._paused.release()
            self._go.acquire()
        if self.is_dead:
            raise DeathError
        fault, self.fault = self.fault, ""
        return fault

    @abstractmethod
    def work(self) -> None:
        """Do the work, in the thread."""

    def _run(self) -> None:
        self._go.acquire()
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001  the test's thread checks it
            self.outcome = error
        self.ended = True
        self._paused.release()
