"""Services that fail at random, each time in a way that another try succeeds after."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_mediaops.sandbox.faults import DelayFault, DropFault, LimitFault, StatusFault
from tests.soak.background import Background

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.faults import Fault, Service

_SERVICES: tuple[Service, ...] = ("video", "cluster", "books")
_EVERY_SECONDS = 0.5
# Between two faults of a service, so many requests or more are answered. So a call that is tried four times, by a task
# that is tried six times, gets its answer.
_ANSWERED_BETWEEN = (2, 8)


def random_fault(dice: random.Random, service: Service) -> Fault:
    """Make a fault after which another try succeeds."""
    after = dice.randint(*_ANSWERED_BETWEEN)
    makers: list[Callable[[], Fault]] = [
        lambda: StatusFault(service=service, after=after, status=dice.choice([500, 502, 503, 504])),
        lambda: StatusFault(service=service, after=after, status=503, retry_after=1),
        lambda: DelayFault(service=service, after=after, seconds=dice.uniform(0.05, 1.5)),
        lambda: DropFault(service=service, after=after, point="before_work"),
        lambda: DropFault(service=service, after=after, point="before_reply"),
        lambda: DropFault(service=service, after=after, point="mid_body"),
        lambda: LimitFault(service=service, after=after),
    ]
    return dice.choice(makers)()


class RandomFaults(Background):
    """
    Arms a fault of a service whenever a request has met its last one, for as long as its `with` block lasts.

    :param is_armed: returns whether a service has a fault still to come.
    """

    def __init__(self, arm: Callable[[Fault], None], is_armed: Callable[[Service], bool]) -> None:
        super().__init__()
        #: The number of faults so far.
        self.armed = 0
        self._arm = arm
        self._is_armed = is_armed
        self._dice = random.Random(1)  # noqa: S311 the same faults in each soak

    def work(self) -> None:
        """Arm fault after fault."""
        while not self.over.wait(_EVERY_SECONDS):
            for service in _SERVICES:
                if not self._is_armed(service):
                    self._arm(random_fault(self._dice, service))
                    self.armed += 1
