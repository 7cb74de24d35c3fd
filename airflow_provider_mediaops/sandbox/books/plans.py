"""The plans of the book database: one base address, one key and one rate each."""

from __future__ import annotations

from dataclasses import dataclass


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
