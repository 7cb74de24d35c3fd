"""
What the documentation takes from the code each time that it is built: see `docs/conf.py`.

A comment on a page, such as `<!-- parameters: operators.books.EnrichIsbnsOperator -->`, names what stands there. The
meanings are those of the docstrings, so each is written once.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from typing_extensions import NotRequired, get_type_hints, is_typeddict

from airflow_provider_mediaops.sensors.base import ServiceSensor
from scripts.metric_table import METRICS, WORDS
from scripts.shown_code import code_of

ROOT = Path(__file__).parents[1]
PACKAGE = "airflow_provider_mediaops"
# From a guide.
_VALUES = "arguments.md#accepted-values"
_MARK = re.compile(r"^<!-- (?P<kind>\w+): (?P<name>[\w., /]+) -->$", re.MULTILINE)
_FIELD = re.compile(r"^:param (\w+): (.*(?:\n +.*)*)", re.MULTILINE)
_COMMENTED = re.compile(r"^((?: +#: .*\n)*) +(\w+): [^#\n]+?(?:  #: (.*))?$", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")
_TYPES = {str: "text", int: "integer", float: "number", bool: "boolean", list: "list", dict: "object"}
_TYPES[type(None)] = "null"

#: The headings of the families of kinds of work.
FAMILIES = {
    "search": "Search",
    "fetch": "Fetch phase",
    "agg": "Aggregations",
    "index": "Indexing",
    "ingest": "Ingest pipelines",
    "merge": "Merges",
    "refresh": "Refresh",
    "flush": "Flush",
    "recovery": "Recovery",
    "snapshot": "Snapshots",
    "cluster": "Cluster state",
    "stats": "Statistics and logging",
    "security": "Security",
    "network": "Network",
    "esql": "ES|QL",
    "language": "SQL, PPL, EQL",
    "background": "Background features",
    "jvm": "The JVM",
    "idle": "Idle threads",
}


def filled(page: str) -> str:
    """Put what the code says after the comments of a page."""

    def made(mark: re.Match[str]) -> str:
        make = _MAKERS.get(mark["kind"])
        return f"{mark[0]}\n\n{make(mark['name'])}" if make else mark[0]

    return _MARK.sub(made, page)


def class_of(name: str) -> Any:
    """Return a class of the package."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(f"{PACKAGE}.{module}"), attribute)


def parameters_of(cls: Any) -> dict[str, Any]:
    """Return the class's own arguments with their defaults."""
    parameters = dict(inspect.signature(cls).parameters)
    if issubclass(cls, ServiceSensor):
        parameters["deferrable"] = inspect.signature(ServiceSensor).parameters["deferrable"]
    own = (each for each in parameters.values() if each.kind is each.KEYWORD_ONLY)
    # Airflow passes the context of a notifier.
    return {each.name: each.default for each in own if each.name != "context"}


def meanings_of(cls: Any) -> dict[str, str]:
    """Return what a class and its bases say of each field, in Markdown: in docstrings, or in comments on the fields."""
    found: dict[str, str] = {}
    for base in reversed(getattr(cls, "__mro__", (cls,))):
        found |= {name: _markdown(text) for name, text in _FIELD.findall(inspect.cleandoc(base.__doc__ or ""))}
    if is_typeddict(cls):
        # It does not have its bases among its classes.
        for base in getattr(cls, "__orig_bases__", ()):
            found |= meanings_of(base)
        for above, name, beside in _COMMENTED.findall(inspect.getsource(cls)):
            found[name] = _markdown(above.replace("#:", "") or beside)
    return found


def _markdown(text: str) -> str:
    one_line = " ".join(text.split()).rstrip(".")
    return _ROLE.sub(r"`\1`", one_line).replace("``", "`").replace("|", "\\|")


def _parameters(name: str) -> str:
    cls = class_of(name)
    meanings, parameters = meanings_of(cls), parameters_of(cls)
    rows = [[f"`{each}`", meanings[each], _default(value)] for each, value in parameters.items()]
    fields = set(getattr(cls, "template_fields", ()))
    plain = [f"`{each}`" for each in parameters if each not in fields]
    rest = f" but {', '.join(plain)}" if plain else ""
    templates = f"\nTemplates: all{rest}. Values: [what each kind takes]({_VALUES}).\n" if fields else ""
    return _table(["parameter", "meaning", "default"], rows) + templates


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)
    if isinstance(value, timedelta):
        return f"`timedelta(days={value.days})`"
    return "none" if value is None else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _fields(name: str) -> str:
    cls = class_of(name)
    meanings = meanings_of(cls)
    hints = get_type_hints(cls).items()
    return _table(
        ["field", "type", "meaning"], ([f"`{each}`", type_in_words(hint), meanings[each]] for each, hint in hints)
    )


def type_in_words(hint: Any) -> str:
    """Return how the pages write a type."""
    kind = get_origin(hint) or hint
    if kind is NotRequired:
        return type_in_words(get_args(hint)[0])
    if kind in (Union, UnionType):
        return " or ".join(map(type_in_words, get_args(hint)))
    if kind is Literal:
        return "text"
    return "object" if is_typeddict(kind) else _TYPES[kind]


def _columns(name: str) -> str:
    columns = class_of(name).columns
    return _table(["column", "type"], ([f"`{column}`", type_in_words(kind)] for column, kind in columns.items()))


def _sandbox(name: str) -> str:
    """Return the options of the sandbox, or what is odd about some of its books."""
    from airflow_provider_mediaops.sandbox.books import ODDITIES
    from airflow_provider_mediaops.sandbox.state import Settings

    if name == "options":
        fields = Settings.model_fields.items()
        rows = (
            [f"`--{each.replace('_', '-')}`", field.description or "", f"`{field.default}`"] for each, field in fields
        )
        return _table(["option", "meaning", "default"], rows)
    return "".join(f"- {oddity}\n" for oddity in ODDITIES)


def _code(name: str) -> str:
    language = {".py": "python"}.get(Path(name).suffix, Path(name).suffix[1:])
    return f"```{language}\n{code_of(ROOT / name)}\n```\n"


def _faults(name: str) -> str:
    """Return a table of the suite that brings faults about."""
    from tests.faults.page import table_of

    return table_of(name)


def _figures(_name: str) -> str:
    """Return all that the benchmarks have recorded."""
    from tests.benchmarks.results import figures

    return figures()


def _benchmarks(name: str) -> str:
    """Return a table of what a user asks about, under a picture of it."""
    from tests.benchmarks.bars import bars
    from tests.benchmarks.results import GLANCE, glance, glance_rows

    picture = f"```{{raw}} html\n{bars(glance_rows(name))}```\n\n" if name in GLANCE else ""
    return picture + glance(name)


def _kinds(_name: str) -> str:
    """Return a table for each family of kinds of work: the labels, and what to look at next."""
    from airflow_provider_mediaops.cluster.kinds_of_work import kinds_of_work

    parts = []
    for family, heading in FAMILIES.items():
        kinds = (kind for kind in kinds_of_work() if kind.family == family)
        rows = ([_without_markup(kind.label), _breakable(_without_markup(kind.look))] for kind in kinds)
        parts.append(f"### {_without_markup(heading)}\n\n{_table(['label', 'look at'], rows)}")
    return "\n".join(parts)


def _metrics(_name: str) -> str:
    """Return the tables of the metrics and of the words in their names."""
    rows = ([f"`mediaops.{name}`", kind, unit, meaning] for name, kind, unit, meaning in METRICS)
    named = ([f"`{{{word}}}`", ", ".join(f"`{one}`" for one in ones)] for word, ones in WORDS.items())
    return f"{_table(['name', 'kind', 'unit', 'meaning'], rows)}\n{_table(['word', 'one of'], named)}"


def _mapping(_name: str) -> str:
    """Return the mapping of the metrics for the exporter of StatsD."""
    return f"```yaml\n{statsd_mapping()}```\n"


def _without_markup(text: str) -> str:
    return re.sub(r"([\\`*_<>|\[\]{}])", r"\\\1", text)


def _breakable(text: str) -> str:
    """Let long names, such as those of settings, go on in the next line on a small screen."""
    return re.sub(r"\S{20,}", lambda word: re.sub(r"([./]|\\_)(?=\S)", r"\1<wbr>", word[0]), text)


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in [header, ["---"] * len(header), *rows])


def statsd_mapping() -> str:
    """Return the mapping by which the exporter of StatsD makes labels of the words in names."""
    lines = ["mappings:"]
    for metric in METRICS:
        words = re.findall(r"\{(\w+)\}", metric.name)
        rest = re.sub(r"\{\w+\}\.?", "", metric.name).rstrip(".").replace(".", "_")
        lines += [f"  - match: airflow.mediaops.{re.sub(r'{.*?}', '*', metric.name)}", f"    name: mediaops_{rest}"]
        if words:
            labels = ", ".join(f'{word}: "${number}"' for number, word in enumerate(words, 1))
            lines.append(f"    labels: {{{labels}}}")
    return "\n".join(lines) + "\n"


_MAKERS: dict[str, Callable[[str], str]] = {
    "parameters": _parameters,
    "fields": _fields,
    "columns": _columns,
    "code": _code,
    "sandbox": _sandbox,
    "faults": _faults,
    "kinds": _kinds,
    "metrics": _metrics,
    "mapping": _mapping,
    "figures": _figures,
    "benchmarks": _benchmarks,
}
