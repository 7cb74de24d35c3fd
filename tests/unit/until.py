"""Wait in a test for something that other code brings about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_SECONDS = 240.0


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, and fail if it does not come true in a time that is long on a busy machine, too."""
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"Waited {_SECONDS:.0f} s in vain."
        await asyncio.sleep(0.005)
