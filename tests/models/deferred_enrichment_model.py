"""The model of an enrichment that works in triggerers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.models.attempts import rendered
from tests.models.deferral import EXECUTION_TIMEOUT, DeferringMachine, Triggerer
from tests.models.enrichment_model import EnrichmentMachine

if TYPE_CHECKING:
    from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
    from tests.models.attempts import Attempt


class DeferredEnrichmentMachine(DeferringMachine, EnrichmentMachine):
    """
    Two runs enrich the same list into one destination, in triggerers.

    What :class:`EnrichmentMachine` and :class:`DeferringMachine` say. The list of a deferred task is a file beside the
    destination, so that a task is disturbed by another one that is deferred, too, and in the end none is left.
    """

    def operator(self) -> EnrichIsbnsOperator:
        return rendered(super().operator(), deferrable=True, execution_timeout=EXECUTION_TIMEOUT)

    def on_start(self, attempt: Attempt) -> None:
        super().on_start(attempt)
        others = {run: deferral for run, deferral in self.deferrals.items() if run != attempt.task}
        for deferral in others.values():
            deferral.is_disturbed = True
        if others or (isinstance(attempt, Triggerer) and attempt.deferral.is_disturbed):
            self.disturbed.add(attempt)
