"""
A long list at a gateway that answers some requests with 404, or with a key at its limit: no book is lost.

Half of the books exist. The service says of the others that they are missing, in its clear words or in those for the
limit.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.unit.book_database import LIMIT_429, found, limit_404, no_such_book, replied
from tests.unit.books.batch.service import ISBNS, Service, looked_up, seconds
from tests.unit.books.held import CANARY

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response

pytestmark = pytest.mark.long
FOREIGN = replied({"message": "no Route matched with those values"}, 404)
WORDS = {"clear": no_such_book(), "doubtful": limit_404()}


def gateway(share: float, reply: Response, chance: random.Random) -> Callable[[Response], Response]:
    """Answer a share of the requests with a 404, whatever is asked for."""
    return lambda right: reply if chance.random() < share else right


def shared_key(chance: random.Random) -> Callable[[Response], Response]:
    """Be at the limit in one of three half seconds, because others use the key, and say so in both ways."""

    def answer(right: Response) -> Response:
        if int(seconds() * 2) % 3 or chance.random() > 0.7:
            return right
        return chance.choice((limit_404(), replied(LIMIT_429, 429)))

    return answer


def outcome(world: str, words: str, size: int, seed: int) -> tuple[Counter[str], Counter[str], int]:
    """Look up as many books that exist as missing ones; count the statuses of both, and the requests."""
    chance = random.Random(seed)  # noqa: S311 it is to be the same each time
    there, missing = ISBNS[:size], ISBNS[-size:]
    rows = chance.sample([*there, *missing], 2 * size)
    exist = {*there, CANARY}
    spoil = {
        "one in two": lambda: gateway(0.5, FOREIGN, chance),
        "two in ten": lambda: gateway(0.2, FOREIGN, chance),
        "the limit for one in two": lambda: gateway(0.5, limit_404(), chance),
        "a shared key": lambda: shared_key(chance),
    }[world]()
    service = Service()

    def answer(isbn: str) -> Response:
        right = found(isbn) if isbn in exist else WORDS[words]
        # A gateway that answers the first probe so is a wrong connection.
        return right if len(service.times) < 4 else spoil(right)

    service.answer = answer
    lookups = looked_up(service, rows, tries=5, max_failures=2 * size)
    of_those = Counter[str](lookup.status for lookup in lookups if lookup.isbn13 in exist)
    of_others = Counter[str](lookup.status for lookup in lookups if lookup.isbn13 not in exist)
    return of_those, of_others, len(service.times)


WORLDS = ("one in two", "two in ten", "the limit for one in two", "a shared key")


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("world", WORLDS)
def test_no_book_that_exists_is_missing_and_no_missing_one_is_found(world: str, words: str) -> None:
    for seed in range(3):
        exist, missing, requests = outcome(world, words, 50, seed)

        assert exist.keys() <= {"found", "failed"}
        assert missing.keys() <= {"not_found", "failed"}
        # Four tries a book in clear words; in others, each of them twice, and some probes.
        assert requests <= 100 * (4 if words == "clear" else 9)


def test_a_gateway_makes_rows_in_doubtful_words_fail_and_none_in_clear_words() -> None:
    _, missing, _ = outcome("two in ten", "doubtful", 100, seed=1)
    assert missing["failed"] > 90

    _, missing, _ = outcome("two in ten", "clear", 100, seed=1)
    assert missing == {"not_found": 100}
