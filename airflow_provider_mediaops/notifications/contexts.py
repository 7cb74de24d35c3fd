"""What each kind of callback knows of its run, under the names that a task has for it."""

from __future__ import annotations

import re
from difflib import get_close_matches
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, cast

from airflow_provider_mediaops.iso_times import read_iso_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

_TIMES = {
    "data_interval_end",
    "data_interval_start",
    "deadline_time",
    "end_date",
    "last_scheduling_decision",
    "logical_date",
    "partition_date",
    "queued_at",
    "run_after",
    "start_date",
}


def kind_of(context: Context) -> Literal["a deadline alert", "a DAG's callback", "a task's callback"]:
    """Tell from a context which kind of callback Airflow calls."""
    if "deadline" in context:
        return "a deadline alert"
    # Airflow gives a reason to the callbacks of DAGs only.
    return "a DAG's callback" if "reason" in context else "a task's callback"


def about_missing_name(error: Exception, context: Context) -> str:
    """
    Say of a name that a template uses, and the context lacks, which ones it has that are like it.

    That is a blank and two sentences; nothing for an error of another kind.
    """
    missing = re.fullmatch(r"'(\w+)' is undefined", str(error))
    if missing is None:
        return ""
    like = " and ".join(get_close_matches(missing[1], context))
    return (
        f" The context of {kind_of(context)} has no such name{like and f', but {like}'}. "
        'The page "Templates in callbacks" of the documentation has a table of all names.'
    )


def complete(context: Context) -> Context:
    """
    Copy a context, and add what is known of the run.

    Airflow gives a deadline alert its run as the REST API shows it: texts for times, ``dag_run_id`` for ``run_id``,
    and none of the names beside it. The copy has them as in a task: those of the logical date only if the run has one.
    The callback of a task whose worker was lost has no ``exception``; the copy says None.
    """
    given = cast("Mapping[str, Any]", context)
    kind = kind_of(context)
    if kind == "a deadline alert":
        return cast("Context", {**given, **_names_of_the_run(given)})
    return cast("Context", {"exception": None, **given} if kind == "a task's callback" else {**given})


def _names_of_the_run(given: Mapping[str, Any]) -> dict[str, Any]:
    from airflow.sdk.timezone import coerce_datetime

    run = _object(given["dag_run"])
    run.run_id = run.dag_run_id
    known = {"dag_run": run, "deadline": _object(given["deadline"]), "run_id": run.run_id}
    known |= {name: getattr(run, name) for name in ("partition_key", "partition_date") if hasattr(run, name)}
    if run.logical_date is not None:
        ds, ts = f"{run.logical_date:%Y-%m-%d}", run.logical_date.isoformat()
        known |= {
            "logical_date": coerce_datetime(run.logical_date),
            "data_interval_start": coerce_datetime(run.data_interval_start),
            "data_interval_end": coerce_datetime(run.data_interval_end),
            "ds": ds,
            "ds_nodash": ds.replace("-", ""),
            "ts": ts,
            "ts_nodash": f"{run.logical_date:%Y%m%dT%H%M%S}",
            "ts_nodash_with_tz": ts.replace("-", "").replace(":", ""),
        }
    return known


def _object(fields: Mapping[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(
        **{name: (read_iso_time(value) or value) if name in _TIMES else value for name, value in fields.items()}
    )
