"""The call flows of a walk: one book, a probe, and many books in one request."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.batch.jobs import Job, JobResult
from airflow_provider_mediaops.books.batch.requests import BatchRequests
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    ConnectionFailedError,
    InvalidReplyError,
    MediaOpsError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ReplyTimeoutError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError
from airflow_provider_mediaops.sandbox.books.catalogue import isbn10_of, sample_isbns
from tests.unit.book_database import found, limit_404, no_such_book, replied
from tests.unit.books.clients import client
from tests.unit.call_flows import replay, requests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_mediaops.http.exchange import Step

ISBNS = sample_isbns(8)
A, B, C, D = ISBNS[:4]
LOST = TransportError(Failure.BROKEN, "the line is cut")
SLOW = TransportError(Failure.TIMEOUT, "no reply within the time limit")
HUGE = TransportError(Failure.TOO_LARGE, "the reply is larger than 9 bytes")
DAILY = replied({"message": "Daily quota exceeded"}, 403)
REFUSED = replied({"message": "At most 2 ISBNs a request."}, 400)


class Desk:
    """Someone who asks, and what was asked."""

    def __init__(self, *, batch: int = 8, tries: int = 2) -> None:
        self.asking = BatchRequests(client(tries=tries), batch)
        self.steps: list[Step] = []
        self._numbers = itertools.count(1)

    def ask(self, kind: Any, isbns: Sequence[str], *replies: Response | TransportError) -> JobResult:
        flow = self.asking.perform(Job(kind, tuple(isbns)), lambda _: next(self._numbers))
        return replay(flow, replies, steps=self.steps)

    def ask_with(self, kind: Any, isbns: Sequence[str], service: Callable[[list[str]], Response]) -> JobResult:
        """Ask a service that answers by what it is asked for."""
        flow = self.asking.perform(Job(kind, tuple(isbns)), lambda _: next(self._numbers))
        try:
            step = next(flow)
            while True:
                self.steps.append(step)
                step = flow.send(service(wanted(step)) if isinstance(step, Request) else None)
        except StopIteration as stop:
            answer: JobResult = stop.value
            return answer

    @property
    def asked(self) -> list[list[str]]:
        return [wanted(request) for request in requests_of(self.steps)]


def wanted(request: Request) -> list[str]:
    """Give the ISBNs that a request asks for."""
    if request.body is None:
        return [request.path.rpartition("/")[2]]
    isbns: list[str] = json.loads(request.body)["isbns"]
    return isbns


def books(*isbns: str, **fields: Any) -> Response:
    """Give the reply to a bulk request."""
    records = [{"isbn13": isbn, "title": isbn} for isbn in isbns]
    return replied({"total": len(records), "data": records, **fields})


class TestOneBook:
    def test_a_record_is_an_answer(self) -> None:
        answer = Desk().ask("one", [A], found(A))

        assert {isbn: book.isbn13 for isbn, book in answer.found.items()} == {A: A}
        assert answer.number == 1

    def test_the_number_is_that_of_the_request_that_was_answered(self) -> None:
        assert Desk().ask("one", [A], LOST, found(A)).number == 2

    @pytest.mark.parametrize("reply", [no_such_book(), limit_404()])
    def test_a_404_is_left_to_the_judge(self, reply: Response) -> None:
        answer = Desk().ask("probe", [A], reply)

        assert answer.missing[A].status == 404
        assert not answer.failed

    @pytest.mark.parametrize(
        ("reply", "cls"),
        [
            (replied(b"", 503), ServiceUnavailableError),
            (replied({"message": "Limit Exceeded"}, 429), RateLimitedError),
            (LOST, ConnectionFailedError),
            (SLOW, ReplyTimeoutError),
            (replied(b"<html>"), InvalidReplyError),
            (replied({"book": {}}), InvalidReplyError),
            (found(B), InvalidReplyError),
            (replied({}, 400), BadRequestError),
        ],
    )
    def test_book_that_the_service_left_out_is_an_answer_too(
        self, reply: Response | TransportError, cls: type[MediaOpsError]
    ) -> None:
        desk = Desk(tries=1)
        desk.ask("one", [B], found(B))

        assert type(desk.ask("one", [A], reply).failed[A]) is cls

    @pytest.mark.parametrize("kind", ["one", "many"])
    def test_a_limit_that_was_waited_out_is_told(self, kind: str) -> None:
        reply = found(A) if kind == "one" else books(A)

        assert Desk().ask(kind, [A], replied({"message": "Limit Exceeded"}, 429), reply).limited
        assert not Desk().ask(kind, [A], LOST, reply).limited

    @pytest.mark.parametrize("kind", ["one", "many", "probe"])
    @pytest.mark.parametrize(("reply", "cls"), [(replied({}, 401), AuthenticationError), (DAILY, QuotaExceededError)])
    def test_reply_about_the_key_is_an_error(self, kind: str, reply: Response, cls: type[MediaOpsError]) -> None:
        with pytest.raises(cls):
            Desk().ask(kind, [A], reply)


class TestManyBooks:
    def test_one_request_asks_for_all_of_them(self) -> None:
        desk = Desk()

        answer = desk.ask("many", [A, B, C], books(C, A))

        assert set(answer.found) == {A, C}
        assert answer.left_out == [B]
        [request] = requests_of(desk.steps)
        assert (request.method, request.path, desk.asked) == ("POST", "/books", [[A, B, C]])
        assert request.headers["Content-Type"] == "application/json"

    @pytest.mark.parametrize(
        "record",
        [
            {"isbn13": A},
            {"isbn": A},
            {"isbn": isbn10_of(A)},
            {"isbn10": isbn10_of(A), "isbn13": ""},
            {"isbn13": int(A)},
            {"isbn": "none", "isbn13": f"ISBN {A}"},
        ],
    )
    def test_a_record_is_known_by_its_isbn_in_either_form(self, record: dict[str, Any]) -> None:
        answer = Desk().ask("many", [A, B], replied({"data": [record, {"title": "of no book"}]}))

        assert {isbn: dict(book.record) for isbn, book in answer.found.items()} == {A: record}
        # The other record may be that of the other book.
        assert (answer.left_out, answer.alone) == ((), [B])

    @pytest.mark.parametrize("odd", [None, {}, "x", {"isbn13": D}])
    def test_of_a_reply_that_also_holds_something_odd_each_other_book_is_asked_for_by_itself(self, odd: object) -> None:
        answer = Desk().ask("many", [A, B, C], replied({"total": 2, "data": [{"isbn13": A}, odd]}))

        assert (list(answer.found), answer.left_out, answer.alone) == ([A], (), [B, C])

    def test_a_lost_reply_is_asked_for_again(self) -> None:
        desk = Desk()

        assert set(desk.ask("many", [A, B], LOST, books(A, B)).found) == {A, B}
        assert desk.asked == [[A, B], [A, B]]

    @pytest.mark.parametrize("reply", [replied({"message": "too large"}, 500), SLOW, HUGE])
    def test_a_batch_that_is_too_much_is_halved_at_once(self, reply: Response | TransportError) -> None:
        desk = Desk()

        answer = desk.ask("many", [A, B, C], reply, books(A), books(B), books(C))

        assert set(answer.found) == {A, B, C}
        assert desk.asked == [[A, B, C], [A], [B], [C]]
        # It was about the size of these records, not about the number of books.
        assert desk.asking.bulk_size == 8

    def test_halving_goes_down_to_one_book_which_then_has_failed(self) -> None:
        desk = Desk(tries=1)
        heavy = replied({}, 500)

        answer = desk.ask_with("many", [A, B, C, D], lambda isbns: heavy if B in isbns else books(*isbns))

        assert set(answer.found) == {A, C, D}
        assert set(answer.failed) == {B}
        assert desk.asked == [[A, B, C, D], [A, B], [A], [B], [C, D]]

    @pytest.mark.parametrize("status", [400, 413])
    def test_a_plan_that_takes_fewer_is_learned(self, status: int) -> None:
        desk = Desk(batch=8)
        refused = replied({"message": "At most 2 ISBNs a request."}, status)

        answer = desk.ask_with("many", ISBNS, lambda isbns: refused if len(isbns) > 2 else books(*isbns))

        assert set(answer.found) == set(ISBNS)
        assert desk.asking.bulk_size == 2

    def test_one_bad_book_does_not_make_the_batches_smaller(self) -> None:
        desk = Desk(batch=8)

        answer = desk.ask_with("many", ISBNS, lambda isbns: REFUSED if C in isbns else books(*isbns))

        assert set(answer.failed) == {C}
        assert len(answer.found) == 7
        assert desk.asking.bulk_size == 8

    def test_a_reply_that_looked_for_fewer_says_nothing_of_the_rest(self) -> None:
        desk = Desk(batch=8)

        answer = desk.ask_with("many", ISBNS[:5], lambda isbns: books(*isbns[:2], requested=min(2, len(isbns))))

        assert set(answer.found) == set(ISBNS[:5])
        assert answer.left_out == []
        assert desk.asked == [ISBNS[:5], ISBNS[2:4], ISBNS[4:5]]
        assert desk.asking.bulk_size == 2

    def test_a_reply_with_fewer_books_than_it_says_is_not_believed(self) -> None:
        answer = Desk().ask("many", [A], replied({"total": 2, "data": [{"isbn13": A}]}))

        assert isinstance(answer.failed[A], InvalidReplyError)

    def test_books_that_the_service_left_out_are_so_for_all_rows(self) -> None:
        answer = Desk(tries=1).ask("many", [A, B], replied(b"", 503))

        assert set(answer.failed) == {A, B}

    def test_a_quota_that_ends_between_two_halves_loses_nothing(self) -> None:
        answer = Desk().ask("many", [A, B, C, D], replied({}, 500), books(A, B), DAILY)

        assert set(answer.found) == {A, B}
        assert (answer.unasked, answer.failed) == ([C, D], {})

    def test_a_key_that_is_refused_is_an_error_also_in_the_first_half(self) -> None:
        with pytest.raises(AuthenticationError):
            Desk().ask("many", [A, B], replied({}, 500), replied({}, 401))


class TestAServiceWithoutBulk:
    @pytest.mark.parametrize("status", [405, 410, 501])
    def test_service_that_says_it_has_no_bulk_requests_is_believed(self, status: int) -> None:
        answer = Desk(tries=1).ask("many", [A, B], replied({"message": "no"}, status))

        assert answer == JobResult(1, unasked=(A, B), no_bulk=True)

    @pytest.mark.parametrize("reply", [no_such_book(), limit_404(), replied(b"<html>404</html>", 404)])
    def test_a_404_is_believed_where_a_book_is_found(self, reply: Response) -> None:
        desk = Desk()

        answer = desk.ask("many", [A, B], reply, found(A))

        assert answer.no_bulk
        assert (set(answer.found), answer.unasked) == ({A}, [B])
        assert desk.asked == [[A, B], [A]]

    @pytest.mark.parametrize("reply", [found(A), no_such_book(), limit_404(), replied(b"", 503)])
    def test_a_key_that_is_good_for_single_books_is_used_for_these(self, reply: Response) -> None:
        desk = Desk(tries=1)

        answer = desk.ask("many", [A, B], replied({"message": "Forbidden"}, 403), reply)

        assert answer.no_bulk
        assert [*answer.found, *answer.missing, *answer.unasked] == [A, B]
        assert (answer.failed, desk.asked) == ({}, [[A, B], [A]])

    def test_a_key_that_is_refused_is_so_for_single_books_too(self) -> None:
        forbidden = replied({"message": "Forbidden"}, 403)
        with pytest.raises(PermissionDeniedError, match="GET /book/"):
            Desk().ask("many", [A, B], forbidden, forbidden)

    def test_a_key_that_is_refused_later_is_not_asked_with_again(self) -> None:
        desk = Desk()
        desk.ask("many", [A, B], books(A, B))

        with pytest.raises(PermissionDeniedError, match="POST /books"):
            desk.ask("many", [C, D], replied({"message": "Forbidden"}, 403))

    @pytest.mark.parametrize("reply", [no_such_book(), replied({"message": "no Route matched"}, 404)])
    def test_a_404_in_other_words_than_the_limits_is_believed_and_the_books_own_is_kept(self, reply: Response) -> None:
        answer = Desk().ask("many", [A, B], reply, reply)

        assert answer.no_bulk
        assert (list(answer.missing), answer.unasked) == ([A], [B])

    @pytest.mark.parametrize("reply", [no_such_book(), limit_404()])
    def test_a_404_that_may_be_the_limit_is_not(self, reply: Response) -> None:
        answer = Desk().ask("many", [A, B], reply, limit_404())

        assert not answer.no_bulk
        assert {type(error) for error in answer.failed.values()} == {RateLimitedError}

    def test_once_it_has_worked_a_404_is_the_limit(self) -> None:
        desk = Desk()
        desk.ask("many", [A, B], books(A, B))

        answer = desk.ask("many", [C, D], no_such_book())

        assert not answer.no_bulk
        assert set(answer.failed) == {C, D}
