"""What a claim says, and which parts count by it."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.storage.lease import Attempt, Claim
from airflow_provider_mediaops.storage.ownership import Receipt
from airflow_provider_mediaops.storage.parts import Part
from tests.unit.storage.places import START, owner


def part(first: int, last: int, token: str, after: int = 0, written: int = 0) -> Part:
    return Part(first, last, token, after, int(START) + written)


def a(first: int, last: int = 0) -> Part:
    return part(first, last or first, "a")


def b(first: int, last: int = 0) -> Part:
    return part(first, last or first, "b", 3)


def c(first: int, last: int = 0) -> Part:
    return part(first, last or first, "c", 5)


ALONE = Claim(owner(), token="a")
SECOND = Claim(owner(), token="b", earlier=(Attempt("a", 0),))
THIRD = Claim(owner(), token="c", earlier=(Attempt("a", 0), Attempt("b", 3)))


def test_it_survives_its_object() -> None:
    claim = Claim(
        owner("a", "b", 3),
        START,
        released=True,
        token="y",
        earlier=(Attempt("w", 0), Attempt("x", 4)),
        last=Receipt(owner(), {"rows": 1}, "digest", "identity"),
    )

    assert Claim.from_bytes(claim.to_bytes()) == claim
    assert Claim.from_bytes(Claim().to_bytes()) == Claim()


@pytest.mark.parametrize(
    ("claim", "there", "counting"),
    [
        pytest.param(Claim(), [a(1)], [], id="nobody's"),
        pytest.param(ALONE, [], [], id="nothing"),
        pytest.param(ALONE, [b(4), a(2), a(1), c(6)], [a(1), a(2)], id="only its own"),
        pytest.param(ALONE, [a(1), a(3)], [a(1)], id="up to one that is lost"),
        pytest.param(ALONE, [a(1), a(2), a(1, 2), a(3)], [a(1, 2), a(3)], id="merged"),
        pytest.param(ALONE, [a(1, 2), a(1, 4), a(3, 4), a(4), a(5)], [a(1, 4), a(5)], id="merged twice"),
        pytest.param(ALONE, [a(2), a(1, 2), a(3)], [a(1, 2), a(3)], id="half of the small ones are removed"),
        pytest.param(SECOND, [a(1), a(2)], [a(1), a(2)], id="the second has written nothing"),
        pytest.param(SECOND, [a(1), a(2), a(3), a(4), b(4)], [a(1), a(2), a(3), b(4)], id="the first wrote on"),
        pytest.param(SECOND, [a(1, 2), a(3), a(3, 4), b(4)], [a(1, 2), a(3), b(4)], id="the first merged on"),
        pytest.param(SECOND, [a(1, 3), a(1, 6), b(4, 5), b(6)], [a(1, 3), b(4, 5), b(6)], id="both merged"),
        pytest.param(SECOND, [a(1, 3), b(5)], [a(1, 3)], id="the second's first is lost"),
        pytest.param(SECOND, [a(1, 2), a(4), b(4)], [a(1, 2)], id="the first's last is lost"),
        pytest.param(THIRD, [a(1, 3), b(4), b(5), b(6), c(6)], [a(1, 3), b(4), b(5), c(6)], id="three"),
        pytest.param(THIRD, [a(1, 9), a(1, 3), b(4, 5), c(6)], [a(1, 3), b(4, 5), c(6)], id="the first never ended"),
        pytest.param(THIRD, [a(1, 3), a(4), a(5), c(6)], [a(1, 3)], id="all of the second's are lost"),
    ],
)
def test_each_commit_counts_once(claim: Claim, there: list[Part], counting: list[Part]) -> None:
    assert claim.counting(there) == counting
    assert claim.counting(reversed(there)) == counting


def test_of_several_tries_at_one_commit_the_newest_counts() -> None:
    tries = [part(1, 1, "a", written=second) for second in (5, 9, 7)]

    assert ALONE.counting(tries) == [tries[1]]


def test_one_that_begins_before_where_another_had_begun_ends_that_one() -> None:
    # Of the first attempt's parts some were lost, so the third did not reach what the second had written.
    again = part(2, 2, "d", 1)
    claim = Claim(owner(), token="d", earlier=(Attempt("a", 0), Attempt("b", 3)))

    assert claim.counting([a(1), a(2), a(3), b(4), again]) == [a(1), again]


def test_the_next_attempt_knows_where_each_of_the_others_began() -> None:
    claim = SECOND.taken_over(owner(), "c", START, [a(1, 3), b(4), b(5)])

    assert claim == Claim(owner(), START, token="c", earlier=THIRD.earlier)


def test_attempts_that_wrote_nothing_are_forgotten() -> None:
    claim = ALONE
    for token in ("b", "c", "d"):
        claim = claim.taken_over(owner(), token, START, [a(1), a(2)])

    assert (claim.earlier, claim.token) == ((Attempt("a", 0),), "d")


def test_only_its_own_parts_are_a_sign_of_life() -> None:
    claim = Claim(owner(), START, token="b", earlier=(Attempt("a", 0),))
    there = [part(5, 5, "a", written=5), part(3, 3, "b", 2, 3), part(3, 4, "b", 2, 4)]

    assert claim.seen(there[:1]) == START
    assert claim.seen(there) == START + 4
