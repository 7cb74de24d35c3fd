"""The rule about 404 for many look-ups at a time."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError
from airflow_provider_mediaops.books.not_found import WELL_KNOWN, Decision, NotFoundRule, restored
from airflow_provider_mediaops.exceptions import NotFoundError, RateLimitedError, ServiceUnavailableError

A, B, C, CANARY = "9780000000002", "9780000000019", "9780000000026", "9780131103627"
CLEAR = NotFoundError("404: no such book.", status=404)
DOUBTFUL = DoubtfulNotFoundError("404: Not Found.", status=404)


class Court:
    """A rule, and a clock beside it."""

    def __init__(self, canary: str | None = CANARY) -> None:
        self.rule = NotFoundRule(canary)
        self.now = 100.0

    def missing(self, isbn13: str, error: NotFoundError | DoubtfulNotFoundError) -> None:
        self.rule.send()
        self.rule.missing(isbn13, error, self.now)

    def found(self, isbn13: str) -> None:
        self.rule.found(isbn13, self.rule.send(), self.now)

    def check(self, *, idle: bool = True) -> str | None:
        return self.rule.check(self.now, idle=idle)

    def checked(self, error: Exception | None = None) -> None:
        self.rule.checked(error, self.rule.send(), self.now)  # type: ignore[arg-type]

    def decisions(self, *, idle: bool = True) -> list[tuple[str, str]]:
        return [(decision.isbn13, decision.action) for decision in self.rule.decisions(self.now, idle=idle)]


class TestClearWords:
    def test_one_that_stands_alone_is_believed_when_nothing_else_is_going_on(self) -> None:
        court = Court()
        court.missing(A, CLEAR)

        assert court.decisions(idle=False) == []
        assert court.check() is None
        assert court.decisions() == [(A, "not_found")]

    def test_one_that_stands_alone_is_believed_after_a_while(self) -> None:
        court = Court()
        court.missing(A, CLEAR)
        assert court.rule.wakes_at() == court.now + 5

        court.now += 5

        assert court.decisions(idle=False) == [(A, "not_found")]

    def test_a_book_found_by_a_later_request_is_a_witness(self) -> None:
        court = Court()
        court.missing(A, CLEAR)
        court.missing(B, CLEAR)
        assert court.decisions(idle=False) == []

        court.found(C)

        assert court.decisions(idle=False) == [(A, "not_found"), (B, "not_found")]

    def test_a_book_found_by_an_earlier_request_is_none(self) -> None:
        court = Court()
        earlier = court.rule.send()
        court.missing(A, CLEAR)
        court.missing(B, CLEAR)

        court.rule.found(C, earlier, court.now)

        assert court.decisions(idle=False) == []

    def test_a_run_of_them_is_checked_once_for_all(self) -> None:
        court = Court()
        court.missing(A, CLEAR)
        court.missing(B, CLEAR)
        assert court.decisions() == []

        assert court.check() == CANARY
        assert court.check() is None
        court.checked()

        assert court.decisions() == [(A, "not_found"), (B, "not_found")]

    def test_a_long_run_is_checked_now_and_then_while_it_goes_on(self) -> None:
        court = Court()
        isbns = [f"978{number:010d}" for number in range(25)]
        for isbn in isbns[:-1]:
            court.missing(isbn, CLEAR)
            assert court.check(idle=False) is None
        court.missing(isbns[-1], CLEAR)

        assert court.check(idle=False) == CANARY

    def test_a_slow_run_is_checked_after_some_seconds(self) -> None:
        court = Court()
        court.missing(A, CLEAR)
        court.missing(B, CLEAR)
        assert court.check(idle=False) is None
        assert court.rule.wakes_at() == court.now + 5

        court.now += 5

        assert court.check(idle=False) == CANARY

    def test_what_comes_after_the_witness_was_asked_for_needs_another(self) -> None:
        court = Court()
        court.missing(A, CLEAR)
        court.missing(B, CLEAR)
        court.check()
        asked = court.rule.send()
        court.missing(C, CLEAR)

        court.rule.checked(None, asked, court.now)

        assert court.decisions(idle=False) == [(A, "not_found"), (B, "not_found")]
        assert court.decisions(idle=False) == []


class TestDoubtfulOnes:
    def test_each_is_asked_for_retry_after_a_witness_and_believed_after_another(self) -> None:
        court = Court()
        court.missing(A, DOUBTFUL)
        assert court.check() == CANARY
        court.checked()
        assert court.decisions() == [(A, "again")]

        court.missing(A, DOUBTFUL)
        assert court.decisions() == []
        assert court.check() == CANARY
        court.checked()

        assert court.decisions() == [(A, "not_found")]
        assert court.rule.take_news() is None

    def test_many_share_the_witness(self) -> None:
        court = Court()
        for isbn in (A, B, C):
            court.missing(isbn, DOUBTFUL)
        court.check()
        court.checked()

        assert court.decisions() == [(A, "again"), (B, "again"), (C, "again")]

    @pytest.mark.parametrize(("count", "seconds"), [(10, 0.0), (1, 2.0)])
    def test_the_witness_waits_for_more_of_them_but_not_for_long(self, count: int, seconds: float) -> None:
        court = Court()
        for number in range(count):
            assert court.check(idle=False) is None
            court.missing(f"978{number:010d}", DOUBTFUL)
        court.now += seconds

        assert court.check(idle=False) == CANARY

    def test_a_book_that_is_there_the_second_time_shows_that_the_key_was_at_its_limit(self) -> None:
        court = Court()
        court.missing(A, DOUBTFUL)
        court.missing(B, DOUBTFUL)
        court.found(C)
        assert court.decisions() == [(A, "again"), (B, "again")]

        court.found(A)
        court.missing(B, DOUBTFUL)
        court.found(C)

        # So the second 404 of the other one may be the limit again.
        assert court.decisions() == [(B, "later")]
        news = court.rule.take_news()
        assert isinstance(news, RateLimitedError)
        assert court.rule.take_news() is None

    def test_a_refusal_around_that_time_does_too(self) -> None:
        court = Court()
        court.rule.see_limit(court.now)
        court.now += 9
        court.missing(A, DOUBTFUL)
        court.found(C)
        court.decisions()
        court.missing(A, DOUBTFUL)
        court.found(C)

        assert court.decisions() == [(A, "later")]

    def test_where_the_service_has_words_of_its_own_for_missing_books_the_other_words_are_about_the_limit(self) -> None:
        court = Court()
        court.missing(A, CLEAR)
        court.found(C)
        assert court.decisions() == [(A, "not_found")]

        court.missing(B, DOUBTFUL)

        [decision] = court.rule.decisions(court.now, idle=False)
        assert (decision.isbn13, decision.action) == (B, "later")
        assert "The service says it otherwise of other books" in str(decision.error)
        assert isinstance(court.rule.take_news(), RateLimitedError)

    def test_a_clear_one_at_the_second_time_is_believed_like_any_other(self) -> None:
        court = Court()
        court.missing(A, DOUBTFUL)
        court.found(C)
        court.decisions()

        court.missing(A, CLEAR)

        assert court.decisions() == [(A, "not_found")]


class TestWitness:
    def test_the_book_found_last_goes_before_the_canary(self) -> None:
        court = Court()
        court.found(C)
        court.missing(A, DOUBTFUL)

        assert court.check() == C

    def test_without_a_canary_a_well_known_book_will_do(self) -> None:
        court = Court(canary=None)
        court.missing(A, DOUBTFUL)

        assert court.check() == WELL_KNOWN

    def test_no_book_is_a_witness_for_itself(self) -> None:
        court = Court()
        court.missing(CANARY, DOUBTFUL)

        assert court.check() == WELL_KNOWN

    def test_where_there_is_none_nothing_is_decided(self) -> None:
        court = Court(canary=None)
        court.missing(WELL_KNOWN, DOUBTFUL)

        assert court.check() is None
        [decision] = court.rule.decisions(court.now, idle=True)
        assert decision.action == "later"
        assert "There is no witness" in str(decision.error)
        assert "set canary_isbn" in str(decision.error)

    def test_while_it_is_not_found_the_key_is_in_doubt_and_it_is_asked_for_with_growing_pauses(self) -> None:
        court = Court()
        court.missing(A, DOUBTFUL)
        pauses = []
        for _ in range(8):
            assert court.check()
            court.checked(DOUBTFUL)
            assert court.rule.doubts_key
            assert court.decisions() == []
            wakes = court.rule.wakes_at()
            assert wakes is not None
            pauses.append(wakes - court.now)
            assert court.check() is None
            court.now = wakes

        assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
        assert isinstance(court.rule.take_news(), RateLimitedError)

    def test_once_it_is_found_the_doubt_is_over(self) -> None:
        court = Court()
        court.missing(A, DOUBTFUL)
        court.check()
        court.checked(DOUBTFUL)
        court.now += 1
        court.check()
        court.checked()

        assert not court.rule.doubts_key
        assert court.decisions() == [(A, "again")]

    def test_after_some_minutes_what_is_held_is_put_off(self) -> None:
        court = Court()
        court.missing(A, DOUBTFUL)
        court.missing(B, CLEAR)
        court.check()
        court.checked(DOUBTFUL)
        court.now += 240

        assert court.decisions() == [(A, "later"), (B, "later")]
        assert not court.rule.doubts_key

    def test_without_patience_it_is_put_off_at_once(self) -> None:
        court = Court()
        court.rule.patience = 0.0
        court.missing(A, DOUBTFUL)
        court.check()
        court.checked(DOUBTFUL)

        assert court.decisions() == [(A, "later")]

    def test_a_canary_that_does_not_exist_is_no_witness_and_says_nothing_about_the_limit(self) -> None:
        court = Court()
        court.missing(A, DOUBTFUL)
        assert court.check() == CANARY
        court.checked(CLEAR)
        assert not court.rule.doubts_key
        assert court.rule.take_news() is None

        assert court.check() == WELL_KNOWN
        court.checked(CLEAR)

        assert court.check() is None
        assert court.decisions() == [(A, "later")]

    def test_a_canary_that_seems_to_be_at_the_limit_is_asked_for_by_turns_with_another_book(self) -> None:
        court = Court()
        court.missing(A, DOUBTFUL)
        asked = []
        for _ in range(3):
            asked.append(court.check())
            court.checked(DOUBTFUL)
            court.now += 30.0

        assert asked == [CANARY, WELL_KNOWN, CANARY]

    def test_a_book_that_was_found_is_not(self) -> None:
        court = Court()
        court.found(B)
        court.missing(A, DOUBTFUL)
        for _ in range(3):
            assert court.check() == B
            court.checked(DOUBTFUL)
            court.now += 30.0

    def test_a_book_that_was_there_before_makes_clear_words_misleading(self) -> None:
        court = Court()
        court.found(C)
        court.missing(A, CLEAR)
        court.missing(B, CLEAR)
        assert court.check() == C
        court.checked(CLEAR)
        court.now += 1
        court.check()
        court.checked()

        assert court.decisions() == [(A, "again"), (B, "again")]

    def test_a_service_that_does_not_answer_leaves_the_key_in_doubt(self) -> None:
        court = Court()
        court.missing(A, DOUBTFUL)
        court.check()
        court.checked(ServiceUnavailableError("503"))

        assert court.rule.doubts_key
        assert court.rule.take_news() is None


def test_what_is_not_decided_can_be_taken_up_by_the_next_attempt() -> None:
    court = Court()
    court.missing(A, DOUBTFUL)
    court.missing(B, DOUBTFUL)
    court.found(C)
    court.decisions()
    court.missing(B, CLEAR)
    again = dict(restored(court.rule.undecided()))

    assert {isbn: type(error) for isbn, error in again.items()} == {A: DoubtfulNotFoundError, B: NotFoundError}
    assert [str(again[A]), str(again[B])] == [str(DOUBTFUL), str(CLEAR)]
    assert again[A].status == 404


def test_a_book_that_got_no_second_answer_is_forgotten() -> None:
    court = Court()
    court.missing(A, DOUBTFUL)
    court.found(C)
    assert court.rule.decisions(court.now, idle=True) == [Decision(A, "again", DOUBTFUL)]

    court.rule.forget(A)

    assert court.rule.undecided() == {}
