"""Find what work leaves to Python's garbage collector, which frees cycles only, and those of old objects seldom."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

# What others leave in the meantime, in other threads too, is of no account.
_OURS = ("airflow_provider_mediaops", "jinja2")


def garbage_of(work: Callable[[], Any]) -> set[str]:
    """Return the types of what work leaves in cycles, of this package and of Jinja2."""
    work()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        work()
        gc.collect()
        return {type(one).__qualname__ for one in gc.garbage if type(one).__module__.startswith(_OURS)}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
