"""The figures that the scripts of a digest's page draw, as JSON: bounded, each name once, and harmless inside HTML."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_provider_mediaops.cluster.digest.findings import PRUNED, kept_stacks, keys_of, left_of, series_label
from airflow_provider_mediaops.cluster.page.flame_graph import Room, harmless_json
from airflow_provider_mediaops.cluster.text import count, readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_mediaops.cluster.digest.model import Digest, NamedCapture, Profile
    from airflow_provider_mediaops.cluster.folded import Unit

# About how many characters of JSON the stacks, and the captures that cells name, may take in all.
_ROOM_FOR_STACKS = 900_000
_ROOM_FOR_CAPTURES = 400_000
# Thread pools that have a line, in the strips of up to three series; more series share these lines.
_MOST_POOLS, _FULL_STRIPS = 20, 3
# The length of a figure in the JSON, with its span.
_FIGURE = 12


@dataclass(slots=True)
class _Rooms:
    """The room that is left of a series, and what had none."""

    stacks: Room
    captures: int
    left_out_stacks: int = 0
    left_out_captures: int = 0


def digest_data(digest: Digest, page: str) -> tuple[str, str]:
    """
    Return the figures of a digest for the scripts of its page.

    They are JSON, which has ``names``, and for each series its spans of time, its thread pools with their cells, and
    its stacks with their amounts by span; and what to say about the stacks and captures that are not in it.
    """
    keys = keys_of(digest)
    prefix = _common_folder(digest)
    names: dict[str, int] = {}
    rooms = [_Rooms(Room(names, _ROOM_FOR_STACKS // len(keys)), _ROOM_FOR_CAPTURES // len(keys)) for _ in keys]
    most_pools = _MOST_POOLS * _FULL_STRIPS // max(_FULL_STRIPS, len(keys))
    series = [
        {
            "label": series_label(name, measure.kind),
            **_series(digest.profiles[name, measure], measure.unit, prefix, room, most_pools),
        }
        for (name, measure), room in zip(keys, rooms, strict=True)
    ]
    facts = {
        "width": digest.width,
        "prefix": readable(prefix),
        "base": _link_base(prefix, page),
        "names": list(names),
        "series": series,
    }
    return harmless_json(facts), _pruned(rooms)


def _series(profile: Profile, unit: Unit, prefix: str, room: _Rooms, most_pools: int) -> dict[str, Any]:
    spans = sorted(profile.spans)
    return {
        "unit": unit,
        "captures": profile.frames.captures,
        "spans": [[span, int(profile.spans[span][0])] for span in spans],
        "pools": [
            {
                "pool": readable(pool),
                "cells": [
                    [span, captures, _rounded(amount), _named(profile.named[pool, span], prefix, room)]
                    for span, (captures, amount) in sorted(profile.pools.rows[pool].items())
                ],
            }
            for pool, *_ in profile.pools.ranked()[:most_pools]
        ],
        "stacks": _stacks(profile, {span: number for number, span in enumerate(spans)}, room),
    }


def _named(captures: Iterable[NamedCapture], prefix: str, room: _Rooms) -> list[list[Any]]:
    """Return the hottest captures of a cell: path below the common folder, time, figure."""
    named: list[list[Any]] = []
    for amount, time, path in captures:
        shown = path.removeprefix(prefix)
        room.captures -= len(shown) + 2 * _FIGURE
        if room.captures < 0:
            room.left_out_captures += 1
        else:
            named.append([shown.encode("utf-8", "replace").decode(), int(time), _rounded(amount)])
    return named


def _stacks(profile: Profile, numbers: dict[int, int], room: _Rooms) -> list[list[Any]]:
    """Return the heaviest stacks with their amounts by span, and what is left of each pool."""
    rows: list[list[Any]] = []
    shown = []
    for path, spans in kept_stacks(profile):
        positions = room.stacks.place([*map(readable, path)], len(spans) * _FIGURE)
        if positions is None:
            room.left_out_stacks += 1
        else:
            shown.append((path, spans))
            rows.append([positions, _amounts(spans, numbers)])
    for path, spans in left_of(profile, shown):
        if amounts := _amounts(spans, numbers):
            rows.append([room.stacks.positions([*map(readable, path)]), amounts])
    return rows


def _amounts(spans: dict[int, float], numbers: dict[int, int]) -> list[float]:
    """Return the positions of spans, each followed by its amount; without those that round to nothing."""
    return [
        value
        for span, amount in sorted(spans.items())
        if span in numbers and (shown := _rounded(amount)) > 0
        for value in (numbers[span], shown)
    ]


def _rounded(amount: float) -> float:
    rounded = round(amount, 2)
    return int(rounded) if rounded == int(rounded) else rounded


def _pruned(rooms: list[_Rooms]) -> str:
    stacks, captures = sum(room.left_out_stacks for room in rooms), sum(room.left_out_captures for room in rooms)
    sentences = [f"Stacks that are too rare to be kept are summed up as “{PRUNED}” below their thread pool."]
    if stacks:
        sentences.append(f"The page has no room for {count(stacks, 'stack')} more, which are in that bar, too.")
    if captures:
        sentences.append(f"It has no room for the names of {count(captures, 'capture')} in cells.")
    return " ".join(sentences)


def _common_folder(digest: Digest) -> str:
    """Return the folder that all named captures share, with a slash at its end."""
    named = (
        each.path for profile in digest.profiles.values() for captures in profile.named.values() for each in captures
    )
    common = posixpath.commonprefix(list(named))
    return common[: common.rfind("/") + 1]


def _link_base(prefix: str, page: str) -> str | None:
    """Return the relative address of the common folder from the page; None if they are on different stores."""
    one, other = _place(prefix), _place(page)
    if one is None or other is None or one[0] != other[0]:
        return None
    way = posixpath.relpath(one[1], posixpath.dirname(other[1]))
    return f"{quote(way)}/"


def _place(path: str) -> tuple[str, str] | None:
    """Return the store of a path, without its connection, and the absolute path on it."""
    scheme, mark, rest = path.partition("://")
    if not mark:
        return ("file", path) if path.startswith("/") else None
    authority, _, key = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}", f"/{key}"
