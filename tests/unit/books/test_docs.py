"""The rule of 404s in docs/guides/not_found.md agrees with the code: its two tables, and that of the wrong worlds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.api import BOOK_RULES, get_book
from airflow_provider_mediaops.books.not_found import (
    AFTER_PROBE,
    CLEAR,
    FOREIGN,
    LIMIT,
    MISSING_PROBE,
    NOT_FOUND_ERRORS,
    WEB_PAGE,
    WELL_KNOWN,
    Meaning,
    Probe,
)
from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.http.client import Client
from tests.unit.book_database import LIMIT_404, NO_SUCH_BOOK, replied
from tests.unit.book_worlds import PROBED, UNPROBED, WITH_CANARY, WITHOUT_CANARY
from tests.unit.call_flows import replay

if TYPE_CHECKING:
    from tests.unit.book_worlds import World

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "not_found.md").read_text(encoding="utf-8")
BODIES: Mapping[str, Sequence[Mapping[str, Any] | bytes]] = {
    "JSON with `error_message`: the service's clear words for a missing book": [NO_SUCH_BOOK],
    "JSON with `errorMessage`: the documented words for the limit": [LIMIT_404],
    "other JSON, a text, an empty body": [{"message": "no Route"}, {}, b"404 page not found", b""],
    "a web page": [b"<!DOCTYPE html><html></html>"],
}
ACTIONS = {"`not_found`": "not_found", "asked again": "again", "`failed`: `InvalidReplyError`": "later"}
PROBEES = {
    "found before by this task or hook": Probe.FOUND_NOW,
    "found by an earlier attempt of the task": Probe.FOUND_BEFORE,
    "`canary_isbn`": Probe.CANARY,
    WELL_KNOWN: Probe.WELL_KNOWN,
}
WORDS = {
    "`error_message`": (CLEAR,),
    "`errorMessage`": (LIMIT,),
    "any other body": (FOREIGN, WEB_PAGE),
}
MEANINGS = {
    "the limit": Meaning.LIMIT,
    "the service fails": Meaning.OUTAGE,
    "asks for another probe": Meaning.NO_PROBE,
    "wrong connection": Meaning.WRONG_CONNECTION,
}
#: The worlds of the tests, by the row of the table that is about them.
WORLDS: Mapping[str, tuple[World, ...]] = {
    "a wrong path, another service or a gateway that answers 404 with JSON, text, a web page or nothing": PROBED[:7],
    "a captive portal: a web page with 200, or a redirect": UNPROBED[:2],
    "another plan: 401, or 403": UNPROBED[2:4],
    "a gateway that begins to answer 404 in the middle": PROBED[7:8],
    "a key at its limit, from the start or from the middle: 404 with `errorMessage`, or 429": (
        *PROBED[8:],
        *UNPROBED[4:6],
    ),
    "a service that is down for longer than all retries of a call": UNPROBED[6:],
    "clear words for every book, with `canary_isbn`": WITH_CANARY,
    "clear words for every book, without `canary_isbn`": WITHOUT_CANARY,
}


def table(head: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the head of the table that begins so, without its first cell, and its rows by their first cell."""
    start = PAGE.index(f"\n| {head} |") + 1
    lines = PAGE[start:].partition("\n\n")[0].splitlines()
    first, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return first[1:], {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("body", BODIES)
def test_page_has_the_meaning_of_the_bodies_of_404s(body: str) -> None:
    _, rows = table("the body")
    assert list(rows) == list(BODIES)
    # Behind the comma are conditions, which other tests are about.
    actions = tuple(ACTIONS[cell.partition(",")[0]] for cell in rows[body])

    for sample in BODIES[body]:
        with pytest.raises(NOT_FOUND_ERRORS) as caught:
            replay(Client(("http://books",), BOOK_RULES).ask(get_book(WELL_KNOWN)), [replied(sample, 404)])
        assert AFTER_PROBE[type(caught.value)] == actions


def test_page_has_the_meaning_of_probes_that_are_not_found() -> None:
    head, rows = table("the probe")
    assert [*rows] == [*PROBEES]
    assert [*head] == [*WORDS]

    shown = {
        PROBEES[name]: {
            words: MEANINGS[cell] for cell, several in zip(cells, WORDS.values(), strict=True) for words in several
        }
        for name, cells in rows.items()
    }
    assert shown == MISSING_PROBE


def test_every_wrong_world_is_in_the_table() -> None:
    _, rows = table("at the address there is")

    assert [*rows] == [*WORLDS]
    named = [world for worlds in WORLDS.values() for world in worlds]
    assert sorted(map(id, named)) == sorted(map(id, (*UNPROBED, *PROBED, *WITH_CANARY, *WITHOUT_CANARY)))


@pytest.mark.parametrize("row", WORLDS)
def test_page_has_the_outcome_of_each_wrong_world(row: str) -> None:
    _, rows = table("at the address there is")
    looked_up, retries, sensor = rows[row]

    for world in WORLDS[row]:
        assert world.error.__name__ in named_in(looked_up)
        passes = issubclass(world.error, TemporaryError)
        assert retries.partition(";")[0] == ("resume" if passes else "none")
        assert named_in(retries) == ({world.retry_error.__name__} if world.retry_error else set())
        assert sensor == ("fails" if world.sensor else "waits")
    assert len(named_in(looked_up)) == len({world.error for world in WORLDS[row]})


def named_in(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+Error)`", cell))
