"""Begin the delivery of a task's bulletin: its record is in a journal, or in the task's state store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.version_compat import task_state_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

    from airflow_provider_mediaops.storage.record import Record
    from airflow_provider_mediaops.video.arguments import Bulletin, JournalArguments
    from airflow_provider_mediaops.video.at_most_once import Delivery, OnUncertain


def begin_delivery(
    context: Context,
    bulletin: Bulletin,
    conn_id: str,
    arguments: JournalArguments,
    *,
    warn: Callable[[str], None],
    on_uncertain: OnUncertain,
    post_again_on_clear: bool,
) -> Delivery | None:
    """
    Read the record of earlier tries, and begin the delivery unless one of them has posted.

    A journal takes the place of the task's state store: nobody could trust two records that disagree. Without a place
    for a record, there is no delivery.

    :raises MediaOpsError: if it must not be posted, or the record cannot be read.
    """
    from airflow_provider_mediaops.storage.ownership import task_of
    from airflow_provider_mediaops.storage.record import StateRecord
    from airflow_provider_mediaops.video.at_most_once import (
        RECORD_KEY,
        Author,
        Delivery,
        fingerprint_of,
        journal_record,
        key_of,
    )

    task, store = task_of(context), task_state_store(context)
    if arguments.journal is not None:
        key = key_of(arguments.once_per, conn_id, task)
        record: Record = journal_record(arguments.journal, key, warn)
    elif store is not None:
        from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined] # its stub file does not name it

        key = key_of(None, conn_id, task or "")
        # The task can be cleared as long as its run is there, and the record goes with the run.
        record = StateRecord(store, RECORD_KEY, NEVER_EXPIRE)
    else:
        return None
    by = Author(task=task or "", contents=fingerprint_of(bulletin, conn_id))
    if instance := context.get("ti"):
        by = by.model_copy(update={"attempt": instance.try_number, "max_tries": instance.max_tries or 0})
    delivery = Delivery(record, key, by, warn, on_uncertain, post_again_on_clear)
    delivery.begin()
    return delivery
