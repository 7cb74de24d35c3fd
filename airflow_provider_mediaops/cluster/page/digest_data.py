"""The figures that the scripts of a digest's page draw, as JSON: bounded, each name once, and harmless inside HTML."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_provider_mediaops.cluster.digest.findings import kept_stacks, keys_of, left_of, series_label
from airflow_provider_mediaops.cluster.page.flame_graph import Room, harmless_json
from airflow_provider_mediaops.cluster.text import readable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.model import Digest, NamedCapture, Profile

# About how many characters of JSON the stacks, and the captures that cells name, may take in all.
_ROOM_FOR_STACKS = 900_000
_ROOM_FOR_CAPTURES = 400_000
# Thread pools that have a line, in the strips of up to three series; more series share these lines.
_MOST_POOLS, _FULL_STRIPS = 20, 3
# The length of a figure in the JSON, with its span.
_FIGURE = 12


@dataclass(slots=True)
class DigestData:
    """The figures as JSON, and how many stacks and captures there was no room for."""

    json: str = ""
    left_out_stacks: int = 0
    left_out_captures: int = 0


def digest_data(digest: Digest, page: str) -> DigestData:
    """
    Return the figures of a digest for the scripts of its page.

    The JSON has ``names``, and for each series its spans of time, its thread pools with their cells, and its stacks
    with their amounts by span.
    """
    data = DigestData()
    keys = keys_of(digest)
    prefix = _common_folder(digest)
    names: dict[str, int] = {}
    most_pools = _MOST_POOLS * _FULL_STRIPS // max(_FULL_STRIPS, len(keys))
    series = []
    for name, measure in keys:
        profile = digest.profiles[name, measure]
        spans = sorted(profile.spans)
        room = Room(names, _ROOM_FOR_STACKS // len(keys))
        series.append(
            {
                "label": series_label(name, measure.kind),
                "unit": measure.unit,
                "captures": profile.frames.captures,
                "spans": [[span, int(profile.spans[span][0])] for span in spans],
                "pools": _pools(profile, prefix, most_pools, _ROOM_FOR_CAPTURES // len(keys), data),
                "stacks": _stacks(profile, {span: number for number, span in enumerate(spans)}, room, data),
            }
        )
    facts = {
        "width": digest.width,
        "prefix": readable(prefix),
        "base": _link_base(prefix, page),
        "names": list(names),
        "series": series,
    }
    data.json = harmless_json(facts)
    return data


def _pools(profile: Profile, prefix: str, most: int, room: int, data: DigestData) -> list[dict[str, Any]]:
    """Return the heaviest thread pools: of each its cells, with the hottest captures as far as there is room."""
    pools = []
    for pool, *_ in profile.pools.ranked()[:most]:
        cells = []
        for span, (captures, amount) in sorted(profile.pools.rows[pool].items()):
            named: list[list[Any]] = []
            for one in profile.named[pool, span]:
                shown = one.path.removeprefix(prefix)
                room -= len(shown) + 2 * _FIGURE
                if room < 0:
                    data.left_out_captures += 1
                else:
                    named.append([shown.encode("utf-8", "replace").decode(), int(one.time), _rounded(one.amount)])
            cells.append([span, captures, _rounded(amount), named])
        pools.append({"pool": readable(pool), "cells": cells})
    return pools


def _stacks(profile: Profile, numbers: dict[int, int], room: Room, data: DigestData) -> list[list[Any]]:
    """Return the heaviest stacks with their amounts by span, and what is left of each pool."""
    rows: list[list[Any]] = []
    shown = []
    for path, spans in kept_stacks(profile):
        positions = room.place([*map(readable, path)], len(spans) * _FIGURE)
        if positions is None:
            data.left_out_stacks += 1
        else:
            shown.append((path, spans))
            rows.append([positions, _amounts(spans, numbers)])
    for path, spans in left_of(profile, shown):
        if amounts := _amounts(spans, numbers):
            rows.append([room.positions([*map(readable, path)]), amounts])
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


def _common_folder(digest: Digest) -> str:
    """Return the folder that all named captures share, with a slash at its end."""
    named: Iterable[NamedCapture] = (
        each for profile in digest.profiles.values() for captures in profile.named.values() for each in captures
    )
    common = posixpath.commonprefix([each.path for each in named])
    return common[: common.rfind("/") + 1]


def _link_base(prefix: str, page: str) -> str | None:
    """Return the relative address of the common folder from the page; None if they are on different stores."""
    (store, folder), (own_store, own) = _place(prefix), _place(page)
    if store != own_store or not folder.startswith("/"):
        return None
    return f"{quote(posixpath.relpath(folder, posixpath.dirname(own)))}/"


def _place(path: str) -> tuple[str, str]:
    """Return the store of a path, without its connection, and the path on it."""
    scheme, mark, rest = path.partition("://")
    if not mark:
        return "file", path
    authority, _, key = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}", f"/{key}"
