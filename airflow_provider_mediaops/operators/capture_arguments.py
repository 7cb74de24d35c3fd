"""Read the arguments of captures: those that are known at parse time, and the rendered ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import read_flag, read_seconds, read_whole_number
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.version_compat import conf

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
    from airflow_provider_mediaops.cluster.capture.plan import CapturePlan
    from airflow_provider_mediaops.cluster.cpu import CpuWatch

# The arguments about the wait, with their defaults.
_WAIT = {"sustained_for": 0, "require": "any", "poll_interval": 30, "wait_timeout": None, "on_timeout": "skip"}
#: With the defaults of the query, a value for each argument that fits all values of the others: it stands for a
#: template until that is rendered.
STAND_INS: dict[str, Any] = {
    **_WAIT,
    "when_cpu_above": 0,
    "captures": 1,
    "every": 10,
    "destination": "any",
    "formats": ("txt",),
    "running_tasks": True,
    "show_queries": False,
}
_WEEK_SECONDS = 7 * 86_400.0
# Some thirty years: dates beyond are no dates.
_LONGEST_SECONDS = 1e9


def plan_of(arguments: Mapping[str, Any]) -> tuple[CapturePlan, float]:
    """Make the plan of the captures, and return it with the longest time to wait for a spike, in seconds."""
    from airflow_provider_mediaops.cluster.capture.plan import CapturePlan
    from airflow_provider_mediaops.cluster.cpu import CpuWatch, read_percentage
    from airflow_provider_mediaops.cluster.query import QUERY_DEFAULTS, HotThreadsQuery

    query = HotThreadsQuery(**{name: arguments[name] for name in QUERY_DEFAULTS})
    watch = None
    if arguments["when_cpu_above"] is not None:
        threshold = read_percentage("when_cpu_above", arguments["when_cpu_above"])
        watch = CpuWatch(threshold, arguments["sustained_for"], query.nodes, arguments["require"])
    elif given := [name for name, default in _WAIT.items() if arguments[name] != default]:
        raise InvalidArgumentError(f"{' and '.join(given)} are about the wait for a spike: give when_cpu_above, too.")
    plan = CapturePlan(
        query,
        watch,
        poll_interval=read_seconds("poll_interval", arguments["poll_interval"]),
        on_timeout=arguments["on_timeout"],
        captures=read_whole_number("captures", arguments["captures"]),
        every=read_seconds("every", arguments["every"]),
        running_tasks=read_flag("running_tasks", arguments["running_tasks"]),
        show_queries=read_flag("show_queries", arguments["show_queries"]),
    )
    return plan, _limit(arguments["wait_timeout"], watch)


def whole_limit(plan: CapturePlan, limit: float) -> float:
    """Return the longest time that the captures may take, in seconds."""
    return limit + plan.seconds


def _limit(wait_timeout: float | str | timedelta | None, watch: CpuWatch | None) -> float:
    if watch is None:
        return 0.0
    if wait_timeout is None:
        wait_timeout = conf.getfloat("sensors", "default_timeout", fallback=_WEEK_SECONDS)
    limit = read_seconds("wait_timeout", wait_timeout)
    if not 0 < limit < _LONGEST_SECONDS:
        raise InvalidArgumentError(f"wait_timeout is a number of seconds above 0; not {wait_timeout!r}.")
    if watch.sustained_for >= limit:
        raise InvalidArgumentError(
            f"sustained_for ({watch.sustained_for:g} s) must be shorter than wait_timeout ({limit:g} s), or the wait "
            "can only time out."
        )
    return limit


def files_of(arguments: Mapping[str, Any], log: Any, context: Mapping[str, Any]) -> CaptureFiles:
    """Return what writes the files; the context is empty while a DAG is parsed."""
    from airflow_provider_mediaops.cluster.capture.destination import CaptureDestination
    from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
    from airflow_provider_mediaops.cluster.capture.reason import TakenFor

    captures = read_whole_number("captures", arguments["captures"])
    taken_for = TakenFor.from_context(context)
    return CaptureFiles(CaptureDestination(arguments["destination"], arguments["formats"], captures, taken_for), log)
