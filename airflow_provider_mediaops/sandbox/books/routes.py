"""The endpoints of the book database, the same for each plan: one base address, one key and one rate each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.sandbox.books import catalogue
from airflow_provider_mediaops.sandbox.refusals import books_refusal
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of the book database: the path of its base address, the key of the sandbox's account, and its limits."""

    name: str
    root: str
    key: str
    requests_per_second: int
    # ISBNs that one bulk request may hold.
    bulk_size: int


DEFAULT = Plan("default", "/books", "sandbox-books-default-key", requests_per_second=1, bulk_size=10)
PREMIUM = Plan("premium", "/books/premium", "sandbox-books-premium-key", requests_per_second=3, bulk_size=100)
PRO = Plan("pro", "/books/pro", "sandbox-books-pro-key", requests_per_second=5, bulk_size=1_000)
PLANS = (DEFAULT, PREMIUM, PRO)
#: A key that was active once.
INACTIVE_KEY = "sandbox-books-inactive-key"


def plan_of_path(path: str) -> Plan:
    """Return the plan to whose base address a request went."""
    return next((plan for plan in (PREMIUM, PRO) if path.startswith(f"{plan.root}/")), DEFAULT)


#: The endpoints of one plan, to be included under the plan's ``root``.
router = APIRouter(tags=["book database"])


class BulkBody(BaseModel):
    """The ISBNs of a bulk request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    isbns: list[str] = Field(min_length=1, description="ISBNs of 13 or 10 digits.")


async def _admit(request: Request, sandbox: Sandbox) -> Plan:
    """Check the key of a request, then its limits; the rate counts after the quota, as on the real service."""
    plan = plan_of_path(request.url.path)
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
    isbn13 = catalogue.as_isbn13(isbn)
    if isbn13 is None:
        raise books_refusal(400, f"{isbn} is not a valid ISBN of 13 or 10 digits.")
    record = catalogue.book(isbn13)
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
    valid = dict.fromkeys(isbn13 for isbn in wanted.isbns if (isbn13 := catalogue.as_isbn13(isbn)))
    found = [record for record in map(catalogue.book, valid) if record]
    return {"total": len(found), "requested": len(wanted.isbns), "data": found}
