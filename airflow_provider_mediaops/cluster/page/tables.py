"""The tables of the page that the command line shows, too: rows of cells, ready to be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.cluster.cpu_measure import measure_name
from airflow_provider_mediaops.cluster.kinds_of_work.labels import is_wait
from airflow_provider_mediaops.cluster.text import count, difference, figure, readable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.comparison import Comparison, Heat, HotOne
    from airflow_provider_mediaops.cluster.folded import Measure
    from airflow_provider_mediaops.cluster.kinds_of_work.labels import HotKind
    from airflow_provider_mediaops.cluster.models import NodeCpu

EntryT = TypeVar("EntryT")

#: The maximum number of rows of most tables; the raw text holds the rest.
MOST_ROWS = 15
_MOST_NODES = 100

# A table with a column for each of fifty captures cannot be read.
_MOST_COLUMNS = 5
_USED = {"cpu": "CPU", "wait": "Waiting", "block": "Blocked", "mem": "Allocated"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell."""

    text: str
    before: str = ""  # paler text before it: the package of a method, the node of a thread
    after: str = ""
    number: float | None = None  # by which its column is sorted; None sorts by the text
    bar: float | None = None  # in percent of the longest; below zero for a bar to the left; None for no bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table, whose first column names its rows."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    beyond: int  # rows that are left out
    falls_by: int | None = 1  # the position of the column by which the rows are sorted, highest first
    has_signs: bool = False  # whether its bars begin in the middle


def table_of(
    caption: str,
    entries: Sequence[EntryT],
    columns: Mapping[str, Callable[[EntryT], Cell]],
    *,
    most: int = MOST_ROWS,
    falls_by: int | None = 1,
    has_signs: bool = False,
) -> Table:
    """Return a table with a row for each entry."""
    return Table(
        caption=caption,
        columns=tuple(columns),
        rows=tuple(tuple(cell(entry) for cell in columns.values()) for entry in entries[:most]),
        beyond=max(0, len(entries) - most),
        falls_by=falls_by,
        has_signs=has_signs,
    )


def kind_table(kinds: Sequence[HotKind]) -> Table:
    """Return the table of the kinds of work."""
    columns: dict[str, Callable[[HotKind], Cell]] = {
        "Kind of work": lambda kind: Cell(text=readable(kind.label), after=kind.caution),
        "Share of report": lambda kind: _share_cell(round(kind.share_percent, 1)),
        "Threads": lambda kind: _number_cell(len(kind.threads)),
        "Nodes": lambda kind: _nodes_cell(kind.nodes),
        "Told by": lambda kind: method_cell(kind.method),
        "What to look at next": lambda kind: Cell(text=kind.look),
    }
    return table_of("By kind of work, across nodes", kinds, columns)


def _share_cell(percent: float) -> Cell:
    return Cell(text=f"{percent} %", number=percent, bar=percent)


def pool_table(found: Comparison) -> Table:
    """Return the table of thread pools."""
    return _hot_table("Thread pool", found, found.pools)


def method_table(found: Comparison) -> Table:
    """Return the table of the methods at the top of the stacks."""
    return _hot_table("Top frame", found, found.methods)


def _hot_table(first: str, found: Comparison, heats: Sequence[Heat]) -> Table:
    columns: dict[str, Callable[[Heat], Cell]] = {
        first: _NAME_CELLS[first],
        _peak_heading(found): lambda heat: _amount(heat.peak, heats[0].peak, found.measure),
        "Threads": lambda heat: _number_cell(heat.threads),
        "Nodes": lambda heat: _nodes_cell(heat.nodes),
    }
    return table_of(f"By {first.lower()}, across nodes", heats, columns)


def thread_table(found: Comparison) -> Table:
    """Return the table of threads."""
    highest = found.threads[0].heat.peak if found.threads else 0.0
    columns: dict[str, Callable[[HotOne], Cell]] = {
        "Thread": lambda one: Cell(text=readable(one.heat.name)),
        _peak_heading(found): lambda one: _amount(one.heat.peak, highest, found.measure, _split(one)),
        "Node": lambda one: Cell(text=readable(one.heat.nodes[0])),
        "Top frame": lambda one: method_cell(one.method),
    }
    return table_of("By thread", found.threads, columns)


def node_table(found: Comparison, readings: Mapping[str, Sequence[NodeCpu] | None]) -> Table:
    """Return the table of nodes: how busy each was, and how much of that the threads in the report explain."""
    heats = {heat.name: heat for heat in found.nodes}
    read = {
        f"Node's CPU, {label}" if len(readings) > 1 else "Node's CPU": {_name_of(cpu, heats): cpu for cpu in reading}
        for label, reading in readings.items()
        if reading is not None
    }
    names = list(dict.fromkeys([*heats, *(name for cpus in read.values() for name in cpus)]))
    highest = found.nodes[0].peak if found.nodes else 0.0
    columns: dict[str, Callable[[str], Cell]] = {"Node": lambda name: Cell(text=readable(name))}
    columns |= {heading: partial(_cpu_of, cpus) for heading, cpus in read.items()}
    columns[f"{_peak_heading(found)}, its threads"] = lambda name: _threads_amount(
        heats.get(name), highest, found.measure
    )
    columns["Threads"] = lambda name: _number_cell(heats[name].threads if name in heats else 0)
    return table_of("By node", names, columns, most=_MOST_NODES, falls_by=len(columns) - 2)


def _threads_amount(heat: Heat | None, highest: float, measure: Measure) -> Cell:
    return Cell(text="no section", number=-1) if heat is None else _amount(heat.peak, highest, measure)


def _number_cell(number: int) -> Cell:
    return Cell(text=f"{number:,}", number=number)


def method_cell(method: str) -> Cell:
    """Return the cell of a method: its class, its package in pale, and whether threads wait in it."""
    package, dot, name = method.rpartition(".")
    package, second_dot, cls = package.rpartition(".")
    shown = readable(f"{cls}{dot}{name}")
    return Cell(text=shown, before=readable(f"{package}{second_dot}"), after="a wait" if is_wait(method) else "")


def _nodes_cell(nodes: Sequence[str]) -> Cell:
    return Cell(text=count(len(nodes), "node") if len(nodes) > 1 else readable(nodes[0]), number=len(nodes))


def _peak_heading(found: Comparison) -> str:
    """Return the heading of the amounts of threads."""
    used = "Seen" if found.measure.unit == "threads" else _USED[found.measure.kind]
    captures = max((len(heat.amounts) for heat in found.nodes), default=1)
    return used if captures == 1 else f"{used}, highest"


def _amount(amount: float, highest: float, measure: Measure, after: str = "") -> Cell:
    return Cell(text=figure(amount, measure), after=after, number=amount, bar=percent_of(amount, highest))


def percent_of(amount: float, of: float) -> float:
    """Return the length of a bar in percent of the longest."""
    return round(100 * amount / of, 1) if of else 0.0


def _split(one: HotOne) -> str:
    """Return the time that is not CPU, if the server prints it."""
    parts = (("other", one.other_percent), ("idle", one.idle_percent))
    return ", ".join(f"{name} {percent:.1f} %" for name, percent in parts if percent is not None)


def _name_of(cpu: NodeCpu, heats: dict[str, Heat]) -> str:
    """Return the name of a node in the report, which prints the id if there is no name."""
    return next((name for name in (cpu.name, cpu.node_id) if name and name in heats), cpu.label)


def _cpu_of(cpus: Mapping[str, NodeCpu], node: str) -> Cell:
    cpu = cpus.get(node)
    if cpu is None or cpu.percent is None:
        return Cell(text="unknown", number=-1)
    load = (cpu.load_average or {}).get("1m")
    notes = [note for note in (measure_name(cpu.source), "" if load is None else f"load {load:.1f}") if note]
    return Cell(text=f"{cpu.percent:.0f} %", after=", ".join(notes), number=cpu.percent, bar=min(100.0, cpu.percent))


def columns_of(captures: int) -> list[int]:
    """Choose the captures that get a column: the first, the last, and some between, evenly spread."""
    if captures <= _MOST_COLUMNS:
        return list(range(captures))
    return [round(step * (captures - 1) / (_MOST_COLUMNS - 1)) for step in range(_MOST_COLUMNS)]


def change_tables(found: Comparison, labels: Sequence[str]) -> tuple[Table, ...]:
    """Return the tables of pools, top frames and threads that changed, most changed first; none is empty."""
    tables = (
        _change_table("Thread pool", found.measure, found.pools, labels),
        _change_table("Top frame", found.measure, found.methods, labels),
        _change_table("Thread", found.measure, [one.heat for one in found.threads], labels),
    )
    return tuple(table for table in tables if table.rows)


def _change_table(first: str, measure: Measure, heats: Sequence[Heat], labels: Sequence[str]) -> Table:
    changed = [heat for heat in heats if figure(abs(heat.difference), measure) != figure(0.0, measure)]
    changed.sort(key=lambda heat: -abs(heat.difference))
    columns: dict[str, Callable[[Heat], Cell]] = {first: _NAME_CELLS[first]}
    columns |= {labels[number]: partial(_amount_in, measure, number) for number in columns_of(len(labels))}
    columns["Change"] = lambda heat: Cell(
        text=difference(heat.difference, measure),
        after="new" if heat.is_new else "gone" if heat.is_gone else "",
        number=heat.difference,
        bar=percent_of(heat.difference, abs(changed[0].difference)),
    )
    return table_of(f"{first}s", changed, columns, falls_by=None, has_signs=True)


def _amount_in(measure: Measure, capture: int, heat: Heat) -> Cell:
    amount = heat.amounts[capture]
    return Cell(text="–", number=-1) if amount is None else Cell(text=figure(amount, measure), number=amount)  # noqa: RUF001 - a dash


def _thread(heat: Heat) -> Cell:
    # Most names contain their node; those of the JVM's own threads are the same on each.
    node = heat.nodes[0]
    return Cell(text=readable(heat.name), before="" if node in heat.name else f"{readable(node)} · ")


# The first cell of a row, by the heading of its column.
_NAME_CELLS: dict[str, Callable[[Heat], Cell]] = {
    "Thread pool": lambda heat: Cell(text=readable(heat.name)),
    "Top frame": lambda heat: method_cell(heat.name),
    "Thread": _thread,
}
