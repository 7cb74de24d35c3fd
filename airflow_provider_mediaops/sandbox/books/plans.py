"""The plans of the book database: one base address, one key and one rate each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """
    A plan of the book database.

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
#: A key that was active once.
INACTIVE_KEY = "sandbox-books-inactive-key"

_PLAN_OF_KEY = {plan.key: plan for plan in PLANS}


def plan_of_key(key: str) -> Plan | None:
    """
    Return the plan to which a key belongs.

    :param key: the value of the ``Authorization`` header.
    :returns: the plan, or None if no account has this key.
    """
    return _PLAN_OF_KEY.get(key)


def plan_of_path(path: str) -> Plan:
    """
    Return the plan to whose base address a request went.

    :param path: the request's path, which begins with ``/books``.
    :returns: the plan.
    """
    return next((plan for plan in (PREMIUM, PRO) if f"{path}/".startswith(f"{plan.root}/")), DEFAULT)
