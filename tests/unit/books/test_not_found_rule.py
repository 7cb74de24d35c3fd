"""
The rule of 404s, on a run of look-ups: which of them are confirmed, and when a probe is asked for, which, and why.

What a whole list, a look-up and a task make of the rule is in the tests of theirs.
"""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.books.held_not_found import Evidence, HeldNotFounds
from airflow_provider_mediaops.books.not_found import (
    MISSING_PROBE,
    WELL_KNOWN,
    Meaning,
    Probe,
    UnvouchedNotFoundError,
)
from airflow_provider_mediaops.exceptions import (
    InvalidReplyError,
    MediaOpsError,
    RateLimitedError,
    ServiceUnavailableError,
)
from tests.unit.books.held import CANARY, CLEAR, FOREIGN, LIMIT, PAGE, WORDS

A, B, C = "9780000000002", "9780000000019", "9780000000026"
DOWN = ServiceUnavailableError("503")


class Run:
    """A run of look-ups, and a clock beside it."""

    def __init__(self, canary: str | None = CANARY, last_found: str | None = None) -> None:
        self.now = 100.0
        self.evidence = Evidence(lambda: self.now, canary, last_found)
        self.held = HeldNotFounds(self.evidence)
        # That other words have to be tried by so many probes first is a test of its own.
        self.evidence.probes_found = 8

    def hold(self, isbn13: str, error: MediaOpsError) -> None:
        self.held.send()
        self.held.hold(isbn13, error)

    def found(self, isbn13: str) -> None:
        self.held.found(isbn13, self.held.send())

    def check(self, *, idle: bool = True) -> str | None:
        return self.held.check(idle=idle)

    def checked(self, error: MediaOpsError | None = None) -> None:
        self.held.checked(error, self.held.send())

    def decisions(self, *, idle: bool = True) -> list[tuple[str, str]]:
        return [(decision.isbn13, decision.action) for decision in self.held.decisions(idle=idle)]

    def error(self) -> MediaOpsError:
        [decision] = self.held.decisions(idle=True)
        assert decision.action == "later"
        return decision.error


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
            run.hold(A, WORDS[words])
            assert run.decisions(idle=False) == []
            run.found(C)
            [decision] = run.held.decisions(idle=False)
            assert decision.action == action
        assert isinstance(decision.error, InvalidReplyError) == (action == "later")
        assert run.held.doubts()["undecided"] == {}

    @pytest.mark.parametrize("words", WORDS)
    def test_a_book_found_by_a_request_that_was_sent_before_it_came_is_no_probe(self, words: str) -> None:
        run = Run()
        run.held.send()
        before = run.held.send()
        for isbn13 in (A, B):
            run.held.hold(isbn13, WORDS[words])

        run.held.found(C, before)

        assert run.decisions(idle=False) == []

    def test_404_after_the_probe_was_asked_for_needs_another(self) -> None:
        run = Run()
        run.hold(A, CLEAR)
        run.hold(B, CLEAR)
        run.check()
        asked = run.held.send()
        run.hold(C, CLEAR)

        run.held.checked(None, asked)

        assert run.decisions(idle=False) == [(A, "not_found"), (B, "not_found")]
        assert run.held.doubts()["undecided"].keys() == {C}

    @pytest.mark.parametrize("error", [LIMIT, FOREIGN, PAGE])
    def test_other_words_never_say_so_once_the_service_has_used_the_clear_ones(self, error: MediaOpsError) -> None:
        run = Run()
        run.hold(A, CLEAR)
        run.found(C)
        assert run.decisions() == [(A, "not_found")]

        run.hold(B, error)

        later = run.error()
        assert "The service says it otherwise of other books" in str(later)
        assert isinstance(later, RateLimitedError) == (error is LIMIT)
        assert (run.held.take_news() is not None) == (error is LIMIT)

    @pytest.mark.parametrize("words", ["limit", "foreign"])
    @pytest.mark.parametrize("known_as", ["the canary", "found in this run", "found before", "found when asked again"])
    def test_other_words_say_nothing_for_the_rest_of_the_run_once_a_book_that_exists_has_got_a_404(
        self, words: str, known_as: str
    ) -> None:
        run = Run(last_found=C if known_as == "found before" else None)
        if known_as == "found when asked again":
            run.hold(C, LIMIT)
            run.found(CANARY)
            assert run.decisions() == [(C, "again")]
            run.found(C)
        else:
            if known_as == "found in this run":
                run.found(C)
            run.hold(B, LIMIT)
            assert run.check() == (CANARY if known_as == "the canary" else C)
            run.checked(LIMIT)
            run.now += 2
            run.check()
            run.checked()
            assert run.decisions() == [(B, "again")]
        run.now += 3_600

        run.hold(A, WORDS[words])
        run.found(C)
        assert run.decisions() == [(A, "again")]
        run.hold(A, WORDS[words])
        run.found(C)

        later = run.error()
        assert isinstance(later, RateLimitedError if words == "limit" else ServiceUnavailableError)
        assert "A book that exists has got such a reply, too." in str(later)

    def test_clear_words_are_believed_although_other_words_are_doubted(self) -> None:
        run = Run()
        run.hold(B, FOREIGN)
        run.found(C)
        assert run.decisions() == [(B, "again")]
        run.found(B)

        run.hold(A, CLEAR)
        run.found(C)

        assert run.decisions() == [(A, "not_found")]

    def test_the_well_known_book_alone_is_no_such_proof(self) -> None:
        run = Run(canary=None)
        run.hold(A, LIMIT)
        assert run.check() == WELL_KNOWN
        run.checked(LIMIT)
        run.found(C)
        assert run.decisions() == [(A, "again")]
        run.now += 60

        for action in ("again", "again", "not_found"):
            run.hold(B, LIMIT)
            run.found(C)
            assert run.decisions() == [(B, action)]


def test_single_404_in_clear_words_is_believed_after_some_seconds_while_others_are_under_way() -> None:
    run = Run()
    run.found(C)
    run.hold(A, CLEAR)
    assert run.decisions(idle=False) == []
    assert run.held.wakes_at() == run.now + 5

    run.now += 5

    assert run.decisions(idle=False) == [(A, "not_found")]


def test_a_book_that_is_done_is_forgotten_whether_it_was_held_or_asked_for_again() -> None:
    run = Run()
    run.hold(A, LIMIT)
    run.found(C)
    assert run.decisions() == [(A, "again")]
    run.hold(B, LIMIT)

    run.held.forget(A)
    run.held.forget(B)

    assert run.held.doubts()["undecided"] == {}


class TestWhenAProbeIsAskedFor:
    @pytest.mark.parametrize("words", ["clear", "limit", "foreign"])
    def test_probe_waits_for_more_404s_but_not_for_long(self, words: str) -> None:
        run = Run()
        for isbn13 in (A, B, C):
            run.hold(isbn13, WORDS[words])
            assert run.check(idle=False) is None
        assert run.held.wakes_at() == run.now + 5
        run.now += 5

        assert run.check(idle=False) == CANARY
        assert run.check(idle=False) is None


class TestTheProbe:
    def test_no_book_is_a_probe_for_itself(self) -> None:
        run = Run()
        run.hold(CANARY, LIMIT)

        assert run.check() == WELL_KNOWN

    @pytest.mark.parametrize("words", WORDS)
    @pytest.mark.parametrize("kind", Probe)
    def test_probe_that_is_not_found_means_what_the_table_says(self, kind: Probe, words: str) -> None:
        meaning = MISSING_PROBE[kind][type(WORDS[words])]
        run = Run(None if kind is Probe.WELL_KNOWN else CANARY, C if kind is Probe.FOUND_BEFORE else None)
        if kind is Probe.FOUND_NOW:
            run.found(C)
        run.hold(A, LIMIT)
        best = {Probe.WELL_KNOWN: WELL_KNOWN, Probe.CANARY: CANARY}
        assert run.check() == best.get(kind, C)

        run.checked(WORDS[words])

        assert (run.held.wrong is not None) == (meaning is Meaning.WRONG_CONNECTION)
        assert run.held.doubts_key == (meaning in (Meaning.LIMIT, Meaning.OUTAGE))
        assert (run.held.take_news() is not None) == (meaning is Meaning.LIMIT)

    def test_a_probe_that_was_known_when_it_was_asked_for_speaks_against_no_connection(self) -> None:
        run = Run()
        run.found(C)
        run.hold(A, FOREIGN)
        assert run.check() == C
        # Before its reply comes, another book is found.
        run.found(B)

        run.checked(FOREIGN)

        assert run.held.wrong is None

    def test_clear_words_that_were_about_the_limit_are_no_clearer_than_others(self) -> None:
        run = Run()
        run.found(C)
        run.hold(A, CLEAR)
        run.hold(B, CLEAR)
        assert run.check() == C
        run.checked(CLEAR)
        run.now += 1
        run.check()
        run.checked()
        assert run.decisions() == [(A, "again"), (B, "again")]

        run.hold(A, CLEAR)
        run.found(C)

        assert isinstance(run.error(), RateLimitedError)

    def test_a_service_that_does_not_answer_leaves_the_key_in_doubt(self) -> None:
        run = Run()
        run.hold(A, FOREIGN)
        run.check()
        run.checked(DOWN)
        assert run.held.doubts_key
        assert run.held.take_news() is None

        run.now += 600

        assert isinstance(run.error(), ServiceUnavailableError)

    def test_after_ten_minutes_without_a_book_the_next_404s_are_not_waited_for_until_one_is_found(self) -> None:
        run = Run()
        for isbn13, seconds in ((A, 600.0), (B, 0.0)):
            run.hold(isbn13, LIMIT)
            assert run.check() == CANARY
            run.checked(LIMIT)
            run.now += seconds
            assert isinstance(run.error(), RateLimitedError)
            assert not run.held.doubts_key
        run.found(C)
        run.hold(A, LIMIT)
        run.check()
        run.checked(LIMIT)

        assert run.decisions() == []
        assert run.held.doubts_key


@pytest.mark.parametrize("asked_for", [A, WELL_KNOWN], ids=["another book", "the well-known book"])
@pytest.mark.parametrize(
    ("error", "cls"),
    [(CLEAR, UnvouchedNotFoundError), (FOREIGN, UnvouchedNotFoundError), (LIMIT, RateLimitedError)],
)
def test_nothing_is_vouched_for_by_a_catalogue_without_the_well_known_book(
    asked_for: str, error: MediaOpsError, cls: type[MediaOpsError]
) -> None:
    run = Run(canary=None)
    run.hold(asked_for, error)
    assert run.check() == (WELL_KNOWN if asked_for == A else None)
    if asked_for == A:
        run.checked(CLEAR)

    assert type(run.error()) is cls
