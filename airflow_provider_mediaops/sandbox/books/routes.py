"""The book database: one address a plan, one limit a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.sandbox.books import catalogue
from airflow_provider_mediaops.sandbox.books.isbn import is_isbn13
from airflow_provider_mediaops.sandbox.reading import described, from_body
from airflow_provider_mediaops.sandbox.refusals import books_refusal
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState


@dataclass(frozen=True, slots=True)
class Plan:
    """What a plan grants (book specification, section 8).

    :param name: the plan's name.
    :param root: the path of its base address.
    :param key: the key of the sandbox's account with this plan.
    :param requests_per_second: over all endpoints.
    :param bulk_size: ISBNs that one bulk request may hold.
    """

    name: str
    root: str
    key: str
    requests_per_second: int
    bulk_size: int


DEFAULT = Plan("default", "/books", "sandbox-books-default-key", requests_per_second=1, bulk_size=10)
PREMIUM = Plan("premium", "/books/premium", "sandbox-books-premium-key", requests_per_second=3, bulk_size=100)
PRO = Plan("pro", "/books/pro", "sandbox-books-pro-key", requests_per_second=5, bulk_size=1_000)
PLANS = (DEFAULT, PREMIUM, PRO)
#: A key that was good once.
INACTIVE_KEY = "sandbox-books-inactive-key"

_PLAN_OF_KEY = {plan.key: plan for plan in PLANS}

#: The endpoints of one plan, to be included under the plan's ``root``.
router = APIRouter(tags=["book database"])


class BulkBody(BaseModel):
    """The ISBNs of a bulk request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    isbns: list[str] = Field(min_length=1, description="ISBN-13s.")


async def _admit(request: Request, sandbox: Sandbox) -> Plan:
    """Check the key, then its limits (book specification, sections 5, 7 and 8)."""
    path = request.url.path
    plan = next((plan for plan in (PREMIUM, PRO) if path.startswith(f"{plan.root}/")), DEFAULT)
    key = request.headers.get("Authorization")
    if key is None:
        raise books_refusal(401, "The Authorization header is missing. A key in the address is not looked at.")
    if key == INACTIVE_KEY:
        raise books_refusal(401, "The key is not active.")
    if key not in _PLAN_OF_KEY:
        raise books_refusal(403, "Access denied: the key is not known.")
    if key != plan.key:
        owner = _PLAN_OF_KEY[key].name
        raise books_refusal(403, f"Access denied: the key's plan is {owner}, this address is for {plan.name}.")
    if not sandbox.books_rate.admit(key, limit=plan.requests_per_second, now=sandbox.clock.now()):
        raise sandbox.limit_refusal("books")
    _spend(sandbox, plan, 1)
    return plan


def _spend(sandbox: SandboxState, plan: Plan, units: int) -> None:
    limit = sandbox.settings.books_daily_requests
    if not sandbox.books_quota.spend(plan.key, units=units, limit=limit, now=sandbox.clock.now()):
        raise books_refusal(403, "Daily quota exceeded. It starts anew at 00:00 UTC.")


AdmittedPlan = Annotated[Plan, Depends(_admit)]


@router.get("/book/{isbn}", dependencies=[Depends(_admit)])
async def one_book(isbn: str) -> dict[str, Any]:
    """Give the record of a book (book specification, section 4)."""
    if not is_isbn13(isbn):
        raise books_refusal(400, f"{isbn} is not a valid 13-digit ISBN.")
    record = catalogue.book(isbn)
    if record is None:
        raise books_refusal(404, "Not Found", error_message=f"No book has the ISBN {isbn}.")
    return {"book": record}


@router.get("/key")
async def quota(request: Request, plan: AdmittedPlan, sandbox: Sandbox) -> dict[str, Any]:
    """Tell what is left of the key's quota today."""
    total = sandbox.settings.books_daily_requests
    spent = sandbox.books_quota.spent(plan.key, now=sandbox.clock.now())
    return {
        "api_host": f"{request.url.netloc}{plan.root}",
        "plan_limit": {"total": total, "spent": spent, "left": total - spent},
    }


@router.post("/books", openapi_extra=described(body=BulkBody))
async def many_books(
    plan: AdmittedPlan, wanted: Annotated[BulkBody, from_body(BulkBody)], sandbox: Sandbox
) -> dict[str, Any]:
    """Give many records at once; unknown ISBNs are left out. Each ISBN counts against the day's quota."""
    if len(wanted.isbns) > plan.bulk_size:
        raise books_refusal(400, f"At most {plan.bulk_size} ISBNs a request with the plan {plan.name}.")
    _spend(sandbox, plan, len(wanted.isbns) - 1)
    valid = [isbn for isbn in dict.fromkeys(wanted.isbns) if is_isbn13(isbn)]
    found = [record for record in map(catalogue.book, valid) if record]
    return {"total": len(found), "requested": len(wanted.isbns), "data": found}
