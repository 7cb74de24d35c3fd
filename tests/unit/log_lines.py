"""What an object of Airflow writes to its log, whichever logging Airflow is set up with."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "outside of the Task Runner" in record.getMessage():
            # Airflow's remark on every test that executes an operator.
            return
        traceback = " (with a traceback)" if record.exc_info and record.exc_info[0] else ""
        self.lines.append(f"{record.levelname}: {record.getMessage()}{traceback}")


def log_lines(patch: pytest.MonkeyPatch, owner: type) -> list[str]:
    """Have the log lines of a class's objects."""
    handler = _Lines()
    # Of no family, so that no setting of Airflow's reaches it.
    logger = logging.Logger(owner.__name__, logging.INFO)  # noqa: LOG001
    logger.addHandler(handler)
    patch.setattr(owner, "log", logger, raising=False)
    return handler.lines
