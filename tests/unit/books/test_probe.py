"""The probe of the rule of 404s: when one is asked for, which, and what it means that it is not found."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.books.not_found import KEY_CALL, WELL_KNOWN, UnvouchedNotFoundError
from airflow_provider_mediaops.exceptions import (
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    RateLimitedError,
    ServiceUnavailableError,
)
from tests.unit.books.held import CANARY, CLEAR, DOWN, FOREIGN, LIMIT, PAGE, WORDS, A, B, C, Run


class TestWhenAProbeIsAskedFor:
    @pytest.mark.parametrize(
        ("words", "count", "seconds"), [("clear", 25, 0.0), ("clear", 1, 5.0), ("limit", 25, 0.0), ("foreign", 1, 5.0)]
    )
    def test_probe_waits_for_more_404s_but_not_for_long(self, words: str, count: int, seconds: float) -> None:
        run = Run()
        for number in range(count):
            assert run.check(idle=False) is None
            run.missing(f"978{number:010d}", WORDS[words])
        if seconds:
            assert run.held.wakes_at() == run.now + seconds
        run.now += seconds

        assert run.check(idle=False) == CANARY
        assert run.check(idle=False) is None

    def test_while_it_is_not_found_the_key_is_in_doubt_and_it_is_asked_for_with_growing_pauses(self) -> None:
        run = Run()
        run.missing(A, LIMIT)
        pauses = []
        for _ in range(8):
            assert run.check()
            run.checked(LIMIT)
            assert run.held.doubts_key
            assert run.decisions() == []
            wakes = run.held.wakes_at()
            assert wakes is not None
            pauses.append(wakes - run.now)
            assert run.check() is None
            run.now = wakes

        assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
        assert isinstance(run.held.take_news(), RateLimitedError)
        run.check()
        run.checked()
        assert not run.held.doubts_key
        assert run.decisions() == [(A, "again")]

    @pytest.mark.parametrize("patience_seconds", [0.0, 240.0])
    def test_after_some_time_what_is_held_is_put_off(self, patience_seconds: float) -> None:
        run = Run()
        run.held.patience_seconds = patience_seconds
        run.missing(A, LIMIT)
        run.missing(B, CLEAR)
        run.check()
        run.checked(LIMIT)
        run.now += patience_seconds

        assert run.decisions() == [(A, "later"), (B, "later")]
        assert not run.held.doubts_key


class TestTheProbe:
    def test_the_book_found_last_goes_before_the_canary_and_the_canary_before_the_well_known_one(self) -> None:
        for canary, last_found, best in ((CANARY, C, C), (CANARY, None, CANARY), (None, None, WELL_KNOWN)):
            run = Run(canary, last_found)
            run.missing(A, LIMIT)
            assert run.check() == best

    def test_no_book_is_a_probe_for_itself(self) -> None:
        run = Run()
        run.missing(CANARY, LIMIT)

        assert run.check() == WELL_KNOWN

    def test_a_canary_that_seems_to_be_at_the_limit_is_asked_for_by_turns_with_another_book(self) -> None:
        run = Run()
        run.missing(A, LIMIT)
        asked = []
        for _ in range(3):
            asked.append(run.check())
            run.checked(LIMIT)
            run.now += 30.0

        assert asked == [CANARY, WELL_KNOWN, CANARY]

    @pytest.mark.parametrize(
        ("canary", "found", "words", "meaning"),
        [
            (CANARY, "", "clear", "wrong"),
            (CANARY, "", "limit", "limit"),
            (CANARY, "", "foreign", "wrong"),
            (CANARY, "", "web page", "wrong"),
            (None, "", "clear", "no probe"),
            (None, "", "limit", "limit"),
            (None, "", "foreign", "wrong"),
            (None, "", "web page", "wrong"),
            (CANARY, "before", "clear", "no probe"),
            (CANARY, "before", "limit", "limit"),
            (CANARY, "before", "foreign", "wrong"),
            (CANARY, "before", "web page", "wrong"),
            (CANARY, "now", "clear", "limit"),
            (CANARY, "now", "limit", "limit"),
            (CANARY, "now", "foreign", "outage"),
            (CANARY, "now", "web page", "outage"),
        ],
    )
    def test_meaning_of_a_probe_that_is_not_found(
        self, canary: str | None, found: str, words: str, meaning: str
    ) -> None:
        run = Run(canary, C if found == "before" else None)
        if found == "now":
            run.found(C)
        run.missing(A, LIMIT)
        probe = run.check()
        assert probe == (C if found else canary or WELL_KNOWN)

        run.checked(WORDS[words])

        assert (run.held.wrong is not None) == (meaning == "wrong")
        assert run.held.doubts_key == (meaning in ("limit", "outage"))
        assert (run.held.take_news() is not None) == (meaning == "limit")
        assert (run.check() is None) == (meaning != "no probe" or canary is None)

    def test_probe_that_speaks_against_the_connection_says_what_to_check_and_ends_all(self) -> None:
        for canary in (CANARY, None):
            run = Run(canary)
            run.missing(A, FOREIGN)
            run.check()
            run.checked(FOREIGN)

            assert isinstance(run.held.wrong, InvalidConnectionError)
            assert "no Route matched" in str(run.held.wrong)
            assert "check the connection's base address" in str(run.held.wrong)
            assert "canary_isbn" in str(run.held.wrong)
            assert (run.check(), run.decisions(), run.held.wakes_at()) == (None, [], None)
            assert run.held.doubts()["undecided"].keys() == {A}

    def test_a_probe_that_was_known_when_it_was_asked_for_speaks_against_no_connection(self) -> None:
        run = Run()
        run.found(C)
        run.missing(A, FOREIGN)
        assert run.check() == C
        # Before its reply comes, another book is found.
        run.found(B)

        run.checked(FOREIGN)

        assert run.held.wrong is None

    def test_clear_words_that_were_about_the_limit_are_no_clearer_than_others(self) -> None:
        run = Run()
        run.found(C)
        run.missing(A, CLEAR)
        run.missing(B, CLEAR)
        assert run.check() == C
        run.checked(CLEAR)
        run.now += 1
        run.check()
        run.checked()
        assert run.decisions() == [(A, "again"), (B, "again")]

        run.missing(A, CLEAR)
        run.found(C)

        assert isinstance(run.error(), RateLimitedError)

    def test_a_service_that_does_not_answer_leaves_the_key_in_doubt(self) -> None:
        run = Run()
        run.missing(A, FOREIGN)
        run.check()
        run.checked(DOWN)
        assert run.held.doubts_key
        assert run.held.take_news() is None

        run.now += 240

        assert isinstance(run.error(), ServiceUnavailableError)

    def test_a_web_page_beside_books_that_are_found_is_no_reply(self) -> None:
        run = Run()
        for _ in range(2):
            run.missing(A, PAGE)
            run.found(C)
            [decision] = run.held.decisions(run.now, idle=True)

        assert isinstance(decision.error, InvalidReplyError)


class TestACatalogueWithoutTheWellKnownBook:
    def small(self, error: MediaOpsError) -> Run:
        run = Run(canary=None)
        run.missing(A, error)
        assert run.check() == WELL_KNOWN
        run.checked(CLEAR)
        return run

    def test_the_keys_quota_vouches_for_clear_words(self) -> None:
        run = self.small(CLEAR)
        assert run.decisions() == []
        assert run.check() == KEY_CALL
        run.checked()

        assert run.decisions() == [(A, "not_found")]

    def test_catalogue_without_the_well_known_book_vouches_for_no_other_words(self) -> None:
        assert isinstance(self.small(LIMIT).error(), RateLimitedError)

    def test_without_it_nothing_vouches_and_the_advice_is_a_canary(self) -> None:
        run = self.small(CLEAR)
        run.check()
        run.checked(InvalidReplyError("no such call"))

        error = run.error()
        assert isinstance(error, UnvouchedNotFoundError)
        assert "set canary_isbn" in str(error)

    @pytest.mark.parametrize(
        ("error", "cls"),
        [(CLEAR, UnvouchedNotFoundError), (FOREIGN, InvalidConnectionError), (LIMIT, RateLimitedError)],
    )
    def test_the_well_known_book_itself_has_no_probe(self, error: MediaOpsError, cls: type[MediaOpsError]) -> None:
        run = Run(canary=None)
        run.missing(WELL_KNOWN, error)
        if run.check() == KEY_CALL:
            run.checked(InvalidReplyError("no such call"))

        assert type(run.error()) is cls

    def test_a_quota_that_cannot_be_read_now_is_asked_for_again(self) -> None:
        run = self.small(CLEAR)
        run.check()
        run.checked(DOWN)

        assert run.held.doubts_key
