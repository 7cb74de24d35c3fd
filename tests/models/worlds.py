"""Worlds in which the package has a fault that a model must find."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.models.settings import failure_in, failure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from hypothesis.stateful import RuleBasedStateMachine

    from tests.models.places import ModelPlace


@dataclass(frozen=True)
class World:
    """
    A fault of the package, and what a model says about it.

    :param owner: what has the fault: a class or a module; a tuple of them, if each has it.
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
        for owner in self.owner if isinstance(self.owner, tuple) else (self.owner,):
            monkeypatch.setattr(owner, self.name, self.fault)
        if self.place:
            monkeypatch.setattr(machine, "only", self.place)
            monkeypatch.setattr(machine, "only_deferred", self.is_deferred)
        found = failure_in(machine, self.history) if self.history else failure_of(machine)
        assert re.search(self.message, found), found or "no example fails"
