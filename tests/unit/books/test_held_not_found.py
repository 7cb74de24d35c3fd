"""404s that are held: which of them become ``not_found``, and what the next attempt learns of the rest."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.books.not_found import WELL_KNOWN
from airflow_provider_mediaops.exceptions import (
    MediaOpsError,
    RateLimitedError,
    ServiceUnavailableError,
    error_from_dict,
)
from tests.unit.books.held import CANARY, CLEAR, FOREIGN, LIMIT, PAGE, WORDS, A, B, C, Run


class TestWhatIsConfirmed:
    @pytest.mark.parametrize(
        ("words", "actions"),
        [
            ("clear", ["not_found"]),
            ("limit", ["again", "again", "not_found"]),
            ("foreign", ["again", "again", "not_found"]),
            ("web page", ["again", "later"]),
        ],
    )
    def test_by_its_words(self, words: str, actions: list[str]) -> None:
        run = Run()
        for action in actions:
            run.missing(A, WORDS[words])
            assert run.decisions(idle=False) == []
            run.found(C)
            assert run.decisions(idle=False) == [(A, action)]
        assert run.held.doubts()["undecided"] == {}

    @pytest.mark.parametrize("words", WORDS)
    def test_a_book_found_by_a_request_that_was_sent_before_it_came_is_no_probe(self, words: str) -> None:
        run = Run()
        run.held.send()
        before = run.held.send()
        for isbn13 in (A, B):
            run.held.missing(isbn13, WORDS[words], run.now)

        run.held.found(C, before, run.now)

        assert run.decisions(idle=False) == []

    def test_404_after_the_probe_was_asked_for_needs_another(self) -> None:
        run = Run()
        run.missing(A, CLEAR)
        run.missing(B, CLEAR)
        run.check()
        asked = run.held.send()
        run.missing(C, CLEAR)

        run.held.checked(CANARY, None, asked, run.now)

        assert run.decisions(idle=False) == [(A, "not_found"), (B, "not_found")]
        assert run.held.doubts()["undecided"].keys() == {C}

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

    @pytest.mark.parametrize("words", ["limit", "foreign"])
    def test_other_words_are_believed_only_after_eight_probes_of_this_run_were_found(self, words: str) -> None:
        run = Run()
        run.evidence.probes_found = 0
        for isbn13 in (A, B):
            for _ in range(3):
                run.missing(isbn13, WORDS[words])
                run.found(C)
                decided = run.decisions()
            probes = 0
            while not decided:
                assert run.check(idle=False) == C
                run.checked()
                probes += 1
                decided = run.decisions(idle=False)

            assert (decided, probes) == ([(isbn13, "not_found")], 8 if isbn13 == A else 0)

    @pytest.mark.parametrize("words", ["limit", "foreign"])
    def test_probe_that_gets_a_404_makes_the_others_no_proof(self, words: str) -> None:
        run = Run()
        run.evidence.probes_found = 7
        for _ in range(3):
            run.missing(A, WORDS[words])
            run.found(C)
            decided = run.decisions()
        assert decided == []
        run.check()
        run.checked(WORDS[words])
        run.now += 1
        run.check()
        run.checked()

        assert isinstance(run.error(), RateLimitedError if words == "limit" else ServiceUnavailableError)

    @pytest.mark.parametrize("words", ["limit", "foreign"])
    @pytest.mark.parametrize("known_as", ["the canary", "found in this run", "found before", "found when asked again"])
    def test_other_words_say_nothing_for_the_rest_of_the_run_once_a_book_that_exists_has_got_a_404(
        self, words: str, known_as: str
    ) -> None:
        run = Run(last_found=C if known_as == "found before" else None)
        if known_as == "found when asked again":
            run.missing(C, LIMIT)
            run.found(CANARY)
            assert run.decisions() == [(C, "again")]
            run.found(C)
        else:
            if known_as == "found in this run":
                run.found(C)
            run.missing(B, LIMIT)
            assert run.check() == (CANARY if known_as == "the canary" else C)
            run.checked(LIMIT)
            run.now += 2
            run.check()
            run.checked()
            assert run.decisions() == [(B, "again")]
        run.now += 3_600

        run.missing(A, WORDS[words])
        run.found(C)
        assert run.decisions() == [(A, "again")]
        run.missing(A, WORDS[words])
        run.found(C)

        later = run.error()
        assert isinstance(later, RateLimitedError if words == "limit" else ServiceUnavailableError)
        assert "A book that exists has got such a reply, too." in str(later)

    def test_clear_words_are_believed_all_the_same(self) -> None:
        run = Run()
        run.missing(B, FOREIGN)
        run.found(C)
        assert run.decisions() == [(B, "again")]
        run.found(B)

        run.missing(A, CLEAR)
        run.found(C)

        assert run.decisions() == [(A, "not_found")]

    def test_the_well_known_book_alone_is_no_such_proof(self) -> None:
        run = Run(canary=None)
        run.missing(A, LIMIT)
        assert run.check() == WELL_KNOWN
        run.checked(LIMIT)
        run.found(C)
        assert run.decisions() == [(A, "again")]
        run.now += 60

        for action in ("again", "again", "not_found"):
            run.missing(B, LIMIT)
            run.found(C)
            assert run.decisions() == [(B, action)]

    def test_a_book_that_is_there_the_second_time_is_told_to_those_who_share_the_key(self) -> None:
        run = Run()
        run.missing(A, LIMIT)
        run.found(C)
        assert run.decisions() == [(A, "again")]

        run.found(A)

        assert isinstance(run.held.take_news(), RateLimitedError)
        assert run.held.take_news() is None

    @pytest.mark.parametrize(("seconds", "action"), [(10.0, "later"), (10.1, "not_found")])
    def test_a_limit_around_that_time_makes_the_third_404_no_proof(self, seconds: float, action: str) -> None:
        run = Run()
        run.held.see_limit(run.now)
        run.now += seconds
        for _ in range(3):
            run.missing(A, LIMIT)
            run.found(C)
            decided = run.decisions()

        assert decided == [(A, action)]


class TestOneInClearWordsByItself:
    def test_single_404_in_clear_words_is_believed_if_key_and_address_were_proved_a_short_time_ago(self) -> None:
        run = Run()
        run.found(C)
        run.now += 599
        run.missing(A, CLEAR)

        assert run.decisions(idle=False) == []
        assert run.check() is None
        assert run.decisions() == [(A, "not_found")]

    def test_single_404_in_clear_words_is_believed_after_some_seconds_while_others_are_under_way(self) -> None:
        run = Run()
        run.found(C)
        run.missing(A, CLEAR)
        assert run.held.wakes_at() == run.now + 5

        run.now += 5

        assert run.decisions(idle=False) == [(A, "not_found")]

    @pytest.mark.parametrize("proved_before", [None, 600.0])
    def test_single_404_in_clear_words_needs_a_probe_otherwise(self, proved_before: float | None) -> None:
        run = Run()
        if proved_before is not None:
            run.found(C)
            run.now += proved_before
        run.missing(A, CLEAR)

        assert run.decisions() == []
        assert run.check() in (CANARY, C)


def test_undecided_404_can_be_taken_up_by_the_next_attempt() -> None:
    run = Run()
    for isbn13, error in ((A, LIMIT), (B, CLEAR), (C, FOREIGN), (CANARY, PAGE)):
        run.missing(isbn13, error)
    doubts = run.held.doubts()
    again = {isbn13: error_from_dict(fields) for isbn13, fields in doubts["undecided"].items()}
    later = Run()
    later.held.take_up(doubts)

    # Also by the one after it, although only one of the rows has come.
    assert later.held.resume(A, later.now)
    assert not later.held.resume(A, later.now)
    assert later.held.doubts() == doubts
    assert [(type(error), str(error), error.status) for error in again.values()] == [
        (type(error), str(error), 404) for error in (LIMIT, CLEAR, FOREIGN, PAGE)
    ]


def test_a_book_that_got_no_second_answer_is_forgotten() -> None:
    run = Run()
    run.missing(A, LIMIT)
    run.found(C)
    assert run.decisions() == [(A, "again")]

    run.held.forget(A)

    assert run.held.doubts()["undecided"] == {}
