"""The tables of the page: rows of cells, ready to be written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.comparison import WAITING
from airflow_provider_mediaops.cluster.page.text import count, difference, figure, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_mediaops.cluster.comparison import Comparison, Heat
    from airflow_provider_mediaops.cluster.folded import Measure
    from airflow_provider_mediaops.cluster.hot_threads.report import HotThread
    from airflow_provider_mediaops.cluster.models import NodeCpu

# What is beyond can be found in the text; nobody reads so far down a table.
_MOST_ROWS = 15
_MOST_NODES = 100

_USED = {"cpu": "CPU", "wait": "Waiting", "block": "Blocked", "mem": "Allocated"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """
    One cell.

    :param text: what it says.
    :param before: what stands before that, less clearly: the package of a method, the node of a thread.
    :param after: what stands after it, less clearly.
    :param number: by what its column is sorted; by the text where there is no number.
    :param bar: how long a bar it has, in percent of the longest; below zero for one to the left.
    """

    text: str
    before: str = ""
    after: str = ""
    number: float | None = None
    bar: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """
    One table, whose first column names its rows.

    :param caption: what it shows.
    :param columns: the headings.
    :param rows: the cells of each row.
    :param beyond: how many rows there was no room for.
    :param falls_by: the number of the column whose figures fall from row to row; None where none does.
    :param has_signs: whether its bars begin in the middle.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    beyond: int
    falls_by: int | None = 1
    has_signs: bool = False


def used(measure: Measure) -> str:
    """
    Name what threads used.

    :param measure: what was measured.
    :returns: a heading for the amounts.
    """
    return "Seen" if measure.unit == "threads" else _USED[measure.kind]


def pool_table(found: Comparison) -> Table:
    """
    Show which pools were hot.

    :param found: what was hot.
    :returns: a row for each pool.
    """
    return _hot_table("By thread pool, across nodes", "Thread pool", found, found.pools, _named)


def method_table(found: Comparison) -> Table:
    """
    Show in which methods the threads were.

    :param found: what was hot.
    :returns: a row for each method at the top of a stack.
    """
    return _hot_table("By top frame, across nodes", "Top frame", found, found.methods, _method)


def _hot_table(
    caption: str, first: str, found: Comparison, heats: Sequence[Heat], name: Callable[[Heat], Cell]
) -> Table:
    return Table(
        caption=caption,
        columns=(first, _peak_heading(found), "Threads", "Nodes"),
        rows=tuple(
            (
                name(heat),
                _amount(heat.peak, heats[0].peak, found.measure),
                Cell(text=f"{heat.threads:,}", number=heat.threads),
                _where(heat),
            )
            for heat in heats[:_MOST_ROWS]
        ),
        beyond=max(0, len(heats) - _MOST_ROWS),
    )


def thread_table(found: Comparison) -> Table:
    """
    Show which threads were hot.

    :param found: what was hot.
    :returns: a row for each thread.
    """
    return Table(
        caption="By thread",
        columns=("Thread", _peak_heading(found), "Node", "Most frequent top frame"),
        rows=tuple(
            (
                Cell(text=readable(one.heat.name)),
                _amount(one.heat.peak, found.threads[0].heat.peak, found.measure, _split(one.hottest)),
                Cell(text=readable(one.heat.nodes[0])),
                method_cell(one.method),
            )
            for one in found.threads[:_MOST_ROWS]
        ),
        beyond=max(0, len(found.threads) - _MOST_ROWS),
    )


def node_table(found: Comparison, readings: Sequence[Sequence[NodeCpu] | None], labels: Sequence[str]) -> Table:
    """
    Show how busy the nodes were, and how much of that the threads in the report explain.

    :param found: what was hot.
    :param readings: the CPU of the nodes for each capture; None where it is not known.
    :param labels: what the captures are called.
    :returns: a row for each node with a section in a report, or a reading.
    """
    heats = {heat.name: heat for heat in found.nodes}
    read = {
        f"Node's CPU, {label}" if len(labels) > 1 else "Node's CPU": {_name_of(cpu, heats): cpu for cpu in reading}
        for label, reading in zip(labels, readings, strict=True)
        if reading is not None
    }
    names = list(dict.fromkeys([*heats, *(name for cpus in read.values() for name in cpus)]))
    highest = found.nodes[0].peak if found.nodes else 0.0
    rows = []
    for name in names[:_MOST_NODES]:
        heat = heats.get(name)
        shown = _amount(heat.peak, highest, found.measure) if heat else Cell(text="no section", number=-1)
        threads = heat.threads if heat else 0
        rows.append(
            (
                Cell(text=readable(name)),
                *(_cpu(cpus.get(name)) for cpus in read.values()),
                shown,
                Cell(text=f"{threads:,}", number=threads),
            )
        )
    return Table(
        caption="By node",
        columns=("Node", *read, f"{_peak_heading(found)}, its threads", "Threads"),
        rows=tuple(rows),
        beyond=max(0, len(names) - _MOST_NODES),
        falls_by=len(read) + 1,
    )


def change_tables(found: Comparison, labels: Sequence[str]) -> tuple[Table, ...]:
    """
    Show what changed from the first capture to the last, most changed first.

    :param found: several reports, compared.
    :param labels: what the captures are called.
    :returns: a table of the pools, one of the top frames, and one of the threads.
    """
    return (
        _change_table("Thread pool", found, found.pools, labels, _named),
        _change_table("Top frame", found, found.methods, labels, _method),
        _change_table("Thread", found, [one.heat for one in found.threads], labels, _thread),
    )


def _change_table(
    first: str,
    found: Comparison,
    heats: Sequence[Heat],
    labels: Sequence[str],
    name: Callable[[Heat], Cell],
) -> Table:
    most = sorted(heats, key=lambda heat: -abs(heat.difference))
    return Table(
        caption=f"{first}s",
        columns=(first, *labels, "Change"),
        rows=tuple(
            (
                name(heat),
                *(
                    Cell(text="–", number=-1)  # noqa: RUF001 - a dash
                    if amount is None
                    else Cell(text=figure(amount, found.measure), number=amount)
                    for amount in heat.amounts
                ),
                Cell(
                    text=difference(heat.difference, found.measure),
                    after="new" if heat.is_new else "gone" if heat.is_gone else "",
                    number=heat.difference,
                    bar=_percent(heat.difference, abs(most[0].difference)),
                ),
            )
            for heat in most[:_MOST_ROWS]
        ),
        beyond=max(0, len(most) - _MOST_ROWS),
        falls_by=None,
        has_signs=True,
    )


def method_cell(method: str) -> Cell:
    """
    Show a method: its class rather than the package before it, and whether it is one in which threads wait.

    :param method: such as `org.x.Y$Z.run`.
    :returns: the cell.
    """
    package, dot, name = method.rpartition(".")
    package, second_dot, cls = package.rpartition(".")
    shown = readable(f"{cls}{dot}{name}")
    return Cell(text=shown, before=readable(f"{package}{second_dot}"), after="a wait" if method in WAITING else "")


def _named(heat: Heat) -> Cell:
    return Cell(text=readable(heat.name))


def _method(heat: Heat) -> Cell:
    return method_cell(heat.name)


def _thread(heat: Heat) -> Cell:
    # Most names tell their node; those of the JVM's own threads are the same on each.
    node = heat.nodes[0]
    return Cell(text=readable(heat.name), before="" if node in heat.name else f"{readable(node)} · ")


def _where(heat: Heat) -> Cell:
    several = len(heat.nodes) > 1
    return Cell(text=count(len(heat.nodes), "node") if several else readable(heat.nodes[0]), number=len(heat.nodes))


def _peak_heading(found: Comparison) -> str:
    captures = max((len(heat.amounts) for heat in found.nodes), default=1)
    return used(found.measure) if captures == 1 else f"{used(found.measure)}, highest"


def _amount(amount: float, highest: float, measure: Measure, after: str = "") -> Cell:
    return Cell(text=figure(amount, measure), after=after, number=amount, bar=_percent(amount, highest))


def _percent(amount: float, of: float) -> float:
    return round(100 * amount / of, 1) if of else 0.0


def _split(thread: HotThread) -> str:
    """How much of a thread's share was on a processor, where the server tells the difference."""
    rest = {"other": thread.other_percent, "idle": thread.idle_percent}
    return ", ".join(f"{name} {percent:.1f} %" for name, percent in rest.items() if percent is not None)


def _name_of(cpu: NodeCpu, heats: dict[str, Heat]) -> str:
    """What the report calls a node: it prints no name where there is none."""
    return next((name for name in (cpu.name, cpu.node_id) if name and name in heats), cpu.label)


def _cpu(cpu: NodeCpu | None) -> Cell:
    if cpu is None or cpu.percent is None:
        return Cell(text="unknown", number=-1)
    load = (cpu.load_average or {}).get("1m")
    notes = (["its process"] if cpu.source == "process" else []) + ([f"load {load:.1f}"] if load is not None else [])
    return Cell(text=f"{cpu.percent:.0f} %", after=", ".join(notes), number=cpu.percent, bar=min(100.0, cpu.percent))
