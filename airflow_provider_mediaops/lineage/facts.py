"""Choose the values of a task's result that go into the event of an asset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.lineage.locations import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EXPORT = ("rows", "bytes", "pages", "duplicates", "complete", "changed")
_CHANGES = ("compared", "added", "removed", "changed_records", "recovered", "kept")
_ENRICHMENT = (
    *("rows", "bytes", "found", "not_found", "missing", "invalid", "failed", "not_asked"),
    *("reused", "stale", "refresh_failed", "requests"),
)


def export_facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the facts of an export of subscriptions.

    :param summary: the task's result.
    :returns: ``path``, ``rows``, ``bytes``, ``pages``, ``duplicates``, ``complete``; with ``if_changed`` ``changed``;
        with ``changes`` its path, ``compared``, and the numbers of records: ``added``, ``removed``,
        ``changed_records``, ``recovered`` and ``kept``.
    """
    changes = {"changes": summary["changes"] and without_userinfo(summary["changes"])} if "changes" in summary else {}
    return _path(summary) | _chosen(summary, _EXPORT) | changes | _chosen(summary, _CHANGES)


def enrichment_facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the facts of an enrichment.

    :param summary: the task's result.
    :returns: ``path``, ``rows``, ``bytes``, the number of rows by status, those that were ``reused``, the ``stale``
        ones of them, those of these whose new look-up failed (``refresh_failed``), ``requests``, and ``complete``:
        whether the service has answered for every row, now or earlier.
    """
    facts = _path(summary) | _chosen(summary, _ENRICHMENT)
    return facts | {"complete": not (facts["failed"] or facts["not_asked"])}


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
        "captures": 1 + _number(result.get("later_captures", ()), left_out, "later_captures"),
        "failures": result.get("failure_count", 0),
        "complete": not missing and not result.get("unparsed"),
        "hottest": next(iter(result.get("hottest", ())), None),
    }


def digest_facts(result: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the facts of a digest of captures.

    :param result: the task's result.
    :returns: ``path`` of the page, ``paths`` by format, the ``headline``, ``since`` and ``until`` of the period, the
        number of ``captures``, of those by ``series`` and of ``damaged`` files, and ``complete`` (whether none is).
    """
    paths = {name: without_userinfo(path) for name, path in result.get("paths", {}).items()}
    chosen = _chosen(result, ("headline", "since", "until", "captures", "series", "damaged"))
    return {**_path(result), "paths": paths, **chosen, "complete": not result.get("damaged")}


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
