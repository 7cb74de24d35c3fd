"""Choose the values of a task's result that go into the event of an asset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.lineage.locations import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EXPORT = ("rows", "bytes", "pages", "duplicates", "complete", "changed")
_ENRICHMENT = ("rows", "bytes", "found", "not_found", "invalid", "failed", "requests")


def export_facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the facts of an export of subscriptions.

    :param summary: the task's result; one of an older version may lack some.
    :returns: ``path``, ``rows``, ``bytes``, ``pages``, ``duplicates``, ``complete``; with ``if_changed`` ``changed``.
    """
    return _path(summary) | _chosen(summary, _EXPORT)


def enrichment_facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the facts of an enrichment.

    :param summary: the task's result.
    :returns: ``path``, ``rows``, ``bytes``, the number of rows by status, ``requests``, and ``complete``: whether the
        service answered for every row.
    """
    facts = _path(summary) | _chosen(summary, _ENRICHMENT)
    return facts | ({"complete": facts["failed"] == 0} if "failed" in facts else {})


def capture_facts(result: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the facts of a capture of hot threads; of several, those of the first.

    :param result: the task's result.
    :returns: ``path`` (of the text, or of the first format there is), ``paths`` by format, ``taken``, ``bytes`` of the
        text, the number of ``nodes``, of nodes that are ``missing``, of ``captures`` and of ``failures``, ``complete``
        (whether no node is missing, and all of the text was understood), ``timed_out``, and the ``hottest`` thread with
        its node and its figure, or None.
    """
    paths = {name: without_userinfo(path) for name, path in result.get("paths", {}).items()}
    left_out = result.get("left_out", {})
    missing = _number(result.get("missing", ()), left_out, "missing")
    return {
        "path": paths.get("txt") or next(iter(paths.values()), None),
        "paths": paths,
        **_chosen(result, ("taken", "bytes", "timed_out")),
        "nodes": _number(result.get("nodes", ()), left_out, "nodes"),
        "missing": missing,
        "captures": _number(result.get("captures", ()), left_out, "captures"),
        "failures": result.get("failure_count", 0),
        "complete": not missing and not result.get("unparsed"),
        "hottest": next(iter(result.get("hottest", ())), None),
    }


def bulletin_facts(activity: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the facts of a bulletin.

    :param activity: the task's result.
    :returns: the ``id`` of the activity, if the service sent one.
    """
    return _chosen(activity, ("id",))


def _path(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {"path": without_userinfo(summary["path"])} if "path" in summary else {}


def _chosen(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _number(entries: Sequence[Any], left_out: Mapping[str, int], name: str) -> int:
    return len(entries) + left_out.get(name, 0)
