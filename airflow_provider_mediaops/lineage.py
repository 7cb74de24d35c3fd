"""
The lineage of each operator's task: inputs, outputs and facts, from its rendered arguments and its result.

OpenLineage gets it in its own classes, and the events of the task's outlets get the facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.asset_uris import BOOKS, CLUSTER, VIDEO, openlineage_name, service_uri

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from openlineage.client.generated.base import InputDataset, OutputDataset

    from airflow_provider_mediaops.storage.source_columns import ColumnType

# What is about the attempt, not about what was written.
_OF_THE_ATTEMPT = {"restarts", "resumed", "rows_per_second"}
_OF_A_DIGEST = ("path", "headline", "since", "until", "captures", "series", "damaged")
# The types of the columns of a table, in the words of Parquet.
_CHANGE = {"change": "string", "id": "string", "before": "object", "after": "object"}
_TYPES: dict[type[str | int | float | bool], str] = {str: "string", int: "int64", float: "double", bool: "boolean"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_WEB = ("http", "https")
_QUERY = re.compile(r"[?#].*", re.DOTALL)
# What ends or encodes the path in a URI; the rest stays readable, as people write the URIs of assets.
_ESCAPES = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})


@dataclass(frozen=True, slots=True)
class LineageDataset:
    """An input or output of a task: a file, an object, or something that a service has."""

    uri: str
    columns: Mapping[str, str] | None = None
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TaskLineage:
    """The lineage of a task; the events of its assets are about the first output, and say the facts."""

    inputs: tuple[LineageDataset, ...] = ()
    outputs: tuple[LineageDataset, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def bulletin_lineage(conn_id: str, activity: Mapping[str, Any] | None) -> TaskLineage:
    """Return the lineage of a bulletin."""
    written = LineageDataset(service_uri(VIDEO, conn_id, "bulletins"))
    return TaskLineage((), (written,), {name: value for name, value in (activity or {}).items() if name == "id"})


def export_lineage(
    conn_id: str,
    destination: str,
    format: str | None,
    query: Mapping[str, Any],
    summary: Mapping[str, Any] | None,
    *,
    changes: str | None = None,
) -> TaskLineage:
    """Return the lineage of an export of subscriptions."""
    from airflow_provider_mediaops.storage.formats import format_of
    from airflow_provider_mediaops.video.arguments import SubscriptionQuery
    from airflow_provider_mediaops.video.export import SUBSCRIPTIONS

    listed = SubscriptionQuery(**query)
    what = "subscriptions/mine" if listed.mine else "subscriptions"
    if listed.channel_id is not None:
        # The path of a URI; a channel's id has no other characters than letters, digits, - and _.
        what = f"subscriptions/channels/{listed.channel_id}"
    if format_of(destination, format) == "jsonl":
        fields = {"kind": "string", "etag": "string"}
        columns = fields | {part: "string" if part == "id" else "object" for part in listed.part}
    else:
        columns = _typed(SUBSCRIPTIONS.columns)
    written = _dataset(destination, columns, summary)
    source = LineageDataset(service_uri(VIDEO, conn_id, what))
    return TaskLineage((source,), (written, *_changes(changes, summary)), _dataset_facts(summary))


def _changes(path: str | None, summary: Mapping[str, Any] | None) -> list[LineageDataset]:
    """Return the file of changes, unless there is none, or it stays as it is."""
    if path is None or (summary is not None and summary.get("changes") is None):
        return []
    numbers = [summary[name] for name in ("added", "removed", "changed_records")] if summary else None
    return [LineageDataset(uri_of(path), _CHANGE, rows=None if numbers is None else sum(numbers))]


def enrichment_lineage(
    conn_id: str,
    destination: str,
    format: str | None,
    *,
    source: Sequence[str],
    keep: object,
    columns: Mapping[str, ColumnType] | None,
    numbered: bool = False,
    reuse: Sequence[str] = (),
    summary: Mapping[str, Any] | None,
) -> TaskLineage:
    """Return the lineage of an enrichment."""
    from airflow_provider_mediaops.enrichment.dataset_rows import INPUT_ROW, enriched_view
    from airflow_provider_mediaops.storage.formats import format_of
    from airflow_provider_mediaops.storage.source_columns import read_keep
    from airflow_provider_mediaops.storage.source_list import format_of_list

    reads = [LineageDataset(service_uri(BOOKS, conn_id, "books"))]
    reads[:0] = [LineageDataset(uri_of(path)) for path in source]
    keeps = read_keep(keep) is not False and any(format_of_list(path) != "txt" for path in source)
    known: dict[str, str] | None = None
    if format_of(destination, format) == "jsonl":
        known = {INPUT_ROW: "int64"} if numbered else {}
        known |= dict.fromkeys(("input", "isbn13", "status", "error", "note", "fetched_at"), "string")
        known |= {"reused": "boolean", "book": "object"}
        known |= {"source": "object"} if keeps else {}
    elif columns is not None or not keeps:
        known = _typed(enriched_view(columns or {}, numbered=numbered).columns)
    written = _dataset(destination, known, summary)
    # A dataset that is kept fresh in place is an output only.
    earlier = [LineageDataset(uri) for path in reuse if (uri := uri_of(path)) != written.uri]
    facts = _dataset_facts(summary)
    if summary:
        # It is complete if the service has answered for every row, now or earlier.
        facts["complete"] = not (summary["failed"] or summary["not_asked"])
    return TaskLineage((*reads, *earlier), (written,), facts)


def capture_lineage(
    conn_id: str, destination: str, formats: str | Sequence[str], result: Mapping[str, Any] | None
) -> TaskLineage:
    """Return the lineage of a capture of hot threads."""
    from airflow_provider_mediaops.cluster.capture.plan import capture_paths

    read = LineageDataset(service_uri(CLUSTER, conn_id, "hot_threads"))
    planned = {"paths": capture_paths(destination, formats)}
    # By its URI, since all captures share one page.
    written: dict[str, LineageDataset] = {}
    for capture in (result, *result.get("later_captures", ())) if result else (planned,):
        for name, path in capture.get("paths", {}).items():
            uri = uri_of(path)
            written[uri] = LineageDataset(uri, bytes=capture.get("bytes") if name == "txt" else None)
    return TaskLineage((read,), tuple(written.values()), _capture_facts(result) if result else {})


def digest_lineage(sources: Sequence[str], destination: str, result: Mapping[str, Any] | None) -> TaskLineage:
    """Return the lineage of a digest of captures."""
    from airflow_provider_mediaops.cluster.capture.plan import capture_paths

    paths = result["paths"] if result else capture_paths(destination, ("html", "json", "folded"))
    written = tuple(LineageDataset(uri_of(paths[name])) for name in ("html", "json", "folded"))
    read = tuple(LineageDataset(uri_of(source)) for source in sources)
    facts: dict[str, Any] = {}
    if result:
        # It is complete if no file is damaged.
        facts = {**_shown({name: result[name] for name in _OF_A_DIGEST}), "paths": _shown(result["paths"])}
        facts["complete"] = not result["damaged"]
    return TaskLineage(read, written, facts)


def _dataset(destination: str, columns: Mapping[str, str] | None, summary: Mapping[str, Any] | None) -> LineageDataset:
    done = summary or {}
    return LineageDataset(uri_of(done.get("path", destination)), columns, done.get("rows"), done.get("bytes"))


def _typed(columns: Mapping[str, type[str | int | float | bool]]) -> dict[str, str]:
    return {name: _TYPES[kind] for name, kind in columns.items()}


def _dataset_facts(summary: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the summary of a dataset says of it and of its changes."""
    return _shown({name: value for name, value in (summary or {}).items() if name not in _OF_THE_ATTEMPT})


def _capture_facts(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a capture of hot threads; of several, those of the first."""
    paths = _shown(result.get("paths", {}))
    left_out = result.get("left_out", {})
    missing = _number(result.get("missing", ()), left_out, "missing")
    return {
        "path": paths.get("txt") or next(iter(paths.values()), None),
        "paths": paths,
        **{name: result[name] for name in ("taken", "bytes", "timed_out") if name in result},
        "nodes": _number(result.get("nodes", ()), left_out, "nodes"),
        "missing": missing,
        "captures": 1 + _number(result.get("later_captures", ()), left_out, "later_captures"),
        "failures": result.get("failure_count", 0),
        "complete": not missing and not result.get("unparsed"),
        "hottest": next(iter(result.get("hottest", ())), None),
    }


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without the user information in their paths."""
    return {name: without_userinfo(value) if isinstance(value, str) else value for name, value in values.items()}


def _number(entries: Sequence[Any], left_out: Mapping[str, int], name: str) -> int:
    return len(entries) + left_out.get(name, 0)


def operator_lineage(lineage: TaskLineage) -> OperatorLineage[Any, Any] | None:
    """Return the lineage of a task in the classes of OpenLineage; None without its provider."""
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage
    except ImportError:
        return None
    return OperatorLineage(
        inputs=[_input(dataset) for dataset in lineage.inputs], outputs=list(map(_output, lineage.outputs))
    )


def _input(described: LineageDataset) -> InputDataset:
    from openlineage.client.generated.base import InputDataset

    namespace, name = openlineage_name(described.uri)
    return InputDataset(namespace=namespace, name=name)


def _output(described: LineageDataset) -> OutputDataset:
    from openlineage.client.generated.base import OutputDataset
    from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
    from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields

    namespace, name = openlineage_name(described.uri)
    dataset = OutputDataset(namespace=namespace, name=name)
    if described.columns is not None:
        fields = [SchemaDatasetFacetFields(name=column, type=kind) for column, kind in described.columns.items()]
        dataset.facets = {"schema": SchemaDatasetFacet(fields=fields)}
    if described.rows is not None or described.bytes is not None:
        statistics = OutputStatisticsOutputDatasetFacet(rowCount=described.rows, size=described.bytes)
        dataset.outputFacets = {"outputStatistics": statistics}
    return dataset


def note_in_events(context: Context, outlets: Iterable[Any], lineage: TaskLineage, warn: Callable[..., None]) -> None:
    """
    Put the facts of a task into the events of its outlets.

    The event of an asset, or of a reference to one, gets them in its ``extra``. An alias gets an event of the asset
    that the task has written, so that its URI may depend on a template. What else is in the extra stays.

    A failure is logged: what the task has written is there already.
    """
    from airflow.sdk import Asset, AssetAlias
    from airflow.sdk.definitions.asset import AssetRef
    from airflow.sdk.exceptions import AirflowRuntimeError

    for outlet in outlets:
        try:
            if isinstance(outlet, AssetAlias):
                for written in lineage.outputs[:1]:
                    context["outlet_events"][outlet].add(Asset(uri=written.uri), extra=dict(lineage.facts))
            elif isinstance(outlet, (Asset, AssetRef)):
                context["outlet_events"][outlet].extra.update(lineage.facts)
        except (AirflowRuntimeError, TypeError, ValueError) as error:
            warn("The event of the outlet %s says nothing about what was written: %s", _name_of(outlet), error)


def _name_of(outlet: object) -> str:
    return str(getattr(outlet, "name", None) or getattr(outlet, "uri", outlet))


def _parts(path: str) -> tuple[str, str, str]:
    """Return the scheme of a path, its user information and the rest; the first two may be empty."""
    found = _SCHEME.fullmatch(path)
    if not found:
        return "", "", path
    authority, slash, key = found[2].partition("/")
    userinfo, _, bucket = authority.rpartition("@")
    return found[1], userinfo, f"{bucket}{slash}{key}"


def without_userinfo(path: str) -> str:
    """Return a path without the user information between scheme and bucket."""
    scheme, _, rest = _parts(path)
    return f"{scheme}://{rest}" if scheme else path


def uri_of(path: str) -> str:
    """Return the URI of the asset that a path names, without user information and without a query: it may be signed."""
    scheme, _, rest = _parts(path)
    if not scheme:
        return f"file://{_absolute(rest.removeprefix('file:')).translate(_ESCAPES)}"
    scheme = scheme.lower()
    if scheme in _WEB:
        return f"{scheme}://{_QUERY.sub('', rest)}"
    if scheme in _LOCAL:
        return f"file://{_absolute(rest).translate(_ESCAPES)}"
    return f"{scheme}://{rest.translate(_ESCAPES)}"


def _absolute(path: str) -> str:
    file = Path(path)
    try:
        file = file.expanduser()
    except RuntimeError:
        # There is no such home folder; the task itself says so.
        return path
    return str(file.absolute())
