"""
Watch the event loop of a real triggerer: each blocking step of the provider's code goes to a file, line by line.

Airflow's own watchdog logs every pause of the loop above 0.2 seconds. On a busy machine the loop pauses for as long
without any fault, and the watchdog does not say whose code was running. So this looks at what is done on the loop.

Airflow imports `airflow_local_settings` at the start of each component; see `install`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.loop_watch import PROVIDER, Watch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

STEPS = "blocking_steps.txt"
#: The beginning of a line that says that the triggerer imported a trigger's module on its loop.
LOADED = "loaded "
_SETTINGS = """
import sys

if "triggerer" in sys.argv:
    sys.path.append({root!r})
    from tests.system.triggerer_watch import TriggererWatch

    TriggererWatch({file!r}).begin()
"""


def install(home: Path) -> None:
    """Write the settings that begin the watch in each triggerer of an Airflow's home."""
    config = home / "config"
    config.mkdir(parents=True)
    settings = _SETTINGS.format(root=str(Path(__file__).parents[2]), file=str(home / STEPS))
    (config / "airflow_local_settings.py").write_text(settings)


class TriggererWatch(Watch):
    """Records the steps in a file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._is_writing = False
        super().__init__()

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "import" and str(arguments[0]).startswith(f"{PROVIDER}.triggers.") and self.is_on_loop:
            self._write(f"{LOADED}{arguments[0]}")
        super().heard(event, arguments)

    def record(self, step: str, frames: Sequence[FrameType]) -> None:
        # Airflow itself imports a trigger's class on the loop; what that loads is held by test_importing.py.
        if frames[-1].f_code.co_name != "<module>":
            self._write(step)

    def _write(self, line: str) -> None:
        if self._is_writing:
            return
        self._is_writing = True
        try:
            file = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(file, f"{line}\n".encode())
            os.close(file)
        finally:
            self._is_writing = False
