"""A service that answers a sensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.unit.loopback import Loopback, answering

if TYPE_CHECKING:
    from typing import TypeAlias

    StartService: TypeAlias = Callable[..., tuple[str, list[bytes]]]


@pytest.fixture
def start_service() -> Iterator[StartService]:
    """Start a service that gives these replies in turn and the last for ever: its address, and what it is asked."""
    with ExitStack() as started:

        def start(*replies: bytes) -> tuple[str, list[bytes]]:
            seen: list[bytes] = []
            return started.enter_context(Loopback(answering(*replies, seen=seen))).base, seen

        yield start
