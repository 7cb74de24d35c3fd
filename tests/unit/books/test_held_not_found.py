"""The rule of 404s: its tables, and the witnesses that it asks for."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError, ForeignNotFoundError, WebPageNotFoundError
from airflow_provider_mediaops.books.held_not_found import Evidence, HeldNotFounds, restored
from airflow_provider_mediaops.books.not_found import KEY_CALL, WELL_KNOWN, UnvouchedNotFoundError
from airflow_provider_mediaops.exceptions import (
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    RateLimitedError,
    ServiceUnavailableError,
)

A, B, C, CANARY = "9780000000002", "9780000000019", "9780000000026", "9780131103627"
CLEAR = NotFoundError("404: no such book.", status=404, excerpt='{"error_message": "no such book"}')
LIMIT = DoubtfulNotFoundError("404: Not Found.", status=404)
FOREIGN = ForeignNotFoundError("404: no Route matched.", status=404)
PAGE = WebPageNotFoundError("404: <html>.", status=404)
WORDS = {"clear": CLEAR, "limit": LIMIT, "foreign": FOREIGN, "web page": PAGE}
DOWN = ServiceUnavailableError("503")


class Run:
    """A run of look-ups, and a clock beside it."""

    def __init__(self, canary: str | None = CANARY, last_found: str | None = None) -> None:
        self.evidence = Evidence(canary, last_found)
        self.held = HeldNotFounds(self.evidence)
        self.now = 100.0
        self.asked = ""

    def missing(self, isbn13: str, error: MediaOpsError) -> None:
        self.held.send()
        self.held.missing(isbn13, error, self.now)

    def found(self, isbn13: str) -> None:
        self.held.found(isbn13, self.held.send(), self.now)

    def check(self, *, idle: bool = True) -> str | None:
        witness = self.held.check(self.now, idle=idle)
        self.asked = witness or self.asked
        return witness

    def checked(self, error: MediaOpsError | None = None) -> None:
        self.held.checked(self.asked, error, self.held.send(), self.now)

    def decisions(self, *, idle: bool = True) -> list[tuple[str, str]]:
        return [(decision.isbn13, decision.action) for decision in self.held.decisions(self.now, idle=idle)]

    def error(self) -> MediaOpsError:
        [decision] = self.held.decisions(self.now, idle=True)
        assert decision.action == "later"
        return decision.error


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
    def test_a_book_found_by_a_request_that_was_sent_before_it_came_is_no_witness(self, words: str) -> None:
        run = Run()
        run.held.send()
        before = run.held.send()
        for isbn13 in (A, B):
            run.held.missing(isbn13, WORDS[words], run.now)

        run.held.found(C, before, run.now)

        assert run.decisions(idle=False) == []

    def test_what_comes_after_the_witness_was_asked_for_needs_another(self) -> None:
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

    @pytest.mark.parametrize(("seconds", "action"), [(10.0, "later"), (10.1, "not_found")])
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
    def test_it_needs_a_witness_otherwise(self, proved_before: float | None) -> None:
        run = Run()
        if proved_before is not None:
            run.found(C)
            run.now += proved_before
        run.missing(A, CLEAR)

        assert run.decisions() == []
        assert run.check() in (CANARY, C)


class TestWhenAWitnessIsAskedFor:
    @pytest.mark.parametrize(
        ("words", "count", "seconds"), [("clear", 25, 0.0), ("clear", 1, 5.0), ("limit", 10, 0.0), ("foreign", 1, 2.0)]
    )
    def test_it_waits_for_more_404s_but_not_for_long(self, words: str, count: int, seconds: float) -> None:
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


class TestTheWitness:
    def test_the_book_found_last_goes_before_the_canary_and_the_canary_before_the_well_known_one(self) -> None:
        for canary, last_found, best in ((CANARY, C, C), (CANARY, None, CANARY), (None, None, WELL_KNOWN)):
            run = Run(canary, last_found)
            run.missing(A, LIMIT)
            assert run.check() == best

    def test_no_book_is_a_witness_for_itself(self) -> None:
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
            (None, "", "clear", "no witness"),
            (None, "", "limit", "limit"),
            (None, "", "foreign", "wrong"),
            (None, "", "web page", "wrong"),
            (CANARY, "before", "clear", "no witness"),
            (CANARY, "before", "limit", "limit"),
            (CANARY, "before", "foreign", "wrong"),
            (CANARY, "before", "web page", "wrong"),
            (CANARY, "now", "clear", "limit"),
            (CANARY, "now", "limit", "limit"),
            (CANARY, "now", "foreign", "outage"),
            (CANARY, "now", "web page", "outage"),
        ],
    )
    def test_what_it_means_that_it_is_not_found(self, canary: str | None, found: str, words: str, meaning: str) -> None:
        run = Run(canary, C if found == "before" else None)
        if found == "now":
            run.found(C)
        run.missing(A, LIMIT)
        witness = run.check()
        assert witness == (C if found else canary or WELL_KNOWN)

        run.checked(WORDS[words])

        assert (run.held.wrong is not None) == (meaning == "wrong")
        assert run.held.doubts_key == (meaning in ("limit", "outage"))
        assert (run.held.take_news() is not None) == (meaning == "limit")
        assert (run.check() is None) == (meaning != "no witness" or canary is None)

    def test_one_that_speaks_against_the_connection_says_what_to_check_and_ends_all(self) -> None:
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
            assert run.held.undecided().keys() == {A}

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

    def test_it_vouches_for_no_other_words(self) -> None:
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
    def test_the_well_known_book_itself_has_no_witness(self, error: MediaOpsError, cls: type[MediaOpsError]) -> None:
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


def test_what_is_not_decided_can_be_taken_up_by_the_next_attempt() -> None:
    run = Run()
    for isbn13, error in ((A, LIMIT), (B, CLEAR), (C, FOREIGN), (CANARY, PAGE)):
        run.missing(isbn13, error)
    again = dict(restored(run.held.undecided()))

    assert [(type(error), str(error), error.status) for error in again.values()] == [
        (type(error), str(error), 404) for error in (LIMIT, CLEAR, FOREIGN, PAGE)
    ]


def test_what_version_0_1_took_for_clear_words_is_no_longer_so() -> None:
    [(_, error)] = restored({A: NotFoundError("404: no Route matched.", excerpt='{"message": "no Route"}').to_dict()})

    assert isinstance(error, DoubtfulNotFoundError)


def test_a_book_that_got_no_second_answer_is_forgotten() -> None:
    run = Run()
    run.missing(A, LIMIT)
    run.found(C)
    assert run.decisions() == [(A, "again")]

    run.held.forget(A)

    assert run.held.undecided() == {}
