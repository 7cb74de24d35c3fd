"""What a trigger tells its task: a small versioned dictionary with a value or a typed error in it."""

from __future__ import annotations

from typing import Any

from airflow_provider_mediaops.exceptions import InvalidReplyError, MediaOpsError, TemporaryError, error_from_dict

_VERSION = 1


def done_event(value: Any) -> dict[str, Any]:
    """
    Tell that what was waited for is there.

    :param value: plain values; counts and paths, nothing large.
    :returns: the payload of a ``TriggerEvent``.
    """
    return {"version": _VERSION, "status": "done", "value": value}


def error_event(error: MediaOpsError) -> dict[str, Any]:
    """
    Tell that the wait has ended with an error.

    :param error: the typed error.
    :returns: the payload of a ``TriggerEvent``.
    """
    return {"version": _VERSION, "status": "error", "error": error.to_dict()}


def unexpected(error: Exception) -> TemporaryError:
    """
    Make the error of a trigger that ended in a way that nobody foresaw, so that the task follows its own retries.

    :param error: what happened; its text may hold anything, so only its kind is told.
    :returns: the error for the task.
    """
    return TemporaryError(
        f"The trigger ended with an unexpected {type(error).__name__}. Its traceback is in the triggerer's log."
    )


def value_of(event: dict[str, Any] | None) -> Any:
    """
    Read an event in the task.

    :param event: the payload that the trigger sent.
    :returns: the value.
    :raises MediaOpsError: the trigger's error, of the class that it had there.
    """
    event = event or {}
    if event.get("status") == "done":
        return event.get("value")
    if event.get("status") == "error":
        raise error_from_dict(event.get("error") or {})
    version = event.get("version")
    raise InvalidReplyError(f"The trigger sent an event that this version of the provider cannot read ({version=}).")
