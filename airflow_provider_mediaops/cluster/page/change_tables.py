"""The tables of the page that show what changed from the first capture to the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.page.tables import (
    MOST_ROWS,
    Cell,
    Table,
    method_of_heat,
    name_of_heat,
    percent_of,
)
from airflow_provider_mediaops.cluster.page.text import difference, figure, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_mediaops.cluster.comparison import Comparison, Heat
    from airflow_provider_mediaops.cluster.folded import Measure

# A table with a column for each of fifty captures cannot be read.
_MOST_COLUMNS = 5


def columns_of(captures: int) -> list[int]:
    """
    Choose the captures that get a column of their own.

    :returns: the positions of the first and the last, and of some between, evenly spread.
    """
    if captures <= _MOST_COLUMNS:
        return list(range(captures))
    return [round(step * (captures - 1) / (_MOST_COLUMNS - 1)) for step in range(_MOST_COLUMNS)]


def change_tables(found: Comparison, labels: Sequence[str]) -> tuple[Table, ...]:
    """
    Return the tables of pools, top frames and threads that changed, most changed first.

    :returns: the tables that have rows; none if nothing changed.
    """
    tables = (
        _change_table("Thread pool", found.measure, found.pools, labels, name_of_heat),
        _change_table("Top frame", found.measure, found.methods, labels, method_of_heat),
        _change_table("Thread", found.measure, [one.heat for one in found.threads], labels, _thread),
    )
    return tuple(table for table in tables if table.rows)


def _change_table(
    first: str,
    measure: Measure,
    heats: Sequence[Heat],
    labels: Sequence[str],
    name: Callable[[Heat], Cell],
) -> Table:
    columns = columns_of(len(labels))
    changed = [heat for heat in heats if figure(abs(heat.difference), measure) != figure(0.0, measure)]
    changed.sort(key=lambda heat: -abs(heat.difference))
    return Table(
        caption=f"{first}s",
        columns=(first, *(labels[number] for number in columns), "Change"),
        rows=tuple(
            (
                name(heat),
                *(_amount(heat.amounts[number], measure) for number in columns),
                Cell(
                    text=difference(heat.difference, measure),
                    after="new" if heat.is_new else "gone" if heat.is_gone else "",
                    number=heat.difference,
                    bar=percent_of(heat.difference, abs(changed[0].difference)),
                ),
            )
            for heat in changed[:MOST_ROWS]
        ),
        beyond=max(0, len(changed) - MOST_ROWS),
        falls_by=None,
        has_signs=True,
    )


def _amount(amount: float | None, measure: Measure) -> Cell:
    if amount is None:
        return Cell(text="–", number=-1)  # noqa: RUF001 - a dash
    return Cell(text=figure(amount, measure), number=amount)


def _thread(heat: Heat) -> Cell:
    # Most names contain their node; those of the JVM's own threads are the same on each.
    node = heat.nodes[0]
    return Cell(text=readable(heat.name), before="" if node in heat.name else f"{readable(node)} · ")
