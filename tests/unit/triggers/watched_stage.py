"""Local datasets that are watched, or stopped in the middle of a step, while a trigger works with them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_mediaops.storage.local import LocalBackend

_MOST_SECONDS = 240


class HalfWritten:
    """A step of a backend that does not end before it may."""

    def __init__(self, patch: pytest.MonkeyPatch, method: str) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        #: The steps that have ended, and ``close`` when it began.
        self.done: list[str] = []
        original: Callable[..., Any] = getattr(LocalBackend, method)
        closing = LocalBackend.close

        def slowly(*arguments: Any, **options: Any) -> Any:
            self.begun.set()
            assert self.may_end.wait(_MOST_SECONDS)
            result = original(*arguments, **options)
            self.done.append(method)
            return result

        def close(stage: LocalBackend) -> None:
            # Others have looked before whether there was anything to do.
            if self.begun.is_set():
                self.done.append("close")
            closing(stage)

        patch.setattr(LocalBackend, method, slowly)
        patch.setattr(LocalBackend, "close", close)

    async def outlasts(self, running: asyncio.Future[Any], *, cancellations: int) -> None:
        """Cancel what waits for the step, see that it waits on, and let the step end."""
        for _ in range(cancellations):
            running.cancel()
            await asyncio.sleep(0.05)
        assert not running.done()
        self.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await running
