"""
Write the page of a digest: recurring frames, thread pools over time, groups of tasks, flame graph of any time.

Like the page of captures it is one file that asks for nothing over the network. Its size is bounded, whatever the
number of captures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.digest.findings import PRUNED, series_label
from airflow_provider_mediaops.cluster.page.digest_data import digest_data
from airflow_provider_mediaops.cluster.page.flame_graph import harmless_json
from airflow_provider_mediaops.cluster.text import count

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.model import Digest

# A wider table is hard to read; the JSON file has all of them.
_MOST_DAYS = 10
_EMPTY_FLAME: dict[str, Any] = {"labels": [], "unit": "percent", "places": ["pool"], "names": [], "stacks": [[]]}


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
        "data": digest_data(digest, path),
        "rare": PRUNED,
        "counted": _counted,
        "minute": _minute,
    }
    scripts = assets.scripts(with_flame_graph=True, of_digest=True)
    return assets.render("digest.html", values, scripts=scripts, of_digest=True)


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
            return count(seconds // size, name)
    return count(seconds, "second")


def _minute(moment: str | None) -> str:
    return moment[:16].replace("T", " ") if moment else "any time"
