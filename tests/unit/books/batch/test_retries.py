"""A list at a service that fails, limits or does not have the books: what is retried, when, and what a row becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.batch.options import ResumePoint, SeenLookups
from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.books.batch.runner import BatchUpdate
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.books.not_found import WELL_KNOWN, UnvouchedNotFoundError
from airflow_provider_mediaops.exceptions import (
    ConnectionFailedError,
    InvalidConnectionError,
    MediaOpsError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.exchange import Failure, TransportError
from tests.unit.book_database import found, limit_404, no_such_book, replied
from tests.unit.books.batch.service import (
    DAILY,
    DOWN,
    ISBNS,
    A,
    B,
    C,
    D,
    Service,
    batch_of,
    books,
    follow,
    inputs_of,
    looked_up,
    seconds,
    statuses,
)
from tests.unit.books.held import CANARY
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response

FOREIGN = replied({"message": "no Route matched with those values"}, 404)


YEAR = replied({"message": "Limit Exceeded"}, 429, retry_after="31536000")


class TestALimitForAYear:
    @pytest.mark.parametrize("tries", [1, 5])
    @pytest.mark.parametrize(("number", "bulk_size", "max_failures"), [(1, 1, 0), (100, 1, 99), (100, 100, 0)])
    def test_the_list_ends_at_once_and_says_how_long_to_wait(
        self, number: int, bulk_size: int, max_failures: int, tries: int
    ) -> None:
        service, updates = Service(lambda _: YEAR, many=lambda _: YEAR), list[BatchUpdate]()
        how: dict[str, Any] = {"tries": tries, "max_failures": max_failures, "bulk_size": bulk_size}
        if tries == 1:
            # A book that gets no answer fails at once.
            how["retry_after"] = ()

        async def lasted() -> float:
            rows = map(IsbnRow.of, ISBNS[:number])
            with pytest.raises(RateLimitedError, match="Check that the connection's plan") as caught:
                await follow(batch_of(service, rows, **how), updates)
            # A day is the longest that a service is listened to.
            assert caught.value.retry_after == 86_400
            return seconds()

        # One more may have been under way. The next one, which waits for its permit, is given up after ten seconds.
        assert in_virtual_time(lasted()) < 12
        assert len(service.times) <= 2
        # None has failed, so the next attempt asks for all of them.
        assert not any(update.done for update in updates)

    def test_books_found_before_are_handed_out_and_requests_under_way_are_waited_for(self) -> None:
        service = Service(
            lambda isbn: YEAR if isbn == C else found(isbn), latency={isbn: 2.0 for isbn in ISBNS if isbn != C}
        )
        updates: list[BatchUpdate] = []

        with pytest.raises(RateLimitedError):
            in_virtual_time(follow(batch_of(service, map(IsbnRow.of, ISBNS[:9]), tries=5), updates))

        assert inputs_of(updates) == [A, B]
        assert len(service.times) == 3

    def test_a_pause_that_a_book_without_an_answer_waits_anyway_ends_nothing(self) -> None:
        minute = replied({"message": "Limit Exceeded"}, 429, retry_after="60")

        rows = statuses(Service(lambda isbn: minute if seconds() < 50 else found(isbn)), [A, B])
        assert rows == [(A, "found"), (B, "found")]

    def test_of_books_that_only_a_probe_could_decide_on_nothing_is_decided(self) -> None:
        service = Service(lambda isbn: YEAR if isbn == CANARY else limit_404())

        error, last = refused(service, [A, B], tries=5)

        assert isinstance(error, RateLimitedError)
        assert (error.status, sorted(last.doubts["undecided"]), last.done) == (429, sorted([A, B]), [])


class TestABookThatGetsNoAnswer:
    def test_book_without_an_answer_is_retried_later_while_other_rows_continue_and_has_failed_in_the_end(self) -> None:
        service = Service(lambda isbn: DOWN if isbn == A else found(isbn))

        failed, *others = looked_up(service, [A, B, C])

        assert service.seconds_of(A) == [0, 10, 50, 170]
        assert (service.seconds_of(B), service.seconds_of(C)) == ([0], [0])
        assert (failed.status, failed.requests) == ("failed", 4)
        assert isinstance(failed.cause, ServiceUnavailableError)
        assert failed.error == failed.cause.message
        assert [lookup.status for lookup in others] == ["found", "found"]

    @pytest.mark.parametrize("reply", [replied({}, 400), replied(b"<html>Sign in</html>")], ids=["refused", "portal"])
    def test_a_book_is_not_asked_for_again_where_that_is_of_no_use(self, reply: Response) -> None:
        service = Service(lambda _: reply)

        assert statuses(service, [A]) == [(A, "failed")]
        assert service.asked == [A]

    def test_book_without_an_answer_is_asked_for_again_where_it_is_named_again(self) -> None:
        service = Service(lambda isbn: DOWN if isbn == A and seconds() < 3 else found(isbn), latency=1.0)
        rows = statuses(service, [A, B, C, D, A], retry_after=(), window=1)

        assert rows == [(A, "failed"), (B, "found"), (C, "found"), (D, "found"), (A, "found")]

    def test_service_without_an_answer_is_asked_for_one_thing_at_a_time(self) -> None:
        service = Service(lambda isbn: DOWN if seconds() < 15 else found(isbn), latency=2.0)
        rows = statuses(service, ISBNS[:40])

        assert {status for _, status in rows} == {"found"}
        # Those that were under way when it went down, and then one in a while.
        assert len([time for time in service.times if time < 1015]) < 20


class TestMissingBooks:
    @pytest.mark.parametrize(("reply", "most"), [(no_such_book(), 1.1), (limit_404(), 3.3)])
    def test_a_list_of_them_costs_little_more_than_its_length(self, reply: Response, most: float) -> None:
        service = Service(lambda isbn: found(isbn) if isbn == CANARY else reply)

        rows = statuses(service, ISBNS[:200])

        assert rows == [(isbn, "not_found") for isbn in ISBNS[:200]]
        assert len(service.asked) <= 200 * most

    def test_404_that_nothing_vouches_for_is_told_at_once_where_no_other_book_can_be_found(self) -> None:
        service = Service(lambda _: no_such_book())

        [lookup] = looked_up(service, [A], canary=None)

        assert isinstance(lookup.cause, UnvouchedNotFoundError)
        assert service.asked == [A, WELL_KNOWN]

    def test_the_one_book_of_a_list_that_is_found_vouches_for_those_before_it(self) -> None:
        # Nothing but that book vouches for them, and it is behind more than are held for a probe.
        service = Service(lambda isbn: found(isbn) if isbn == ISBNS[90] else no_such_book())

        rows = statuses(service, ISBNS[:100], canary=None)

        assert rows == [(isbn, "found" if isbn == ISBNS[90] else "not_found") for isbn in ISBNS[:100]]
        assert service.times[-1] - service.times[0] < 100

    def test_a_limit_that_goes_on_for_ten_minutes_spends_few_requests_and_loses_no_book(self) -> None:
        service = Service(lambda isbn: limit_404() if seconds() < 600 else found(isbn))

        assert statuses(service, ISBNS[:200]) == [(isbn, "found") for isbn in ISBNS[:200]]
        assert len([time for time in service.times if time < 1600]) < 120

    @pytest.mark.long
    @pytest.mark.parametrize("reply", [FOREIGN, limit_404(), no_such_book()], ids=["gateway", "limit", "clear"])
    def test_outage_that_never_ends_ends_a_long_list_within_half_an_hour(self, reply: Response) -> None:
        service = Service()
        service.answer = lambda isbn: found(isbn) if len(service.times) < 50 else reply

        error, _ = refused(service, ISBNS[:1_000], max_failures=0)

        assert isinstance(error, (RateLimitedError, ServiceUnavailableError))
        assert service.times[-1] - service.times[0] < 1_800

    def test_limit_that_a_book_has_waited_out_makes_its_404s_in_the_limits_words_no_proof(self) -> None:
        limited = iter([replied({"message": "Limit Exceeded"}, 429)])
        service = Service(lambda isbn: next(limited, limit_404()) if isbn == A else found(isbn))

        assert statuses(service, ISBNS[:20], tries=3, retry_after=())[0] == (A, "failed")

    def test_the_shared_rate_is_slowed_by_a_limit_that_only_404s_have_shown(self) -> None:
        service = Service(lambda isbn: limit_404() if seconds() < 2 else found(isbn))
        statuses(service, ISBNS[:20])

        # Not five a second, after that.
        times = [time for time in service.times if time > 1004.0]
        assert (len(times) - 1) / (times[-1] - times[0]) < 4.5


def refused(service: Service, texts: list[str], **how: Any) -> tuple[MediaOpsError, BatchUpdate]:
    """Look a list up that ends with an error; give the error, and the last update."""
    seen: list[BatchUpdate] = []
    with pytest.raises(MediaOpsError) as caught:
        in_virtual_time(follow(batch_of(service, map(IsbnRow.of, texts), **how), seen))
    return caught.value, seen[-1]


def doubts() -> dict[str, Any]:
    """Give what a list leaves in doubt that ends before a probe is found for the 404s of two books."""
    replies = {A: no_such_book(), B: no_such_book(), C: DAILY}
    _, last = refused(Service(lambda isbn: replies.get(isbn, DOWN), latency={C: 1.0}), [A, B, C])
    assert set(last.doubts["undecided"]) == {A, B}
    return last.doubts


class TestTheNextAttempt:
    @pytest.mark.parametrize("words", [FOREIGN, no_such_book()])
    def test_404_over_a_wrong_connection_counts_for_nothing_once_it_is_mended(self, words: Response) -> None:
        error, last = refused(Service(lambda _: words), [A, B, C])
        assert type(error) is InvalidConnectionError
        assert last.doubts["undecided"] == {}
        assert not last.done

        service = Service(lambda isbn: no_such_book() if isbn == B else found(isbn))
        rows = statuses(service, [A, B, C], resume=ResumePoint(doubts=last.doubts))

        assert rows == [(A, "found"), (B, "not_found"), (C, "found")]

    def test_404_in_clear_words_is_not_asked_for_again(self) -> None:
        rows = statuses(Service(), [A, B, C], resume=ResumePoint(doubts=doubts()))

        assert rows == [(A, "not_found"), (B, "not_found"), (C, "found")]

    @pytest.mark.parametrize("address", [{"address": "of another catalogue"}, {}], ids=["another", "unknown"])
    def test_404_from_another_address_is_asked_for_again(self, address: dict[str, str]) -> None:
        elsewhere = {name: value for name, value in doubts().items() if name != "address"} | address

        rows = statuses(Service(), [A, B, C], resume=ResumePoint(doubts=elsewhere))

        assert rows == [(A, "found"), (B, "found"), (C, "found")]

    @pytest.mark.parametrize(
        ("words", "address", "status"),
        [
            (FOREIGN, {}, "failed"),
            (limit_404(), {}, "failed"),
            (no_such_book(), {}, "not_found"),
            (FOREIGN, {"address": "of another catalogue"}, "not_found"),
        ],
    )
    def test_doubted_words_are_doubted_on_if_they_are_of_the_same_address(
        self, words: Response, address: dict[str, str], status: str
    ) -> None:
        known = {**doubts(), "undecided": {}, "disproved": ["ForeignNotFoundError"], **address}
        service = Service(lambda isbn: words if isbn == B else found(isbn))

        assert statuses(service, [A, B, C], resume=ResumePoint(doubts=known))[1] == (B, status)

    def test_book_that_was_seen_is_not_asked_for_and_the_last_one_is_a_probe(self) -> None:
        seen = SeenLookups()
        seen.put(Lookup(A, A, "found", book=Book({"title": "t"})))
        seen.put(Lookup(B, B, "not_found"))
        service = Service(lambda isbn: no_such_book() if isbn == C else found(isbn))

        rows = statuses(service, [f"ISBN {B}", A, C], resume=ResumePoint(seen, last_found=A))

        assert rows == [(f"ISBN {B}", "not_found"), (A, "found"), (C, "not_found")]
        assert service.asked == [C, A]


class TestBulk:
    def test_batches_are_filled_and_asked_for_at_the_rate(self) -> None:
        service = Service()

        rows = statuses(service, ISBNS[:250], bulk_size=100)

        assert rows == [(isbn, "found") for isbn in ISBNS[:250]]
        assert service.batches == [ISBNS[:100], ISBNS[100:200], ISBNS[200:250]]

    def test_two_are_under_way_at_a_time_and_a_full_window_does_not_wait_for_a_full_batch(self) -> None:
        service = Service(latency=10.0)
        statuses(service, ISBNS[:50], bulk_size=5)
        assert service.most == 2

        service = Service()
        assert len(statuses(service, ISBNS[:8], bulk_size=10, window=4)) == 8

    def test_of_the_books_that_a_reply_leaves_out_one_is_asked_for_by_itself(self) -> None:
        service = Service(lambda isbn: found(isbn) if isbn == A else no_such_book(), many=lambda _: books([A]))
        found_one, *others = looked_up(service, [A, B, C, D], bulk_size=4)

        assert (found_one.status, found_one.error) == ("found", None)
        assert [lookup.status for lookup in others] == ["not_found"] * 3
        assert service.asked == [B]
        assert [bool(lookup.error) for lookup in others] == [False, True, True]

    @pytest.mark.parametrize(
        "named",
        [
            lambda isbns: isbns[:2],
            lambda _: [],
            lambda isbns: [] if A in isbns else isbns,
            lambda _: [CANARY],
        ],
        ids=["the first ones", "none", "none at first", "another book"],
    )
    def test_a_service_that_leaves_out_books_that_it_has_makes_none_missing(
        self, named: Callable[[list[str]], list[str]]
    ) -> None:
        service = Service(many=lambda isbns: books(named(isbns)))

        assert statuses(service, ISBNS[:50], bulk_size=10) == [(isbn, "found") for isbn in ISBNS[:50]]

    def test_a_batch_that_failed_is_retried_as_one(self) -> None:
        service = Service(many=lambda isbns: DOWN if seconds() < 9 else books(isbns))

        assert {status for _, status in statuses(service, [A, B, C], bulk_size=3)} == {"found"}
        assert service.batches == [[A, B, C], [A, B, C]]

    @pytest.mark.parametrize("status", [400, 413])
    def test_plan_that_takes_fewer_books_makes_the_batches_smaller(self, status: int) -> None:
        service = Service(many=lambda isbns: replied({}, status) if len(isbns) > 2 else books(isbns))

        assert {status for _, status in statuses(service, ISBNS[:12], bulk_size=4)} == {"found"}
        assert {len(batch) for batch in service.batches[-3:]} == {2}

    def test_reply_that_says_it_looked_for_fewer_makes_the_batches_smaller(self) -> None:
        def many(isbns: list[str]) -> Response:
            records = [{"isbn13": isbn} for isbn in isbns[:2]]
            return replied({"data": records, "requested": len(records)})

        service = Service(many=many)

        assert {status for _, status in statuses(service, ISBNS[:8], bulk_size=4)} == {"found"}
        assert (service.asked, {len(batch) for batch in service.batches[-2:]}) == ([], {2})

    @pytest.mark.parametrize(
        "failure", [replied({}, 500), Failure.TIMEOUT, Failure.TOO_LARGE], ids=["500", "late", "too large"]
    )
    def test_batch_that_is_too_much_is_halved_at_once_and_the_next_ones_are_as_large(self, failure: Any) -> None:
        def many(isbns: list[str]) -> Response:
            if A not in isbns:
                return books(isbns)
            if isinstance(failure, Failure):
                raise TransportError(failure, "too much")
            reply: Response = failure
            return reply

        service = Service(many=many)

        assert {status for _, status in statuses(service, ISBNS[:16], bulk_size=8)} == {"found"}
        assert sorted(map(len, service.batches)) == [2, 2, 4, 4, 8, 8]
        assert service.asked == [A, B]

    @pytest.mark.parametrize("status", [400, 500])
    def test_book_that_spoils_its_batch_fails_alone(self, status: int) -> None:
        refused = replied({}, status)
        service = Service(
            lambda isbn: refused if isbn == C else found(isbn),
            many=lambda isbns: refused if C in isbns else books(isbns),
        )

        rows = statuses(service, ISBNS[:80], bulk_size=8, retry_after=())

        assert rows == [(isbn, "failed" if isbn == C else "found") for isbn in ISBNS[:80]]
        # The later batches are not smaller.
        assert ISBNS[72:80] in service.batches

    def test_quota_that_is_spent_between_two_halves_loses_nothing(self) -> None:
        replies = {4: replied({}, 500), 2: books([A, B])}
        service = Service(many=lambda isbns: DAILY if C in isbns and len(isbns) == 2 else replies[len(isbns)])

        updates: list[BatchUpdate] = []
        with pytest.raises(QuotaExceededError):
            in_virtual_time(follow(batch_of(service, map(IsbnRow.of, [A, B, C, D]), bulk_size=4), updates))

        assert inputs_of(updates) == [A, B]


class TestAServiceWithoutBulk:
    @pytest.mark.parametrize(
        "reply",
        [
            *(replied({"message": "no"}, status) for status in (403, 405, 410, 501)),
            *(no_such_book(), limit_404(), replied(b"<html>404</html>", 404)),
        ],
        ids=["403", "405", "410", "501", "clear", "limit", "page"],
    )
    def test_books_are_asked_for_one_by_one_and_the_log_says_so(self, reply: Response) -> None:
        warnings: list[str] = []
        service = Service(many=lambda _: reply)

        assert {status for _, status in statuses(service, [A, B, C], bulk_size=3, warn=warnings.append)} == {"found"}
        assert (service.batches, service.asked) == ([[A, B, C]], [A, B, C])
        [line] = warnings
        assert line.endswith("no bulk requests (POST /books) for this key: books are asked for one by one.")

    def test_spent_quota_is_no_lack_of_bulk_requests(self) -> None:
        warnings: list[str] = []
        service = Service(many=lambda _: DAILY)

        with pytest.raises(QuotaExceededError):
            looked_up(service, [A, B], bulk_size=2, warn=warnings.append)
        assert (service.asked, warnings) == ([], [])

    def test_404_is_believed_if_the_books_own_is_in_other_words_than_the_limits(self) -> None:
        service = Service(lambda isbn: found(isbn) if isbn == CANARY else no_such_book(), many=lambda _: no_such_book())

        assert statuses(service, [A, B], bulk_size=2) == [(A, "not_found"), (B, "not_found")]
        assert service.batches == [[A, B]]

    def test_404_is_the_limit_once_bulk_requests_have_worked(self) -> None:
        service = Service(many=lambda isbns: no_such_book() if C in isbns and seconds() < 9 else books(isbns))

        assert {status for _, status in statuses(service, [A, B, C, D], bulk_size=2)} == {"found"}
        assert (service.batches, service.asked) == ([[A, B], [C, D], [C, D]], [])

    def test_key_that_is_refused_after_bulk_requests_have_worked_ends_the_list(self) -> None:
        service = Service(many=lambda isbns: replied({}, 403) if C in isbns else books(isbns), latency=0.01)

        error, _ = refused(service, [A, B, C, D], bulk_size=2, rate=0.5)

        assert isinstance(error, PermissionDeniedError)
        assert (error.path, service.asked) == ("/books", [])


class TestOddReplies:
    @pytest.mark.parametrize("odd", [{"book": {}}, {"book": None}, {"book": [1]}, {"book": {"isbn13": CANARY}}])
    def test_odd_reply_costs_its_row_only_and_is_never_found(self, odd: dict[str, Any]) -> None:
        service = Service(lambda isbn: replied(odd) if isbn == B else found(isbn))

        assert statuses(service, [A, B, C]) == [(A, "found"), (B, "failed"), (C, "found")]

    @pytest.mark.parametrize("odd", [None, {}, "x", {"title": "of no book"}, {"isbn13": CANARY}])
    def test_odd_record_in_a_bulk_reply_costs_no_row(self, odd: object) -> None:
        missing = no_such_book()
        service = Service(
            lambda isbn: missing if isbn == B else found(isbn),
            many=lambda _: replied({"total": 3, "data": [{"isbn13": A}, odd, {"isbn13": D}]}),
        )

        # The book that is left out and missing says nothing of the one whose record was odd.
        rows = statuses(service, [A, B, C, D], bulk_size=4)
        assert rows == [(isbn, "not_found" if isbn == B else "found") for isbn in (A, B, C, D)]


class TestAServiceThatHasNeverAnswered:
    def unreachable(self, failure: Failure) -> Callable[[str], Response]:
        def answer(_: str) -> Response:
            raise TransportError(failure, "Connection refused")

        return answer

    @pytest.mark.parametrize("failure", [Failure.NOT_SENT, Failure.TLS, Failure.BROKEN])
    @pytest.mark.parametrize("bulk_size", [1, 10])
    def test_service_that_has_never_answered_ends_the_list_after_the_tries_of_the_first_request(
        self, failure: Failure, bulk_size: int
    ) -> None:
        answer = self.unreachable(failure)
        service = Service(answer, many=lambda _: answer(""))

        error, last = refused(service, ISBNS[:99], tries=3, rate=0.1, bulk_size=bulk_size)

        assert isinstance(error, ConnectionFailedError)
        assert error.temporary
        assert len(service.times) == 3
        assert not last.done

    def test_service_that_has_never_answered_ends_the_list_within_half_a_minute(self) -> None:
        # As long as a connection to an address that swallows everything takes to fail.
        service = Service(self.unreachable(Failure.NOT_SENT), latency=10.0)

        async def lasted() -> float:
            with pytest.raises(ConnectionFailedError):
                await follow(batch_of(service, map(IsbnRow.of, ISBNS[:99]), tries=50), [])
            return seconds()

        assert 10 < in_virtual_time(lasted()) <= 31

    @pytest.mark.parametrize("reply", [found(A), DOWN, limit_404(), replied({}, 400)])
    def test_service_that_has_given_any_answer_is_waited_for(self, reply: Response) -> None:
        lost = self.unreachable(Failure.NOT_SENT)
        service = Service(lambda isbn: reply if isbn == A else lost(isbn) if 0.1 < seconds() < 9 else found(isbn))

        assert dict(statuses(service, [A, B, C], retry_after=(20.0,)))[B] == "found"


def test_an_update_says_what_a_list_stands_still_for_until_a_book_is_found() -> None:
    service = Service(lambda isbn: DOWN if 1 < seconds() < 30 else found(isbn))
    updates: list[BatchUpdate] = []

    in_virtual_time(follow(batch_of(service, map(IsbnRow.of, ISBNS[:40]), tries=4), updates))

    causes = [update.trouble for update in updates]
    assert causes[0] is None
    assert any(cause and "503" in cause for cause in causes)
    assert causes[-1] is None
