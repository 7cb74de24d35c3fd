"""Choose the values of a task's result that go into the event of an asset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.lineage.locations import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What is about the attempt, not about what was written.
_OF_THE_ATTEMPT = {"restarts", "resumed", "rows_per_second"}
_OF_A_DIGEST = ("path", "headline", "since", "until", "captures", "series", "damaged")


def export_facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of an export of subscriptions: what its summary says of the dataset and of the changes."""
    return _shown({name: value for name, value in summary.items() if name not in _OF_THE_ATTEMPT})


def enrichment_facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of an enrichment; it is complete if the service has answered for every row, now or earlier."""
    return {**export_facts(summary), "complete": not (summary["failed"] or summary["not_asked"])}


def capture_facts(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a capture of hot threads; of several, those of the first."""
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


def digest_facts(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a digest of captures; it is complete if no file is damaged."""
    chosen = _shown({name: result[name] for name in _OF_A_DIGEST})
    return {**chosen, "paths": _shown(result["paths"]), "complete": not result["damaged"]}


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without the user information in their paths."""
    return {name: without_userinfo(value) if isinstance(value, str) else value for name, value in values.items()}


def _number(entries: Sequence[Any], left_out: Mapping[str, int], name: str) -> int:
    return len(entries) + left_out.get(name, 0)
