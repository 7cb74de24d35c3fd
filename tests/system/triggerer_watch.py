"""
Watch the event loop of a real triggerer: each blocking step of the provider's code goes to a file, line by line.

Such a step is an import, a file, a certificate or a sleep. Airflow's own watchdog logs every pause of the loop above
0.2 seconds. On a busy machine the loop pauses for as long without any fault, and the watchdog does not say whose code
was running. So this looks at what is done on the loop.

Airflow imports `airflow_local_settings` at the start of each component; see `install`.
"""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import ssl
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

PROVIDER = "airflow_provider_mediaops"
# What the interpreter announces of its own accord. A name that is looked up on the loop announces itself as well.
_AUDITED = ("open", "import", "os.", "shutil.", "subprocess.", "socket.getaddrinfo", "sqlite3.connect", "time.sleep")
# Modules that Airflow imports itself when it is first asked for a connection.
_OF_AIRFLOW = ("airflow.sdk.", "/airflow/sdk/")
# These announce nothing.
_SILENT = {
    time: ("sleep",),
    ssl.SSLContext: ("load_verify_locations", "load_default_certs", "set_default_verify_paths", "load_cert_chain"),
    Path: ("stat",),
    sqlite3: ("connect",),
}
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

    TriggererWatch({file!r})
"""


def install(home: Path) -> None:
    """Write the settings that begin the watch in each triggerer of an Airflow's home."""
    config = home / "config"
    config.mkdir(parents=True)
    settings = _SETTINGS.format(root=str(Path(__file__).parents[2]), file=str(home / STEPS))
    (config / "airflow_local_settings.py").write_text(settings)


class TriggererWatch:
    """Records each blocking step that the provider's code takes on an event loop, in a file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._is_writing = False
        Path(file).touch()
        sys.addaudithook(self.heard)
        for owner, names in _SILENT.items():
            for name in names:
                setattr(owner, name, self._announced(getattr(owner, name)))

    @property
    def is_on_loop(self) -> bool:
        """Whether this thread runs an event loop."""
        # Public for event loops; the documented function raises where none runs.
        return asyncio._get_running_loop() is not None  # noqa: SLF001

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an event that Python announces, if it may block."""
        if event.startswith(_AUDITED) and self.is_on_loop:
            what = str(arguments[0]) if arguments else ""
            if not any(name in what for name in _OF_AIRFLOW):
                self._note(f"{event} {what}")

    def _announced(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def announce(*arguments: Any, **others: Any) -> Any:
            if self.is_on_loop:
                self._note(function.__qualname__)
            return function(*arguments, **others)

        return announce

    def _note(self, step: str) -> None:
        frame, frames = inspect.currentframe(), []
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith(PROVIDER):
                frames.append(frame)
            frame = frame.f_back
        # To open the file is such a step itself.
        if not frames or self._is_writing:
            return
        places = [f"{each.f_globals['__name__'].removeprefix(PROVIDER)}:{each.f_lineno}" for each in frames[:3]]
        self._is_writing = True
        try:
            with Path(self._file).open("a") as file:
                file.write(f"{BY_AIRFLOW if _is_of_airflow(frames[-1]) else ''}{step} at {' < '.join(places)}\n")
        finally:
            self._is_writing = False


def _is_of_airflow(first: FrameType) -> bool:
    """Return whether the provider's first frame is one that Airflow enters on the loop."""
    is_notifier = first.f_globals["__name__"].startswith(f"{PROVIDER}.notifications.")
    return first.f_code.co_name == "<module>" or (is_notifier and first.f_code.co_name == "__init__")
