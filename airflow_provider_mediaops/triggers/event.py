"""The payload of a trigger's event: a small versioned dictionary that holds a value or a typed error."""

from __future__ import annotations

from typing import Any

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


def value_of(event: dict[str, Any] | None) -> Any:
    """
    Return the value of an event, or raise its error; called in the task.

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
