"""Where the record of a task's bulletin is kept: in a journal, or in the task's state store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.version_compat import task_state_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

    from airflow_provider_mediaops.video.arguments import Bulletin, JournalArguments
    from airflow_provider_mediaops.video.at_most_once import AlreadyPosted, OnUncertain
    from airflow_provider_mediaops.video.recorded_delivery import RecordedDelivery


def begin_delivery(
    context: Context,
    bulletin: Bulletin,
    conn_id: str,
    arguments: JournalArguments,
    *,
    warn: Callable[[str], None],
    on_uncertain: OnUncertain,
    post_again_on_clear: bool,
) -> RecordedDelivery | AlreadyPosted | None:
    """
    Read the record of earlier tries, and begin the delivery unless one of them has posted.

    A journal takes the place of the task's state store: with two records that disagree, neither would hold.

    :param context: the task's.
    :param bulletin: the bulletin.
    :param conn_id: the connection over which it is posted.
    :param arguments: the journal, if there is one, and what its key is.
    :param warn: logs a warning.
    :param on_uncertain: what to do if it is not known whether the bulletin was posted.
    :param post_again_on_clear: whether a task posts in any case if it was cleared since.
    :returns: the delivery, or the activity of an earlier one; None if there is no place for a record.
    :raises MediaOpsError: if it must not be posted, or the record cannot be read.
    """
    from airflow_provider_mediaops.storage.ownership import task_of
    from airflow_provider_mediaops.video.at_most_once import Try, begin, digest_of
    from airflow_provider_mediaops.video.bulletin_journal import Author, key_of
    from airflow_provider_mediaops.video.journal_delivery import begin_in_journal

    contents = digest_of(bulletin, conn_id)
    instance, store = context.get("ti"), task_state_store(context)
    this = Try(instance.try_number, instance.max_tries, contents) if instance else Try(1, 0, contents)
    rules: dict[str, Any] = {"warn": warn, "on_uncertain": on_uncertain, "post_again_on_clear": post_again_on_clear}
    if arguments.journal is not None:
        task = task_of(context)
        key = key_of(arguments.once_per, conn_id, task)
        return begin_in_journal(arguments.journal, key, Author(task or "", this), **rules)
    if store is None:
        return None
    from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined] # its stub file does not name it

    # The task can be cleared as long as its run is there, and the record goes with the run.
    return begin(store, this, **rules, retention=NEVER_EXPIRE)
