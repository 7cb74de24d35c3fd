"""
The results of benchmarks: rows beside their peers and limits, and the tables of the pages that show them.

With ``WRITE_RESULTS=1``, as ``make benchmarks`` sets it, each benchmark writes its rows to a file of its own in
``recorded``, with the machine, the versions and the date, so each benchmark can be repeated by itself. Each time that
the pages are built, docs/performance.md gets the figures that a user asks for (``GLANCE``), and docs/figures.md all
of them.

A missed limit is stated in the output of the benchmark and on the page, and changes no exit code: limits are of a quiet
machine, and a benchmark that could not measure is to be told from one that measured a slow machine. So a benchmark ends
with 0 if it has measured, and with another code if it has not.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from tests.page_tables import NOTHING, table

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).with_name("recorded")
#: The rows of the page's tables: benchmark, what was measured, and the peer.
GLANCE: dict[str, list[tuple[str, str, str | None]]] = {
    "exports": [
        ("export", "processor time", "requests.Session"),
        ("export", "processor time", "http provider's HttpHook"),
        ("export", "memory, beyond that of one page", "requests.Session"),
        ("export_growth", "processor time, 10,000,000 records", None),
        ("export_growth", "memory, beyond that of one page, 10,000,000 records", None),
    ],
    "lists": [
        ("enrichment_latency", "books a second at a rate of 5, a reply takes 0.2 s", "a loop that sleeps"),
        ("enrichment_latency", "books a second at a rate of 5, a reply takes 5 s", "a loop that sleeps"),
        ("enrichment_memory", "memory, 1,000,000 rows of a list of kind mixed", None),
        ("enrichment_memory", "memory, 1,000,000 rows of a list of kind bulk", None),
        ("rate_limit_made_up", "rate used", None),
    ],
    "waits": [
        (
            "detection",
            "from the reading to the request for hot threads, median",
            "a deferrable sensor before a task",
        ),
        ("triggers", "1,000 triggers: delay of the event loop, 99 %", "100 that each read by themselves"),
        ("triggers", "1,000 triggers: memory of each", "100 that each read by themselves"),
        ("triggers", "1,000 triggers: requests in an interval", "100 that each read by themselves"),
        ("event_loop", "longest step of ExportSubscriptionsOperator", "plain httpx"),
    ],
    "reports": [
        ("hot_threads", "parse a report of OpenSearch 3.8", "a pattern matched against each line"),
        ("hot_threads", "memory of parsing any kind, for each byte of it", None),
        ("kinds_of_work", "opensearch-3.8: right and precise", None),
        ("kinds_of_work", "opensearch-3.8: without a label by a frame", None),
        ("kinds_of_work", "elasticsearch-9.1-secured: right and precise", None),
        ("kinds_of_work", "elasticsearch-9.1-secured: without a label by a frame", None),
    ],
    "dag files": [
        ("import_time", "import of all operators and sensors, processor time", "http provider"),
    ],
}
# What else the machine did, before the benchmark began to load it itself.
_LOAD_BEFORE = os.getloadavg()[0]


@dataclass(frozen=True)
class Limit:
    """
    A bound that a figure has to keep.

    :param bound: whether it is the most or the least.
    :param of: whether it holds for our figure or for its ratio to the peer's.
    """

    bound: Literal["at most", "at least"]
    value: float
    of: Literal["ours", "ratio"] = "ours"


@dataclass(frozen=True)
class Row:
    """
    A figure beside its peer and its limit.

    :param peer: what it is compared with, if there is a peer.
    :param limit: the bound, if one was set.
    """

    what: str
    unit: str
    ours: float
    peer: str | None = None
    peer_figure: float | None = None
    limit: Limit | None = None

    @property
    def ratio(self) -> float | None:
        """Our figure divided by the peer's."""
        return self.ours / self.peer_figure if self.peer_figure else None

    @property
    def bound(self) -> float | None:
        """The limit of our figure; None if there is none."""
        if self.limit is None:
            return None
        return self.limit.value * (self.peer_figure or 0) if self.limit.of == "ratio" else self.limit.value

    @property
    def holds(self) -> bool | None:
        """Whether the limit is kept; None if there is none."""
        if self.limit is None:
            return None
        figure = self.ratio if self.limit.of == "ratio" else self.ours
        if figure is None:
            raise ValueError(f"{self.what!r} has a limit for a ratio, and no peer.")
        return figure <= self.limit.value if self.limit.bound == "at most" else figure >= self.limit.value

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Row:
        """Return the row of its plain values."""
        return cls(**{**values, "limit": Limit(**values["limit"]) if values["limit"] else None})


def record(name: str, rows: Sequence[Row]) -> None:
    """Print a benchmark's rows; if that is asked for, write them to its file."""
    sys.stdout.write(f"\n{table(_HEAD, map(_cells, rows))}{_verdict(rows)}\n")
    sys.stdout.flush()
    if os.environ.get("WRITE_RESULTS") != "1":
        return
    RECORDED.mkdir(exist_ok=True)
    run = {"date": datetime.now(timezone.utc).date().isoformat(), "load_before": round(_LOAD_BEFORE, 1)}
    values = {**run, "machine": machine(), "versions": versions(), "rows": [asdict(row) for row in rows]}
    text = json.dumps(values, indent=2, ensure_ascii=False)
    (RECORDED / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


def machine() -> str:
    """Describe this machine."""
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    name = cpu[1] if cpu else platform.machine()
    return f"{os.cpu_count()} cores of {name}, {gigabytes:.0f} GiB, Linux {platform.release().partition('-')[0]}"


def versions() -> str:
    """Name the versions that were measured."""
    return f"Python {platform.python_version()}, Airflow {version('apache-airflow-core')}"


def glance(name: str, results: Path = RECORDED) -> str:
    """
    Return a table of docs/performance.md.

    :param name: the table, one of ``GLANCE``, or ``missed``: the limits of all benchmarks that are not kept.
    """
    if name == "missed":
        return table(["benchmark", *_HEAD], _missed(_runs(results)))
    return table(_HEAD, map(_cells, glance_rows(name, results)))


def glance_rows(name: str, results: Path = RECORDED) -> list[Row]:
    """
    Return the rows of a table of docs/performance.md.

    :param name: the table, one of ``GLANCE``.
    """
    runs = _runs(results)
    return [_row_of(runs, named) for named in GLANCE[name]]


def _runs(results: Path) -> dict[str, dict[str, Any]]:
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(results.glob("*.json"))}


def figures(results: Path = RECORDED) -> str:
    """Return all that was recorded, with how it is measured: what the benchmark's module says of itself."""
    runs = _runs(results)
    text = f"{table(['date', 'machine', 'versions', 'benchmarks, each with the load before'], _about(runs))}\n"
    for name, run in runs.items():
        text += f"## {name}\n\n{_told(name)}\n\n{table(_HEAD, map(_cells, map(Row.from_dict, run['rows'])))}\n"
    return text


def _told(name: str) -> str:
    """Return what the module that measures it says of itself, with the command."""
    modules = {module.stem.removeprefix("bench_"): module for module in Path(__file__).parent.glob("bench_*.py")}
    about = max((each for each in modules if name.startswith(each)), key=len)
    told = inspect.cleandoc(ast.get_docstring(ast.parse(modules[about].read_text(encoding="utf-8"))) or "")
    return f"`make benchmarks BENCHMARKS={about}`. {told}".replace("``", "`")


def _row_of(runs: dict[str, dict[str, Any]], named: tuple[str, str, str | None]) -> Row:
    """Return the recorded row of this benchmark, with this figure and this peer."""
    benchmark, what, peer = named
    rows = map(Row.from_dict, runs[benchmark]["rows"])
    return next(row for row in rows if (row.what, row.peer) == (what, peer))


_HEAD = ["measured", "this provider", "beside", "its figure", "ratio", "limit"]


def _about(runs: dict[str, dict[str, Any]]) -> Iterable[list[str]]:
    together: dict[tuple[str, str, str], list[str]] = {}
    for name, run in runs.items():
        about = (run["date"], run["machine"], run["versions"])
        together.setdefault(about, []).append(f"`{name}` {run['load_before']:.1f}")
    for about, names in sorted(together.items()):
        yield [*about, ", ".join(names)]


def _missed(runs: dict[str, dict[str, Any]]) -> Iterable[list[str]]:
    for name, run in runs.items():
        for row, _ in _limited(map(Row.from_dict, run["rows"])):
            if not row.holds:
                yield [f"`{name}`", *_cells(row)]


def _limited(rows: Iterable[Row]) -> list[tuple[Row, Limit]]:
    """Return the rows with a limit, one for each: a figure that is beside several peers has it in all of their rows."""
    found = {(row.what, row.limit, row.peer if row.limit.of == "ratio" else ""): row for row in rows if row.limit}
    return [(row, limit) for (_, limit, _), row in found.items()]


def _verdict(rows: Sequence[Row]) -> str:
    """Say which limits are missed, a line each, or that none is."""
    limited = _limited(rows)
    missed = [(row, limit) for row, limit in limited if not row.holds]
    if not missed:
        return f"Limits that hold: {len(limited)} of {len(limited)}." if limited else "No limit is set."
    lines = [f"Limits that hold: {len(limited) - len(missed)} of {len(limited)}. Missed:"]
    for row, limit in missed:
        figure = f"{_ratio(row)} of {row.peer}" if limit.of == "ratio" else with_unit(row.ours, row.unit)
        lines.append(f"- {row.what}: {figure}; the limit is {_bound(limit, row.unit)}")
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    peer_figure = NOTHING if row.peer_figure is None else with_unit(row.peer_figure, row.unit)
    return [row.what, with_unit(row.ours, row.unit), row.peer or NOTHING, peer_figure, _ratio(row), _limit(row)]


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return NOTHING
    return f"1/{_digits(1 / row.ratio)}" if 0 < row.ratio < 0.1 else f"{_digits(row.ratio)}x"


def _limit(row: Row) -> str:
    if row.limit is None:
        return NOTHING
    return f"{_bound(row.limit, row.unit)}: {'holds' if row.holds else '**missed**'}"


def _bound(limit: Limit, unit: str) -> str:
    return f"{limit.bound} {f'{limit.value:g}x' if limit.of == 'ratio' else with_unit(limit.value, unit)}"


def with_unit(figure: float, unit: str) -> str:
    """
    Write a figure with three digits that count, and its unit.

    :param unit: its unit; empty if it has none.
    """
    return f"{_digits(figure)} {unit}".rstrip()


def _digits(figure: float) -> str:
    """Write a figure with three digits that count."""
    for least, places in ((100, 0), (10, 1), (1, 2)):
        if abs(figure) >= least:
            text = f"{figure:,.{places}f}"
            return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{figure:.3f}".rstrip("0").rstrip(".")
