"""The plans of the book database: what a key may ask for."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """
    What a key of a plan may ask for.

    :param requests_per_second: its rate.
    :param bulk_size: the ISBNs that one bulk request may hold; the specification does not say it.
    """

    requests_per_second: float
    bulk_size: int


PLANS = {"default": Plan(1.0, 10), "premium": Plan(3.0, 100), "pro": Plan(5.0, 1_000)}
