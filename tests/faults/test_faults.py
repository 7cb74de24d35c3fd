"""The fault matrix: everything that a user can call, sync and async, at every fault, by the table of `outcomes.py`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.faults import canaries
from tests.faults.actions import ACTIONS
from tests.faults.behaviours import FAULTS
from tests.faults.outcomes import RECOVERED, TABLE, expected
from tests.faults.services import Cell

if TYPE_CHECKING:
    from tests.faults.actions import Action
    from tests.faults.behaviours import Fault
    from tests.faults.conftest import Bench

_MEGABYTE = 1 << 20
_WRITING = (
    *("post_bulletin", "PostBulletinOperator", "PostBulletinOperator with journal"),
    "PostBulletinNotifier",
)
# How many requests meet a fault that somebody waits out.
_WAITED_OUT = 5
# The limit of a page, and what the system takes on the way while the client is not running; far from 2 GB.
_MOST_BYTES = 256 * _MEGABYTE


def test_the_table_has_a_row_for_each_fault() -> None:
    assert sorted(TABLE) == sorted(fault.name for fault in FAULTS)


@pytest.mark.parametrize(
    ("action", "fault"),
    [
        pytest.param(action, fault, id=f"{fault.name}-{action.label}")
        for fault in FAULTS
        for action in ACTIONS
        if action.can_meet(fault)
    ],
)
def test_a_fault(action: Action, fault: Fault, bench: Bench) -> None:
    times = _WAITED_OUT if action.is_patient else 1 if fault.once else 1_000_000
    cell = Cell(fault.befall, times=times, after=fault.after, acts=fault.acts)
    bench.made_up.jumps = fault.is_clock
    # Whether it waits for an address that never answers.
    bench.made_up.patience = 4 if action.is_patient and fault.address else None
    bench.connect(action, cell, fault)

    outcome = bench.outcome_of(action)

    outcome.is_as(expected(action, fault), shows_class=action.shown != "answered")
    assert cell.written <= 1
    assert cell.most_sent <= _MOST_BYTES
    left = {path.name for path in bench.desk.folder.iterdir()}
    if outcome.is_success:
        assert cell.written == (action.name in _WRITING)
        assert left - action.receipts == set(action.files)
    else:
        assert not left & set(action.files)
        if action.files:
            _works_afterwards(action, bench)


def _works_afterwards(action: Action, bench: Bench) -> None:
    """Let the same task try again at a service that works: no lease is in its way, and only its files are left."""
    bench.connect(action, Cell())
    bench.outcome_of(action).is_as(RECOVERED)
    assert {path.name for path in bench.desk.folder.iterdir()} - action.receipts == set(action.files)


@pytest.mark.parametrize("place", ["log", "file", "value", "error", "output"])
def test_search_for_secrets_looks_everywhere(place: str, bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    guard, secret = bench.guard, canaries.HEADER
    assert not guard.found(*capfd.readouterr())
    if place == "log":
        logging.getLogger("urllib3.connection").debug("sent", exc_info=ValueError(secret))
    elif place == "file":
        (bench.desk.folder / canaries.forms_of(secret)["percent"]).touch()
    elif place == "value":
        guard.see({"rows": [secret]})
    elif place == "error":
        guard.see_error(KeyError(secret))
    else:
        print(secret)  # noqa: T201 this is what is looked for
    assert guard.found(*capfd.readouterr())
    guard.forget()
