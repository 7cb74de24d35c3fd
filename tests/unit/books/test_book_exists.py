from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.book_exists import BookWatch
from airflow_provider_mediaops.books.isbn import InvalidIsbnError
from airflow_provider_mediaops.books.lookup import Finder
from airflow_provider_mediaops.exceptions import AuthenticationError, QuotaExceededError
from airflow_provider_mediaops.waiting import Done, Verdict, Waiting
from tests.unit.book_database import CRIME, PROGRAMMING, book, found, limit_404, no_such_book, replied
from tests.unit.books.clients import client
from tests.unit.call_flows import replay

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response


def look(*replies: Response) -> Verdict:
    return replay(BookWatch("0-14-044913-2").look(Finder(client(), PROGRAMMING).ask), replies)


def test_watch_is_done_with_the_record() -> None:
    assert look(found(CRIME)) == Done(book(CRIME)["book"])


def test_watch_waits_while_there_is_no_record() -> None:
    assert look(no_such_book(), found(PROGRAMMING)) == Waiting(f"no record of {CRIME}")


def test_watch_waits_where_a_404_may_mean_the_limit_and_need_not_know() -> None:
    assert look(limit_404(), found(PROGRAMMING)) == Waiting(f"no record of {CRIME}, or the key's limit is reached")


@pytest.mark.parametrize(
    ("status", "message", "cls"), [(401, "", AuthenticationError), (403, "daily quota", QuotaExceededError)]
)
def test_refusal_of_the_service_is_an_error(status: int, message: str, cls: type[Exception]) -> None:
    with pytest.raises(cls):
        look(replied({"message": message}, status))


def test_an_isbn_that_is_none_cannot_be_waited_for() -> None:
    with pytest.raises(InvalidIsbnError):
        BookWatch("9780131103628")


def test_nul_is_left_out_because_databases_refuse_it() -> None:
    record = {"title": "a\0b", "n\0": [{"deep": "\0"}, 1, None]}

    assert look(replied({"book": record})) == Done({"title": "ab", "n": [{"deep": ""}, 1, None]})


def test_the_largest_fields_of_a_large_record_are_left_out() -> None:
    record: dict[str, Any] = {"isbn13": CRIME, "synopsis": "s" * 20_000, "prices": [1] * 20_000, "title": "t" * 9_000}

    verdict = look(replied({"book": record}))

    assert isinstance(verdict, Done)
    assert verdict.value == {name: record[name] for name in ("isbn13", "synopsis", "title")}
    assert len(json.dumps(verdict.value)) <= 32 * 1024
