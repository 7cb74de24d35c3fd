"""How many examples of a model are tried, and worlds in which the package has a fault that a model must find."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hypothesis
from hypothesis.stateful import run_state_machine_as_test

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from hypothesis.stateful import RuleBasedStateMachine

    from tests.models.places import ModelPlace

_BY_HAND = os.environ.get("MODEL_EXAMPLES")

#: In CI the same examples in each run. ``MODEL_EXAMPLES=50000`` tries so many others, by hand.
SETTINGS = hypothesis.settings(
    max_examples=int(_BY_HAND or 400),
    derandomize=_BY_HAND is None,
    database=None,
    deadline=None,
    stateful_step_count=16,
    suppress_health_check=list(hypothesis.HealthCheck),
)
# That there is a failure is the point, and not which one is the smallest.
_UNTIL_ONE_FAILS = hypothesis.settings(
    SETTINGS, max_examples=2_000, derandomize=True, phases=[hypothesis.Phase.generate], report_multiple_bugs=False
)


def try_examples(machine: type[RuleBasedStateMachine]) -> None:
    """Try the examples of a model."""
    run_state_machine_as_test(machine, settings=SETTINGS)


def failure_of(machine: type[RuleBasedStateMachine]) -> str:
    """
    Return what the first example that fails says, of 2,000.

    :returns: the message of its assertion; empty if none fails.
    """
    try:
        run_state_machine_as_test(machine, settings=_UNTIL_ONE_FAILS)
    except AssertionError as error:
        return str(error) or "an assertion"
    return ""


def failure_in(machine: type[RuleBasedStateMachine], history: Callable[[Any, int], None]) -> str:
    """
    Return what a model says about a history that is written down, for a fault that few examples of chance meet.

    :returns: the message of its assertion; empty if none fails.
    """
    for steps in range(60):
        example = machine()
        try:
            try:
                history(example, steps)
            finally:
                example.teardown()
        except AssertionError as error:
            return str(error) or "an assertion"
    return ""


@dataclass(frozen=True)
class World:
    """
    A fault of the package, and what a model says about it.

    :param owner: what has the fault: a class or a module.
    :param name: the name of what is replaced there.
    :param message: a pattern of what the model says.
    :param place: the only place of all examples, for the model of a dataset; None if the examples choose.
    :param is_deferred: whether the tasks of all examples are deferred, for the model of a dataset.
    :param history: calls rules of the model, for a fault that few examples of chance meet; None if the examples do.
    """

    owner: object
    name: str
    fault: Any
    message: str
    place: type[ModelPlace] | None = None
    is_deferred: bool = False
    history: Callable[[Any, int], None] | None = None

    def check(self, machine: type[RuleBasedStateMachine], monkeypatch: pytest.MonkeyPatch) -> None:
        """Assert that a model finds the fault, and nothing else."""
        assert self.message, "an empty pattern lets any failure pass"
        # Else the history itself might be what fails.
        assert self.history is None or failure_in(machine, self.history) == ""
        monkeypatch.setattr(self.owner, self.name, self.fault)
        if self.place:
            monkeypatch.setattr(machine, "only", self.place)
            monkeypatch.setattr(machine, "only_deferred", self.is_deferred)
        found = failure_in(machine, self.history) if self.history else failure_of(machine)
        assert re.search(self.message, found), found or "no example fails"
