"""JSON replies as a cluster shapes them: filtered by ``filter_path``, spread over lines by ``pretty``."""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_mediaops.sandbox.cluster.wildcard import matches


def json_bytes(body: Any, *, pretty: bool) -> bytes:
    """
    Write a reply's JSON.

    :param body: what it says.
    :param pretty: whether each field has a line of its own.
    """
    if not pretty:
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    text = json.dumps(body, indent=2, separators=(",", " : "), ensure_ascii=False)
    return f"{text.replace('{}', '{ }').replace('[]', '[ ]')}\n".encode()


def filtered(body: dict[str, Any], filter_path: str) -> dict[str, Any]:
    """
    Keep the fields of a reply that a filter names.

    :param body: the whole reply.
    :param filter_path: paths of fields between commas; ``*`` stands for any part of a name, ``**`` for any number of
        names; a minus before a path leaves its fields out.
    """
    paths = [path for path in filter_path.split(",") if path]
    wanted = [_names(path) for path in paths if not path.startswith("-")]
    unwanted = [_names(path[1:]) for path in paths if path.startswith("-")]
    kept = _kept(body, wanted) if wanted else body
    return _without(kept, unwanted)


def _names(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


def _rest_after(name: str, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return what is left of a path below a field: nothing if it leads elsewhere, an empty rest if it ends here."""
    if path[0] == "**":
        return [path, *(_rest_after(name, path[1:]) if path[1:] else [()])]
    return [path[1:]] if matches(path[0], name) else []


def _kept(body: dict[str, Any], paths: list[tuple[str, ...]]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in body.items():
        rests = [rest for path in paths for rest in _rest_after(name, path)]
        if () in rests:
            kept[name] = value
        elif rests and isinstance(value, dict) and (part := _kept(value, rests)):
            kept[name] = part
    return kept


def _without(body: dict[str, Any], paths: list[tuple[str, ...]]) -> dict[str, Any]:
    left: dict[str, Any] = {}
    for name, value in body.items():
        rests = [rest for path in paths for rest in _rest_after(name, path)]
        if () in rests:
            continue
        rest = _without(value, rests) if rests and isinstance(value, dict) else value
        # An object that has lost all its fields is left out, too.
        if rest != {} or rest == value:
            left[name] = rest
    return left
