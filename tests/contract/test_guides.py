"""The tables of the guides are those of the code: parameters, fields of results, columns of files, and errors."""

from __future__ import annotations

import inspect
import json
import re
from datetime import timedelta
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from typing_extensions import get_type_hints, is_typeddict

from airflow_provider_mediaops import exceptions, results
from airflow_provider_mediaops.books.isbn import InvalidIsbnError
from airflow_provider_mediaops.enrichment.checkpoint import ENRICHED
from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier, PostBulletinNotifier
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sensors.base import ServiceSensor
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.sensors.video import SubscriptionSensor
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
from airflow_provider_mediaops.version_compat import AirflowSensorTimeout
from airflow_provider_mediaops.video.export import SUBSCRIPTIONS

DOCS = Path(__file__).parents[2] / "docs"
PARAMETERS = "| parameter | meaning | default | template |"
FIELDS = "| field | type | meaning |"
COLUMNS = "| column | type | from |"
ERRORS = "| error | when | retried | what to do |"
CLASSES: dict[str, Any] = {
    "post_bulletin": PostBulletinOperator,
    "export_subscriptions": ExportSubscriptionsOperator,
    "capture_hot_threads": CaptureHotThreadsOperator,
    "hot_threads_digest": HotThreadsDigestOperator,
    "enrich_isbns": EnrichIsbnsOperator,
    "subscription_sensor": SubscriptionSensor,
    "cpu_sensor": ClusterCpuSensor,
    "book_sensor": BookSensor,
    "bulletin_notifier": PostBulletinNotifier,
    "capture_notifier": CaptureHotThreadsNotifier,
    "high_cpu_trigger": HighCpuTrigger,
}
#: The value that each table of fields describes: a file of the guides, and the way to it.
SHOWN: dict[tuple[str, str], tuple[str, tuple[str | int, ...]]] = {
    ("post_bulletin", FIELDS): ("bulletin_result", ()),
    ("export_subscriptions", FIELDS): ("export_result", ()),
    ("capture_hot_threads", FIELDS): ("capture_result", ()),
    ("capture_hot_threads", "| field of `cpu` | type | meaning |"): ("capture_result", ("cpu", 0)),
    ("capture_hot_threads", "| field of `hottest` | type | meaning |"): ("capture_result", ("hottest", 0)),
    ("hot_threads_digest", FIELDS): ("hot_threads_digest_result", ()),
    ("hot_threads_digest", "| field of `frames` | type | meaning |"): ("hot_threads_digest_result", ("frames", 0)),
    ("hot_threads_digest", "| field of `tasks` | type | meaning |"): ("hot_threads_digest_result", ("tasks", 0)),
    ("enrich_isbns", FIELDS): ("enrichment_result", ()),
    ("enrich_isbns", "| field of a row | type | meaning |"): ("enrichment_row", ()),
    ("subscription_sensor", FIELDS): ("subscription_sensor_result", ()),
    ("cpu_sensor", FIELDS): ("cpu_sensor_result", (0,)),
    ("book_sensor", FIELDS): ("book_sensor_result", ()),
    ("high_cpu_trigger", FIELDS): ("hot_nodes_event", ()),
}
#: The types of these values; the other services' own records have none.
RESULTS: dict[tuple[str, str], Any] = {
    ("export_subscriptions", FIELDS): results.ExportSummary,
    ("capture_hot_threads", FIELDS): results.CaptureSummary,
    ("capture_hot_threads", "| field of `cpu` | type | meaning |"): results.NodeReading,
    ("capture_hot_threads", "| field of `hottest` | type | meaning |"): results.HotThreadSummary,
    ("hot_threads_digest", FIELDS): results.HotThreadsDigest,
    ("hot_threads_digest", "| field of `frames` | type | meaning |"): results.RecurringFrame,
    ("hot_threads_digest", "| field of `tasks` | type | meaning |"): results.RecurringTasks,
    ("enrich_isbns", FIELDS): results.EnrichmentSummary,
    ("subscription_sensor", FIELDS): results.FoundSubscription,
    ("cpu_sensor", FIELDS): results.HotNodeReading,
    ("high_cpu_trigger", FIELDS): results.HotNodesEvent,
}
TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "number": (float, int),
    "boolean": (bool,),
    "list": (list,),
    "object": (dict,),
    "null": (type(None),),
}
WITH_ERRORS = sorted(CLASSES.keys() - {"bulletin_notifier", "capture_notifier", "high_cpu_trigger"})
#: Errors that no class of the provider is for.
OTHERS: dict[str, tuple[type[Exception], bool]] = {
    "OSError": (OSError, True),
    "AirflowSensorTimeout": (AirflowSensorTimeout, False),
    "InvalidIsbnError": (InvalidIsbnError, False),
}


def page(name: str) -> str:
    return (DOCS / "guides" / f"{name}.md").read_text(encoding="utf-8")


def rows(name: str, head: str) -> list[list[str]]:
    """Return the cells of all tables of a page that have this head."""
    tables = [part.partition("\n\n")[0].splitlines()[1:] for part in page(name).split(f"\n{head}\n")[1:]]
    assert tables, f"{name}.md has no table {head}"
    # A bar within a cell is escaped.
    return [re.split(r"(?<!\\) \| ", line[2:-2].strip() + " ") for table in tables for line in table]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def parameters_of(cls: Any) -> dict[str, Any]:
    """Return the class's own arguments with their defaults."""
    parameters = dict(inspect.signature(cls).parameters)
    if issubclass(cls, ServiceSensor):
        parameters["deferrable"] = inspect.signature(ServiceSensor).parameters["deferrable"]
    own = (each for each in parameters.values() if each.kind is each.KEYWORD_ONLY)
    # Airflow passes the context of a notifier.
    return {each.name: each.default for each in own if each.name != "context"}


def template_fields_of(cls: Any) -> set[str]:
    connection = next((name for name in parameters_of(cls) if name.endswith("_conn_id")), "")
    return {connection if field == "conn_id" else field for field in getattr(cls, "template_fields", ())}


@pytest.mark.parametrize("name", CLASSES)
def test_the_table_of_parameters_has_each_argument_once(name: str) -> None:
    shown = [parameter for row in rows(name, PARAMETERS) for parameter in named(row[0])]

    assert sorted(shown) == sorted(parameters_of(CLASSES[name]))


@pytest.mark.parametrize("name", CLASSES)
def test_the_table_of_parameters_says_which_are_templated(name: str) -> None:
    shown = {parameter: row[3].strip() for row in rows(name, PARAMETERS) for parameter in named(row[0])}

    templated = template_fields_of(CLASSES[name])
    assert shown == {parameter: "yes" if parameter in templated else "no" for parameter in shown}


@pytest.mark.parametrize("name", CLASSES)
def test_the_table_of_parameters_has_the_defaults(name: str) -> None:
    parameters = parameters_of(CLASSES[name])
    for row in rows(name, PARAMETERS):
        for parameter in named(row[0]):
            assert row[2] in shown_as(parameters[parameter], alternatives=len(named(row[0])) > 1), (parameter, row[2])


def shown_as(default: Any, *, alternatives: bool) -> set[str]:
    """Return the ways in which the guides write a default."""
    if default is inspect.Parameter.empty:
        return {"required"}
    if alternatives and default in (None, False):
        # Exactly one of them is needed.
        return {"required"}
    if default is None:
        said = {
            "none",
            "all",
            "by suffix",
            "recognised",
            "usual names",
            "no bound",
            "this or `source`",
            "this or `isbns`",
            "`threshold`",
        }
        settings = {"`[operators] default_deferrable`", "`[sensors] default_timeout`"}
        own_place = "a file for each try of each task below Airflow's log folder, in `hot_threads`"
        return said | settings | {own_place}
    if isinstance(default, tuple):
        return {"all", ", ".join(f"`{each}`" for each in default)}
    if isinstance(default, timedelta):
        default = f"timedelta(days={default.days})"
    return {f"`{default:g}`" if isinstance(default, float) else f"`{default}`"}


@pytest.mark.parametrize(("name", "head"), SHOWN)
def test_the_table_of_fields_is_that_of_the_result(name: str, head: str) -> None:
    snippet, way = SHOWN[name, head]
    result = json.loads((DOCS / "snippets" / f"{snippet}.json").read_text(encoding="utf-8"))
    for step in way:
        result = result[step]
    shown = {field: row[1] for row in rows(name, head) for field in named(row[0])}

    assert result.keys() <= shown.keys()
    # What the types of results know, and no other.
    assert (name, head) in RESULTS or result.keys() == shown.keys()
    for field, value in result.items():
        types = tuple(kind for word in shown[field].split(" or ") for kind in TYPES[word])
        assert isinstance(value, types), (field, shown[field], value)
        assert not isinstance(value, bool) or bool in types


@pytest.mark.parametrize(("name", "head"), RESULTS)
def test_the_table_of_fields_is_that_of_the_type_of_the_result(name: str, head: str) -> None:
    shown = {field: row[1] for row in rows(name, head) for field in named(row[0])}

    assert shown == {field: words(hint) for field, hint in get_type_hints(RESULTS[name, head]).items()}


def words(hint: Any) -> str:
    """Return how the guides write a type."""
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType):
        return " or ".join(map(words, get_args(hint)))
    if kind is Literal:
        return "text"
    if is_typeddict(kind):
        return "object"
    return next(word for word, kinds in TYPES.items() if kind is kinds[0])


@pytest.mark.parametrize(("name", "view"), [("export_subscriptions", SUBSCRIPTIONS), ("enrich_isbns", ENRICHED)])
def test_the_table_of_columns_is_that_of_the_files(name: str, view: Any) -> None:
    shown = {column: row[1] for row in rows(name, COLUMNS) for column in named(row[0]) if "<" not in column}

    assert shown == {column: words(kind) for column, kind in view.columns.items()}


@pytest.mark.parametrize("name", WITH_ERRORS)
def test_the_table_of_errors_says_whether_they_are_retried(name: str) -> None:
    for row in rows(name, ERRORS):
        # What is in brackets is a status, a reason or a base class.
        errors = [OTHERS.get(word) or classified(word) for word in named(re.sub(r"\(.*?\)", "", row[0]))]
        assert errors, row
        assert {retried for _, retried in errors} == {row[2] == "yes"}, row
        assert row[2] in ("yes", "no")


def classified(name: str) -> tuple[type[Exception], bool]:
    error = getattr(exceptions, name)
    return error, issubclass(error, exceptions.MediaOpsError) and error.temporary


@pytest.mark.parametrize("name", CLASSES)
def test_a_page_has_an_example_and_its_parts_in_the_same_order(name: str) -> None:
    text = page(name)
    headings = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)

    assert CLASSES[name].__name__ in text.partition("```python")[0]
    assert "```python" in text.partition("\n## ")[0], "the example comes first"
    order = [heading for heading in headings if heading in ("Parameters", "Result", "Files", "Errors")]
    assert order[:2] == ["Parameters", "Result"]
    assert order == sorted(order, key=["Parameters", "Result", "Files", "Errors"].index)
    assert name == "high_cpu_trigger" or "Errors" in order
