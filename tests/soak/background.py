"""Work beside a test, in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

# Longer than the longest step of any work.
_LONGEST_SECONDS = 480.0


class Background(ABC):
    """
    Works in a thread for as long as its `with` block lasts.

    An error of the thread is raised where the block ends, unless the block itself has failed.
    """

    def __init__(self) -> None:
        #: Set when the work is to end.
        self.over = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._go, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.over.set()
        self._thread.join(_LONGEST_SECONDS)
        if kind is None:
            assert not self._thread.is_alive(), f"{type(self).__name__} has not ended"
            if self._error:
                raise self._error

    @abstractmethod
    def work(self) -> None:
        """Work until `over` is set."""

    def _go(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 raised where the block ends
            self._error = error
