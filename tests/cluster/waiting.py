"""Waiting for something outside this process, never without a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(what: str, read: Callable[[], T], accept: Callable[[T], bool], *, within: float) -> T:
    """Read again and again until a reading is accepted.

    :param what: what is waited for, for the message of the error
    :param read: takes one reading
    :param accept: whether the reading is what is waited for
    :param within: seconds
    :returns: the accepted reading
    :raises TimeoutError: no reading was accepted in time; the last one is named
    """
    deadline = time.monotonic() + within
    while True:
        reading = read()
        if accept(reading):
            return reading
        if time.monotonic() >= deadline:
            raise TimeoutError(f"Not seen within {within:.0f} s: {what}. Last reading: {reading!r}")
        time.sleep(0.1)
