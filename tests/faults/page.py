"""The tables of the matrix, as docs/faults.md gets them each time that the pages are built."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.faults.actions import ACTIONS
from tests.faults.behaviours import LASTING, ONCE
from tests.faults.outcomes import CUT_SHORT, JOURNAL, RATE_STORE, RECOVERED, STORAGE, TABLE, WAITS
from tests.page_tables import NOTHING, table

if TYPE_CHECKING:
    from tests.faults.behaviours import Fault

_KINDS = {"reading": "read", "a report": "report", "a bulletin": "write", "a wait": "waiting"}
# The kinds of work whose outcomes the first column shows: exports and lists of ISBNs end as reading does.
_READING = ("read", "listing", "books")


def table_of(name: str) -> str:
    """
    Return a table of the suite.

    :param name: its name on the page: `lasting`, `once`, `storage`, `journal` or `rate store`.
    """
    if name in ("lasting", "once"):
        return table(["fault", *_KINDS], _services({"lasting": LASTING, "once": ONCE}[name]))
    if name == "storage":
        return table(["fault", "in a worker", "in the triggerer", "a capture"], _storage())
    if name == "journal":
        rows = ([fault, *map(_cell, tries)] for fault, tries in JOURNAL.items())
        return table(["fault", "ends with", "its next try"], rows)
    return table(["fault", "ends with"], ([fault, _cell(found)] for fault, found in RATE_STORE.items()))


def _services(faults: Iterable[Fault]) -> Iterable[list[str]]:
    together: dict[tuple[str, ...], list[str]] = {}
    for fault in faults:
        row = TABLE[fault.name]
        cells = tuple(_cell(row.of(kind)) if _is_met(kind, fault) else NOTHING for kind in _KINDS.values())
        together.setdefault(cells, []).append(fault.name)
    for cells, names in together.items():
        yield ["; ".join(names), *cells]


def _is_met(kind: str, fault: Fault) -> bool:
    kinds = _READING if kind == "read" else (kind,)
    return any(action.kind in kinds and action.can_meet(fault) for action in ACTIONS)


def _storage() -> Iterable[list[str]]:
    for name, row in STORAGE.items():
        yield [name, _cell(row.worker), _cell(row.export or row.worker), _cell(row.capture or row.worker)]


def _cell(outcome: str) -> str:
    # Whole names of classes, in the letters of code, are too wide for four columns; these may be broken between words.
    if outcome in (RECOVERED, WAITS):
        return {RECOVERED: "works", WAITS: "waits on"}[outcome]
    if outcome == CUT_SHORT:
        return "ends there, with a warning and `complete: False`"
    name = outcome.partition(": ")[0]
    return name if name == "OSError" else re.sub("(?<=[a-z])(?=[A-Z])", "<wbr>", name.removesuffix("Error"))
