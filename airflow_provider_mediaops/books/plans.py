"""The plans of the book database: what a key may ask for."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """What a key of a plan may ask for."""

    requests_per_second: float
    bulk_size: int  # ISBNs that one bulk request may hold; the specification does not say it


PLANS = {"default": Plan(1.0, 10), "premium": Plan(3.0, 100), "pro": Plan(5.0, 1_000)}
