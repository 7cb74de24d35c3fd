"""The model of an export that works in triggerers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.models.attempts import rendered
from tests.models.deferral import EXECUTION_TIMEOUT, TO_ITS_END, DeferringMachine, Triggerer
from tests.models.export_model import ExportMachine
from tests.models.machine import WHICH

if TYPE_CHECKING:
    from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
    from tests.models.attempts import Attempt


class DeferredExportMachine(DeferringMachine, ExportMachine):
    """
    Two runs export the same listing to one destination, in triggerers.

    What :class:`ExportMachine` and :class:`DeferringMachine` say, and:

    - A trigger waits for the reset of a quota, and holds nothing meanwhile: others are not disturbed by it, until it
      goes on.
    """

    def __init__(self) -> None:
        super().__init__()
        #: The triggers that have met a quota that was used up.
        self.patient: set[Attempt] = set()

    def operator(self) -> ExportSubscriptionsOperator:
        return rendered(super().operator(), deferrable=True, execution_timeout=EXECUTION_TIMEOUT)

    @precondition(lambda self: self.triggerers)
    @rule(which=WHICH, times=st.integers(1, 4))
    def use_up_the_quota(self, which: int, times: int) -> None:
        """Let a trigger go on until it waits for the reset of its quota."""
        self.break_the_service("quota", times)
        triggerer = self.triggerers[which % len(self.triggerers)]
        for _ in range(TO_ITS_END):
            if triggerer.ended or triggerer.holds_nothing:
                break
            self.let(triggerer, 1)

    def on_broken_service(self, attempts: set[Attempt]) -> None:
        super().on_broken_service({attempt for attempt in attempts if not self._is_patient(attempt)})

    def _is_patient(self, attempt: Attempt) -> bool:
        """Return whether an attempt waits until the service answers again: a trigger does, the first time."""
        is_first = attempt not in self.patient
        self.patient.add(attempt)
        return isinstance(attempt, Triggerer) and is_first and set(self.service.faults) == {"quota"}
