"""The stand-in for the book database: plans with their keys and limits, and records as uneven as the real ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from stdnum import ean, isbn  # noqa: TID253 - no DAG file has to load the sandbox

from airflow_provider_mediaops.sandbox.refusals import books_refusal
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState


class Plan(NamedTuple):
    """A plan of the book database: the path of its base address, the key of the sandbox's account, and its limits."""

    name: str
    root: str
    key: str
    requests_per_second: int
    bulk_size: int  # the ISBNs that one bulk request may hold


DEFAULT = Plan("default", "/books", "sandbox-books-default-key", requests_per_second=1, bulk_size=10)
PREMIUM = Plan("premium", "/books/premium", "sandbox-books-premium-key", requests_per_second=3, bulk_size=100)
PRO = Plan("pro", "/books/pro", "sandbox-books-pro-key", requests_per_second=5, bulk_size=1_000)
PLANS = (DEFAULT, PREMIUM, PRO)
#: A key that was active once.
INACTIVE_KEY = "sandbox-books-inactive-key"

#: Every valid ISBN that begins so has a record.
_GENERATED_PREFIX = "97800"
_GENERATED = 10_000_000
# Numbers that begin with 979-0 belong to printed music.
_OF_A_BOOK = re.compile("97(8[0-9]|9[1-9])[0-9]{9}|[0-9]{9}[0-9X]")


class _Facts(NamedTuple):
    title: str
    authors: tuple[str, ...]
    publisher: str
    year: int


_KNOWN = {
    "9780131103627": _Facts(
        "The C Programming Language", ("Kernighan, Brian W.", "Ritchie, Dennis M."), "Prentice Hall", 1988
    ),
    "9780140449136": _Facts("Crime and Punishment", ("Dostoyevsky, Fyodor",), "Penguin Classics", 2003),
    "9780306406157": _Facts("The ISBN of Examples", ("Example, Ann", "Sample, Bo"), "Sandbox Press", 1980),
}
#: The well-known ISBNs that have a record.
KNOWN_ISBNS = tuple(_KNOWN)

_OPTIONAL = ("title_long", "authors", "publisher", "language", "binding", "pages", "date_published", "msrp", "subjects")
#: What may be odd about a record, in words, with the fields that are written otherwise; None leaves one out.
ODDITIES: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "`isbn` is an ISBN-13": lambda book: {"isbn": book["isbn13"]},
    "`title` ends with a NUL byte": lambda book: {"title": f"{book['title']}\0"},
    "`authors` is an object with numeric keys": lambda book: {"authors": _with_numeric_keys(book["authors"])},
    "`authors` is a list that holds null": lambda book: {"authors": [*book["authors"], None]},
    "`subjects` is an object with numeric keys": lambda book: {"subjects": _with_numeric_keys(book["subjects"])},
    "`language` is `en_US`": lambda _: {"language": "en_US"},
    "`language` is `eng`": lambda _: {"language": "eng"},
    "`pages` is a text": lambda book: {"pages": str(book["pages"])},
    "`msrp` is a text": lambda book: {"msrp": f"{book['msrp']:.2f}"},
    "`msrp` is 0": lambda _: {"msrp": 0},
    "`date_published` is a day": lambda book: {"date_published": f"{book['date_published']}-03-31"},
    "`date_published` is a month": lambda book: {"date_published": f"{book['date_published']}-03"},
    "`date_published` has a time": lambda book: {"date_published": f"{book['date_published']}-03-31T00:00:01Z"},
    "`date_published` is a number": lambda book: {"date_published": int(book["date_published"])},
    "`date_published` is `-`": lambda _: {"date_published": "-"},
    "`dewey_decimal` is a list": lambda book: {"dewey_decimal": [book["dewey_decimal"], "[Fic]"]},
    "`dimensions` is a list": lambda book: {"dimensions": book["dimensions"].split(", ")},
    "`other_isbns` is there": lambda book: {"other_isbns": [{"isbn": book["isbn13"], "binding": "Audio CD"}]},
    "most fields are absent": lambda _: dict.fromkeys(_OPTIONAL),
}
_STEP = 37

_SUBJECTS = ("Invention", "Patience", "Weather", "Bridges", "Tea")
_BINDINGS = ("Hardcover", "Paperback", "Mass Market Paperback", "Kindle Edition")


def book(isbn13: str) -> dict[str, Any] | None:
    """Return the record of a book, or None. Of a hundred records, each oddity has one."""
    if facts := _KNOWN.get(isbn13):
        return _record(isbn13, facts)
    if not isbn13.startswith(_GENERATED_PREFIX):
        return None
    number = int(isbn13[:12])
    record = _record(isbn13, _generated(number))
    # The step spreads them, so that a short list has some.
    for change in list(ODDITIES.values())[number * _STEP % 100 :][:1]:
        record |= change(record)
    return {field: value for field, value in record.items() if value is not None}


def _generated(number: int) -> _Facts:
    return _Facts(
        title=f"A Short History of {_SUBJECTS[number % 5]}, Part {number % 10_000_000 + 1}",
        authors=tuple(f"Author {number * step % 997}, {name}" for step, name in ((1, "Ada"), (7, "Bo"))),
        publisher=f"Sandbox Press {number % 12 + 1}",
        year=1960 + number % 60,
    )


def _record(isbn13: str, facts: _Facts) -> dict[str, Any]:
    number = int(isbn13[:12])
    return {
        "isbn13": isbn13,
        "isbn": isbn.to_isbn10(isbn13),
        "title": facts.title,
        "title_long": f"{facts.title} ({facts.publisher})",
        "authors": list(facts.authors),
        "publisher": facts.publisher,
        "language": "en",
        "binding": _BINDINGS[number % len(_BINDINGS)],
        "pages": number % 900 + 20,
        "date_published": str(facts.year),
        "msrp": float(f"{number % 40 + 4}.{number % 100:02d}"),
        "dewey_decimal": "823.914",
        "dimensions": "Height: 7.8 Inches, Width: 5.1 Inches",
        "subjects": list(_SUBJECTS[: number % 4 + 1]),
        "image": f"https://images.sandbox.example/books/{isbn13}.jpg",
    }


def _with_numeric_keys(values: list[str]) -> dict[str, str]:
    return {str(place): value for place, value in enumerate(values)}


def as_isbn13(text: str) -> str | None:
    """Return the 13 digits of an ISBN, old or new, that is written without hyphens; None if the text is not one."""
    return isbn.to_isbn13(text) if _OF_A_BOOK.fullmatch(text) and isbn.is_valid(text) else None


def sample_isbns(count: int) -> list[str]:
    """Return up to ten million ISBN-13s that all have a record, all different, always the same ones."""
    if not 0 <= count <= _GENERATED:
        raise ValueError(f"The sandbox has between 0 and {_GENERATED:,} generated ISBNs, not {count:,}.")
    bodies = (f"{_GENERATED_PREFIX}{number:07d}" for number in range(count))
    return [body + ean.calc_check_digit(body) for body in bodies]


#: The endpoints of one plan, to be included under the plan's ``root``.
router = APIRouter(tags=["book database"])


class BulkBody(BaseModel):
    """The ISBNs of a bulk request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    isbns: list[str] = Field(min_length=1, description="ISBNs of 13 or 10 digits.")


async def _admit(request: Request, sandbox: Sandbox) -> Plan:
    """Check the key of a request, then its limits; the rate counts after the quota, as on the real service."""
    path = request.url.path
    plan = next((plan for plan in (PREMIUM, PRO) if path.startswith(f"{plan.root}/")), DEFAULT)
    key = request.headers.get("Authorization")
    if key is None:
        raise books_refusal(401, "The Authorization header is missing. A key in the address is not looked at.")
    if key == INACTIVE_KEY:
        raise books_refusal(401, "The key is not active.")
    owner = next((known for known in PLANS if known.key == key), None)
    if owner is None:
        raise books_refusal(403, "Access denied: the key is not known.")
    if owner is not plan:
        raise books_refusal(403, f"Access denied: the key's plan is {owner.name}, this address is for {plan.name}.")
    _spend(sandbox, plan, 1)
    if not sandbox.books_rate.admit(key, limit=plan.requests_per_second, now=sandbox.clock.now()):
        raise sandbox.limit_refusal("books")
    return plan


AdmittedPlan: TypeAlias = Annotated[Plan, Depends(_admit)]


def _spend(sandbox: SandboxState, plan: Plan, units: int) -> None:
    limit = sandbox.settings.books_daily_requests
    if not sandbox.books_quota.spend(plan.key, units=units, limit=limit, now=sandbox.clock.now()):
        raise books_refusal(403, "Daily quota exceeded. It starts anew at 00:00 UTC.")


@router.get("/book/{isbn}", dependencies=[Depends(_admit)])
async def one_book(isbn: str) -> dict[str, Any]:
    """Return the record of a book."""
    isbn13 = as_isbn13(isbn)
    if isbn13 is None:
        raise books_refusal(400, f"{isbn} is not a valid ISBN of 13 or 10 digits.")
    record = book(isbn13)
    if record is None:
        raise books_refusal(404, "Not Found", error_message=f"No book has the ISBN {isbn}.")
    return {"book": record}


@router.get("/key")
async def quota(request: Request, plan: AdmittedPlan, sandbox: Sandbox) -> dict[str, Any]:
    """Return the rest of the key's quota today."""
    total = sandbox.settings.books_daily_requests
    spent = sandbox.books_quota.spent(plan.key, now=sandbox.clock.now())
    return {
        "api_host": f"{request.url.netloc}{plan.root}",
        "plan_limit": {"total": total, "spent": spent, "left": total - spent},
    }


@router.post("/books")
async def many_books(plan: AdmittedPlan, wanted: BulkBody, sandbox: Sandbox) -> dict[str, Any]:
    """Return many records at once, without unknown ISBNs. Each ISBN counts against the day's quota."""
    if len(wanted.isbns) > plan.bulk_size:
        raise books_refusal(400, f"At most {plan.bulk_size} ISBNs a request with the plan {plan.name}.")
    _spend(sandbox, plan, len(wanted.isbns) - 1)
    valid = dict.fromkeys(isbn13 for text in wanted.isbns if (isbn13 := as_isbn13(text)))
    found = [record for record in map(book, valid) if record]
    return {"total": len(found), "requested": len(wanted.isbns), "data": found}
