"""Carry out one cell of the matrix, and read its outcome."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import MediaOpsError
from tests.faults.actions import ACTIONS
from tests.faults.behaviours import FAULTS
from tests.faults.made_up_time import StillWaitingError
from tests.faults.outcomes import NOTHING, RECOVERED, WAITS
from tests.faults.services import Cell

if TYPE_CHECKING:
    from tests.faults.actions import Action, Desk
    from tests.faults.behaviours import Fault
    from tests.faults.conftest import Guard

# How many requests meet a fault that somebody waits out.
_WAITED_OUT = 5
_LOGGED = re.compile(r"failed, and the run goes on: (\w+): (.*)", re.DOTALL)
_PATIENT = ("waiting", "watching")
_CUT_SHORT = "The service cut the listing short"


@dataclass(frozen=True)
class Outcome:
    """
    How an action ended.

    :param error: the name of the error's class; empty if the action succeeded, and where no class is shown.
    :param message: what the error, the log or the page says.
    """

    error: str = ""
    message: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the action did what it is for."""
        return str(self) in (RECOVERED, NOTHING) or self.error == "Warning"

    def __str__(self) -> str:
        return f"{self.error}: {self.message}" if self.message else self.error or RECOVERED

    def is_as(self, expected: str, *, shows_class: bool = True) -> None:
        """
        Compare with an outcome of the table.

        :param shows_class: whether the class of an error can be seen.
        """
        cls, _, advice = expected.partition(": ")
        assert advice in self.message, f"{expected!r} is due, not: {self}"
        if shows_class or not advice:
            assert (self.error or RECOVERED) == cls, f"{expected!r} is due, not: {self}"


def cells() -> list[tuple[Action, Fault]]:
    """Return the cells of the matrix: each action with each fault that it can meet."""
    return [(action, fault) for fault in FAULTS for action in ACTIONS if can_meet(action, fault)]


def can_meet(action: Action, fault: Fault) -> bool:
    """Return whether an action can meet a fault at all."""
    if action.kind == "digest" or (fault.only_json and action.reads_text):
        # A digest asks no service.
        return False
    if action.kind in _PATIENT and fault.once:
        # A wait outlasts more than one of them.
        return False
    return (
        not fault.only or action.kind in fault.only or ("refreshing" in fault.only and action.auth == "refresh_token")
    )


def outlasts(action: Action, fault: Fault) -> bool:
    """Return whether an action waits for an address that never answers."""
    return action.kind in _PATIENT and bool(fault.address)


def cell_of(action: Action, fault: Fault) -> Cell:
    """Return the cell at the server."""
    times = 1 if fault.once else 1_000_000
    return Cell(
        fault.befall,
        times=_WAITED_OUT if action.kind in _PATIENT else times,
        after=fault.after,
        acts=fault.acts,
    )


def outcome_of(action: Action, desk: Desk, guard: Guard) -> Outcome:
    """Do it, and return how it ended; the guard sees all of it."""
    logged = len(guard.witness.lines)
    try:
        value = action.run(desk)
    except StillWaitingError:
        return Outcome(WAITS)
    except Exception as error:  # noqa: BLE001 any error is the outcome
        guard.see_error(error)
        return _outcome(error, guard)
    finally:
        guard.see(desk.rows)
    guard.see(value)
    if action.shown == "answered":
        works, said = value
        return Outcome() if works else Outcome(message=said)
    if action.shown == "logged":
        found = [match for line in guard.witness.lines[logged:] if (match := _LOGGED.search(line))]
        return Outcome(found[0][1], found[0][2]) if found else Outcome()
    if warnings := [line for line in guard.witness.lines[logged:] if _CUT_SHORT in line]:
        return Outcome("Warning", warnings[0])
    return Outcome(NOTHING) if value is None and action.name == "key_usage" else Outcome()


def _outcome(error: Exception, guard: Guard) -> Outcome:
    # Below Airflow 3.3, a permanent error is the cause of Airflow's own.
    cause = error.__cause__ if isinstance(error.__cause__, MediaOpsError) else error
    if isinstance(cause, MediaOpsError):
        guard.see(cause.to_dict())
    return Outcome(type(cause).__name__, str(cause))
