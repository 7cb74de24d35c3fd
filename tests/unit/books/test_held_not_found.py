"""404s that are held: which of them become ``not_found``, and what the next attempt learns of the rest."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.exceptions import (
    MediaOpsError,
    RateLimitedError,
    ServiceUnavailableError,
    error_from_dict,
)
from tests.unit.books.held import CANARY, CLEAR, FOREIGN, LIMIT, PAGE, WORDS, A, B, C, Run


class TestWhatIsVouchedFor:
    @pytest.mark.parametrize(
        ("words", "first", "second"),
        [
            ("clear", "not_found", None),
            ("limit", "again", "not_found"),
            ("foreign", "again", "not_found"),
            ("web page", "again", "later"),
        ],
    )
    def test_by_its_words(self, words: str, first: str, second: str | None) -> None:
        run = Run()
        run.missing(A, WORDS[words])
        assert run.decisions(idle=False) == []
        run.found(C)
        assert run.decisions(idle=False) == [(A, first)]
        if second:
            run.missing(A, WORDS[words])
            assert run.decisions(idle=False) == []
            run.found(C)
            assert run.decisions(idle=False) == [(A, second)]
        assert run.held.undecided() == {}

    @pytest.mark.parametrize("words", WORDS)
    def test_a_book_found_by_a_request_that_was_sent_before_it_came_is_no_probe(self, words: str) -> None:
        run = Run()
        run.held.send()
        before = run.held.send()
        for isbn13 in (A, B):
            run.held.missing(isbn13, WORDS[words], run.now)

        run.held.found(C, before, run.now)

        assert run.decisions(idle=False) == []

    def test_what_comes_after_the_probe_was_asked_for_needs_another(self) -> None:
        run = Run()
        run.missing(A, CLEAR)
        run.missing(B, CLEAR)
        run.check()
        asked = run.held.send()
        run.missing(C, CLEAR)

        run.held.checked(CANARY, None, asked, run.now)

        assert run.decisions(idle=False) == [(A, "not_found"), (B, "not_found")]
        assert run.held.undecided().keys() == {C}

    @pytest.mark.parametrize("error", [LIMIT, FOREIGN, PAGE])
    def test_other_words_never_say_so_once_the_service_has_used_the_clear_ones(self, error: MediaOpsError) -> None:
        run = Run()
        run.missing(A, CLEAR)
        run.found(C)
        assert run.decisions() == [(A, "not_found")]

        run.missing(B, error)

        later = run.error()
        assert "The service says it otherwise of other books" in str(later)
        assert isinstance(later, RateLimitedError) == (error is LIMIT)
        assert (run.held.take_news() is not None) == (error is LIMIT)

    def test_after_a_limit_it_has_to_come_four_times(self) -> None:
        run = Run()
        run.held.see_limit(run.now)
        run.now += 11
        actions = []
        for _ in range(4):
            run.missing(A, LIMIT)
            run.found(C)
            actions += run.decisions()

        assert actions == [(A, "again"), (A, "again"), (A, "again"), (A, "not_found")]

    @pytest.mark.parametrize("shown_by", ["the book itself", "the probe"])
    def test_foreign_words_say_nothing_once_a_book_that_exists_has_got_them(self, shown_by: str) -> None:
        run = Run()
        run.found(C)
        run.missing(B, FOREIGN)
        if shown_by == "the probe":
            assert run.check() == C
            run.checked(FOREIGN)
            run.now += 2
            run.check()
            run.checked()
            assert run.decisions() == [(B, "again")]
        else:
            run.found(C)
            assert run.decisions() == [(B, "again")]
            run.found(B)
            run.missing(B, FOREIGN)
            run.found(C)
            assert run.decisions() == [(B, "again")]

        run.missing(B, FOREIGN)
        run.found(C)

        later = run.error()
        assert isinstance(later, ServiceUnavailableError)
        assert "A book that exists has got such a reply, too." in str(later)

    def test_a_book_that_is_there_the_second_time_shows_that_the_key_was_at_its_limit(self) -> None:
        run = Run()
        run.missing(A, LIMIT)
        run.missing(B, LIMIT)
        run.found(C)
        assert run.decisions() == [(A, "again"), (B, "again")]

        run.found(A)
        run.missing(B, LIMIT)
        run.found(C)

        # So the second 404 of the other one may be the limit again.
        assert isinstance(run.error(), RateLimitedError)
        assert isinstance(run.held.take_news(), RateLimitedError)
        assert run.held.take_news() is None

    @pytest.mark.parametrize(("seconds", "action"), [(10.0, "later"), (10.1, "again"), (600.1, "not_found")])
    def test_a_limit_around_that_time_does_too(self, seconds: float, action: str) -> None:
        run = Run()
        run.held.see_limit(run.now)
        run.now += seconds
        run.missing(A, LIMIT)
        run.found(C)
        run.decisions()
        run.missing(A, LIMIT)
        run.found(C)

        assert run.decisions() == [(A, action)]


class TestOneInClearWordsByItself:
    def test_it_is_believed_if_key_and_address_were_proved_a_short_time_ago(self) -> None:
        run = Run()
        run.found(C)
        run.now += 599
        run.missing(A, CLEAR)

        assert run.decisions(idle=False) == []
        assert run.check() is None
        assert run.decisions() == [(A, "not_found")]

    def test_it_is_believed_after_some_seconds_while_others_are_under_way(self) -> None:
        run = Run()
        run.found(C)
        run.missing(A, CLEAR)
        assert run.held.wakes_at() == run.now + 5

        run.now += 5

        assert run.decisions(idle=False) == [(A, "not_found")]

    @pytest.mark.parametrize("proved_before", [None, 600.0])
    def test_it_needs_a_probe_otherwise(self, proved_before: float | None) -> None:
        run = Run()
        if proved_before is not None:
            run.found(C)
            run.now += proved_before
        run.missing(A, CLEAR)

        assert run.decisions() == []
        assert run.check() in (CANARY, C)


def test_what_is_not_decided_can_be_taken_up_by_the_next_attempt() -> None:
    run = Run()
    for isbn13, error in ((A, LIMIT), (B, CLEAR), (C, FOREIGN), (CANARY, PAGE)):
        run.missing(isbn13, error)
    again = {isbn13: error_from_dict(fields) for isbn13, fields in run.held.undecided().items()}

    assert [(type(error), str(error), error.status) for error in again.values()] == [
        (type(error), str(error), 404) for error in (LIMIT, CLEAR, FOREIGN, PAGE)
    ]


def test_a_book_that_got_no_second_answer_is_forgotten() -> None:
    run = Run()
    run.missing(A, LIMIT)
    run.found(C)
    assert run.decisions() == [(A, "again")]

    run.held.forget(A)

    assert run.held.undecided() == {}
