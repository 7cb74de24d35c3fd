"""The payload of a trigger's event: a small versioned dictionary that holds a value or a typed error."""

from __future__ import annotations

from typing import Any, cast

from airflow_provider_mediaops.exceptions import InvalidReplyError, MediaOpsError, TemporaryError, error_from_dict

_VERSION = 1


def done_event(value: Any) -> dict[str, Any]:
    """
    Return the payload of a trigger that has a result.

    :param value: plain values; counts and paths, nothing large.
    :returns: the payload of a ``TriggerEvent``.
    """
    return {"version": _VERSION, "status": "done", "value": value}


def error_event(error: MediaOpsError) -> dict[str, Any]:
    """
    Return the payload of a trigger that ended with an error.

    :param error: the typed error.
    :returns: the payload of a ``TriggerEvent``.
    """
    return {"version": _VERSION, "status": "error", "error": error.to_dict()}


def unexpected(error: Exception) -> TemporaryError:
    """
    Return the error of a trigger that ended with a fault of this program, so that the task follows its own retries.

    :param error: the fault; its text may hold anything, so the task gets only its class.
    :returns: the error for the task.
    """
    return TemporaryError(
        f"The trigger ended with an unexpected {type(error).__name__}. Its traceback is in the triggerer's log."
    )


def value_of(event: object) -> Any:
    """
    Return the value of an event, or raise its error; called in the task.

    :param event: the payload that the trigger sent.
    :returns: the value.
    :raises MediaOpsError: the trigger's error, of the class that it had there.
    :raises InvalidReplyError: if the event is none that this version can read.
    """
    fields = event if isinstance(event, dict) else {}
    if fields.get("status") == "done":
        return fields.get("value")
    error = fields.get("error")
    if fields.get("status") == "error" and isinstance(error, dict):
        raise error_from_dict(error)
    raise _unreadable(fields)


def summary_of(event: object) -> dict[str, Any]:
    """
    Return the summary in an event, or raise its error; called in the task.

    :param event: the payload that the trigger sent.
    :returns: the summary.
    :raises MediaOpsError: as :func:`value_of`.
    :raises InvalidReplyError: if its value is no summary, too.
    """
    summary = value_of(event)
    if isinstance(summary, dict):
        return summary
    # It has a value, so it is a dictionary.
    raise _unreadable(cast("dict[str, Any]", event))


def _unreadable(event: dict[str, Any]) -> InvalidReplyError:
    version = event.get("version")
    return InvalidReplyError(f"The trigger sent an event that this version of the provider cannot read ({version=}).")
