"""
Write the page of a digest: recurring frames, thread pools over time, groups of tasks, flame graph of any time.

Like the page of captures it is one file that asks for nothing over the network. Its size is bounded, whatever the
number of captures.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_provider_mediaops.cluster.digest.findings import PRUNED, kept_stacks, keys_of, left_of, series_label
from airflow_provider_mediaops.cluster.page.flame_graph import Room, harmless_json
from airflow_provider_mediaops.cluster.text import readable
from airflow_provider_mediaops.progress import counted

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.sums import Digest, Profile

# A wider table is hard to read; the JSON file has all of them.
_MOST_DAYS = 10
_EMPTY_FLAME: dict[str, Any] = {"labels": [], "unit": "percent", "places": ["pool"], "names": [], "stacks": [[]]}
# About how many characters of JSON the stacks, and the captures that cells name, may take in all.
_ROOM_FOR_STACKS = 900_000
_ROOM_FOR_CAPTURES = 400_000
# Thread pools that have a line, in the strips of up to three series; more series share these lines.
_MOST_POOLS, _FULL_STRIPS = 20, 3
# The length of a figure in the JSON, with its span.
_FIGURE = 12


def digest_page(digest: Digest, document: dict[str, Any], path: str) -> str:
    """Return the page of a digest."""
    from airflow_provider_mediaops.cluster.page import assets

    facts = document["digest"]
    values = {
        # What the headline is about.
        "title": facts["headline"].partition(":")[0],
        "licenses": assets.licenses(),
        "generator": assets.DIGEST_GENERATOR,
        "facts": facts,
        "series": [
            {
                "profile": profile,
                "words": series_label(profile["series"], profile["kind"]),
                "days": _shares_of_days(profile),
            }
            for profile in document["profiles"]
        ],
        "damaged": document["damaged"],
        "span": _length(facts["span_seconds"]),
        "flame": harmless_json(_EMPTY_FLAME),
        "data": _DigestData(digest, path),
        "rare": PRUNED,
        "counted": _counted,
        "minute": _minute,
    }
    scripts = assets.scripts(with_flame_graph=True, of_digest=True)
    return assets.render("digest.html", values, scripts=scripts)


def _shares_of_days(profile: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the shares of the kinds of work in percent, for the last days."""
    amounts: dict[str, dict[str, float]] = {}
    for work in profile["works"]:
        for span in work["spans"]:
            of_day = amounts.setdefault(span["since"][:10], {})
            of_day[work["work"]] = of_day.get(work["work"], 0.0) + span["amount"]
    shares: dict[str, dict[str, float]] = {}
    for day in sorted(amounts)[-_MOST_DAYS:]:
        total = sum(amounts[day].values())
        shares[day] = {work: 100 * amount / total for work, amount in amounts[day].items() if total}
    return shares


def _counted(profile: dict[str, Any], number: int) -> str:
    return f"{number:,} {series_label(profile['series'], profile['kind'], number)}"


def _length(seconds: int) -> str:
    """Return the length of a span, which is a whole number of minutes, hours or days."""
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds % size == 0:
            return counted(seconds // size, name)
    return counted(seconds, "second")


def _minute(moment: str | None) -> str:
    return moment[:16].replace("T", " ") if moment else "any time"


class _DigestData:
    """
    The figures that the scripts of the page draw.

    They are its spans of time, its thread pools with their cells, and its stacks with their amounts by span, for each
    series; each name is there once.
    """

    def __init__(self, digest: Digest, page: str) -> None:
        #: How many stacks and captures there was no room for.
        self.left_out_stacks = self.left_out_captures = 0
        keys = keys_of(digest)
        named = [
            each.path
            for profile in digest.profiles.values()
            for row in profile.pools.rows.values()
            for cell in row.values()
            for each in cell.hottest
        ]
        # The folder that all captures share, with a slash at its end.
        common = posixpath.commonprefix(named)
        self._prefix = common[: common.rfind("/") + 1]
        self._names: dict[str, int] = {}
        series = []
        for name, measure in keys:
            profile = digest.profiles[name, measure]
            series.append(
                {
                    "label": series_label(name, measure.kind),
                    "unit": measure.unit,
                    "captures": profile.captures,
                    "spans": [[span, cell.captures] for span, cell in sorted(profile.spans.items())],
                    "pools": self._pools(profile, len(keys)),
                    "stacks": self._stacks(profile, len(keys)),
                }
            )
        base = _link_base(self._prefix, page)
        names, prefix = list(self._names), readable(self._prefix)
        facts = {"width": digest.width, "prefix": prefix, "base": base, "names": names, "series": series}
        self.json = harmless_json(facts)

    def _pools(self, profile: Profile, series: int) -> list[dict[str, Any]]:
        """Return the heaviest thread pools: of each its cells, with the hottest captures as far as there is room."""
        room = _ROOM_FOR_CAPTURES // series
        pools = []
        for pool, *_ in profile.pools.ranked()[: _MOST_POOLS * _FULL_STRIPS // max(_FULL_STRIPS, series)]:
            cells = []
            for span, cell in sorted(profile.pools.rows[pool].items()):
                named: list[list[Any]] = []
                for one in cell.hottest:
                    shown = one.path.removeprefix(self._prefix)
                    room -= len(shown) + 2 * _FIGURE
                    if room < 0:
                        self.left_out_captures += 1
                    else:
                        named.append([shown.encode("utf-8", "replace").decode(), int(one.time), _rounded(one.amount)])
                cells.append([span, cell.captures, _rounded(cell.amount), named])
            pools.append({"pool": readable(pool), "cells": cells})
        return pools

    def _stacks(self, profile: Profile, series: int) -> list[list[Any]]:
        """Return the heaviest stacks with their amounts by span, and what is left of each pool."""
        numbers = {span: number for number, span in enumerate(sorted(profile.spans))}
        room = Room(self._names, _ROOM_FOR_STACKS // series)
        rows: list[list[Any]] = []
        shown = []
        for path, spans in kept_stacks(profile):
            positions = room.place([*map(readable, path)], len(spans) * _FIGURE)
            if positions is None:
                self.left_out_stacks += 1
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
