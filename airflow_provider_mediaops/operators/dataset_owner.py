"""The owner of a dataset: the task instance, from its context, and a digest of the arguments."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow.sdk import Context

    from airflow_provider_mediaops.storage.ownership import Owner


def owner_of(context: Context, parameters: Mapping[str, Any]) -> Owner:
    """
    Return the owner of the dataset that a task writes, the same for all its attempts with the same parameters.

    Without a task instance, as in a plain script, nothing is ever resumed. The parameters are all rendered arguments
    that affect the content.
    """
    from airflow_provider_mediaops.storage.ownership import Owner, task_of

    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True, default=str).encode()).hexdigest()
    task = task_of(context)
    if task is None:
        return Owner(f"no task ({secrets.token_hex(8)})", digest)
    start = getattr(context.get("dag_run"), "start_date", None)
    # Airflow sets max_tries when a task is cleared, and only then.
    return Owner(task, digest, getattr(context["ti"], "max_tries", 0), start.isoformat() if start else "")


def digest_of(values: Iterable[Any]) -> str:
    """Return a digest of a list, for the parameters of an owner."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(json.dumps(None if value is None else str(value)).encode() + b"\n")
    return digest.hexdigest()
