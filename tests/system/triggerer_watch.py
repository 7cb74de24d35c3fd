"""
Watch the event loop of a real triggerer: each blocking step of the provider's code goes to a file, line by line.

Airflow's own watchdog logs every pause of the loop above 0.2 seconds. On a busy machine the loop pauses for as long
without any fault, and the watchdog does not say whose code was running. So this looks at what is done on the loop.

Airflow imports `airflow_local_settings` at the start of each component; see `install`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.loop_watch import PROVIDER, Watch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

#: The file's name in Airflow's home; a triggerer makes the file when it starts.
STEPS = "blocking_steps.txt"
#: The beginning of a step that follows from what Airflow itself does on the loop: it imports the classes of triggers
#: and notifiers, and calls a notifier's constructor, which checks the arguments. See test_importing.py for what these
#: load.
BY_AIRFLOW = "by Airflow: "
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
    """
    Records the steps in a file.

    :param file: the path.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._is_writing = False
        Path(file).touch()
        super().__init__()

    def record(self, step: str, frames: Sequence[FrameType]) -> None:
        # To open the file is such a step itself.
        if self._is_writing:
            return
        self._is_writing = True
        try:
            with Path(self._file).open("a") as file:
                file.write(f"{BY_AIRFLOW if _is_of_airflow(frames[-1]) else ''}{step}\n")
        finally:
            self._is_writing = False


def _is_of_airflow(first: FrameType) -> bool:
    """Return whether the provider's first frame is one that Airflow enters on the loop."""
    is_notifier = first.f_globals["__name__"].startswith(f"{PROVIDER}.notifications.")
    return first.f_code.co_name == "<module>" or (is_notifier and first.f_code.co_name == "__init__")
