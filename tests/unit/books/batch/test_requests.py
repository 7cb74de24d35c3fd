"""The call flows of a walk: one book, a probe, and many books in one request."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.batch.requests import BatchRequests, Job, JobResult
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
from airflow_provider_mediaops.http.exchange import Failure, Response, TransportError
from airflow_provider_mediaops.sandbox.books.isbn import isbn10_of, sample_isbns
from tests.unit.book_database import found, limit_404, no_such_book, replied
from tests.unit.books.clients import client
from tests.unit.call_flows import replay, requests_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.http.exchange import Step

ISBNS = sample_isbns(8)
A, B, C, D = ISBNS[:4]
LOST = TransportError(Failure.BROKEN, "the line is cut")
SLOW = TransportError(Failure.TIMEOUT, "no reply within the time limit")
HUGE = TransportError(Failure.TOO_LARGE, "the reply is larger than 9 bytes")
DAILY = replied({"message": "Daily quota exceeded"}, 403)


def books(*isbns: str, **fields: Any) -> Response:
    """Give the reply to a bulk request."""
    records = [{"isbn13": isbn, "title": isbn} for isbn in isbns]
    return replied({"total": len(records), "data": records, **fields})


class Desk:
    """Someone who asks, and what was asked."""

    def __init__(self, *, tries: int = 2) -> None:
        self.asking = BatchRequests(client(tries=tries), 8)
        self.steps: list[Step] = []
        self._numbers = itertools.count(1)

    def ask(self, isbns: Sequence[str], *replies: Response | TransportError, is_probe: bool = False) -> JobResult:
        flow = self.asking.perform(Job(tuple(isbns), is_probe), lambda _: next(self._numbers))
        return replay(flow, replies, steps=self.steps)

    @property
    def asked(self) -> list[list[str]]:
        """The ISBNs of each request."""
        bodies = ((request.path, request.body) for request in requests_of(self.steps))
        return [json.loads(body)["isbns"] if body else [path.rpartition("/")[2]] for path, body in bodies]


class TestOneBook:
    def test_a_record_is_an_answer(self) -> None:
        answer = Desk().ask([A], found(A))

        assert {isbn: book.isbn13 for isbn, book in answer.found.items()} == {A: A}
        assert answer.number == 1

    def test_the_number_is_that_of_the_request_that_was_answered(self) -> None:
        assert Desk().ask([A], LOST, found(A)).number == 2

    @pytest.mark.parametrize("reply", [no_such_book(), limit_404()])
    def test_a_404_is_left_to_the_judge(self, reply: Response) -> None:
        answer = Desk().ask([A], reply, is_probe=True)

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
        desk.ask([B], found(B))

        assert type(desk.ask([A], reply).failed[A]) is cls

    @pytest.mark.parametrize(("isbns", "reply"), [([A], found(A)), ([A, B], books(A, B))])
    def test_a_limit_that_was_waited_out_is_told(self, isbns: list[str], reply: Response) -> None:
        assert Desk().ask(isbns, replied({"message": "Limit Exceeded"}, 429), reply).limited
        assert not Desk().ask(isbns, LOST, reply).limited

    @pytest.mark.parametrize(("isbns", "is_probe"), [([A], False), ([A, B], False), ([A], True)])
    @pytest.mark.parametrize(("reply", "cls"), [(replied({}, 401), AuthenticationError), (DAILY, QuotaExceededError)])
    def test_reply_about_the_key_is_an_error(
        self, isbns: list[str], reply: Response, cls: type[MediaOpsError], *, is_probe: bool
    ) -> None:
        with pytest.raises(cls):
            Desk().ask(isbns, reply, is_probe=is_probe)


class TestManyBooks:
    def test_one_request_asks_for_all_of_them(self) -> None:
        desk = Desk()

        answer = desk.ask([A, B, C], books(C, A))

        assert (set(answer.found), answer.left_out) == ({A, C}, [B])
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
        answer = Desk().ask([A, B], replied({"data": [record]}))

        assert {isbn: dict(book.record) for isbn, book in answer.found.items()} == {A: record}

    @pytest.mark.parametrize("odd", [None, {}, "x", {"isbn13": D}, {"title": "of no book"}])
    def test_of_a_reply_that_also_holds_something_odd_each_other_book_is_asked_for_by_itself(self, odd: object) -> None:
        answer = Desk().ask([A, B, C], replied({"total": 2, "data": [{"isbn13": A}, odd]}))

        assert (list(answer.found), answer.left_out, answer.parts) == ([A], (), [[B], [C]])

    def test_a_lost_reply_is_asked_for_again(self) -> None:
        desk = Desk()

        assert set(desk.ask([A, B], LOST, books(A, B)).found) == {A, B}
        assert desk.asked == [[A, B], [A, B]]

    @pytest.mark.parametrize(
        ("reply", "size"),
        [
            (replied({"message": "too large"}, 500), 8),
            (SLOW, 8),
            (HUGE, 8),
            # One of the books may be what is wrong.
            (replied({"message": "At most 2 ISBNs a request."}, 400), 8),
            (replied({"message": "At most 2 ISBNs a request."}, 413), 1),
        ],
    )
    def test_a_batch_that_is_too_much_is_halved_at_once(self, reply: Response | TransportError, size: int) -> None:
        desk = Desk()

        answer = desk.ask([A, B, C], reply)

        assert (answer.parts, answer.failed, desk.asking.bulk_size) == ([(A,), (B, C)], {}, size)
        assert len(desk.asked) == 1

    def test_a_reply_that_looked_for_fewer_says_nothing_of_the_rest(self) -> None:
        desk = Desk()

        answer = desk.ask(ISBNS[:5], books(*ISBNS[:2], requested=2))

        assert (set(answer.found), answer.left_out, answer.unasked) == (set(ISBNS[:2]), (), ISBNS[2:5])
        assert desk.asking.bulk_size == 2

    def test_a_reply_with_fewer_books_than_it_says_is_not_believed(self) -> None:
        answer = Desk().ask([A, B], replied({"total": 2, "data": [{"isbn13": A}]}))

        assert {isbn: type(error) for isbn, error in answer.failed.items()} == dict.fromkeys([A, B], InvalidReplyError)


class TestAServiceWithoutBulk:
    @pytest.mark.parametrize(
        "reply",
        [
            *(replied({"message": "no"}, status) for status in (403, 405, 410, 501)),
            no_such_book(),
            replied({"message": "no Route matched"}, 404),
            replied(b"<html>404</html>", 404),
        ],
    )
    def test_service_that_says_it_has_no_bulk_requests_is_believed(self, reply: Response) -> None:
        desk = Desk(tries=1)

        assert desk.ask([A, B], reply) == JobResult(1, unasked=(A, B))
        assert desk.asking.bulk_size == 1

    @pytest.mark.parametrize("single", [found(A), limit_404()])
    def test_a_404_in_the_words_of_the_limit_is_believed_where_a_book_is_found(self, single: Response) -> None:
        desk = Desk()

        answer = desk.ask([A, B], limit_404(), single)

        is_believed = single.status == 200
        assert desk.asking.bulk_size == (1 if is_believed else 8)
        assert (list(answer.found), list(answer.unasked)) == (([A], [B]) if is_believed else ([], []))
        assert [type(error) for error in answer.failed.values()] == ([] if is_believed else [RateLimitedError] * 2)
        assert desk.asked == [[A, B], [A]]

    def test_once_it_has_worked_a_404_is_the_limit_and_a_refused_key_an_error(self) -> None:
        desk = Desk()
        desk.ask([A, B], books(A, B))

        assert set(desk.ask([C, D], no_such_book()).failed) == {C, D}
        assert desk.asking.bulk_size == 8
        with pytest.raises(PermissionDeniedError, match="POST /books"):
            desk.ask([C, D], replied({"message": "Forbidden"}, 403))
