"""Posting a bulletin about a task or a DAG run."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import path_text, read_identifier, shown
from airflow_provider_mediaops.exceptions import DestinationInUseError, InvalidArgumentError
from airflow_provider_mediaops.hooks.threads import in_thread
from airflow_provider_mediaops.notifications.base import ServiceNotifier
from airflow_provider_mediaops.task_failure import is_templated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import PurePath

    from airflow.sdk import Context, ObjectStoragePath

    from airflow_provider_mediaops.hooks.video import VideoPlatformHook
    from airflow_provider_mediaops.video.at_most_once import Delivery
    from airflow_provider_mediaops.video.models import Activity


# An operator reads its text from files that end so.
_TEMPLATE_FILES = (".j2", ".jinja", ".jinja2")


class PostBulletinNotifier(ServiceNotifier):
    """
    Post a bulletin to the channel of the connection's user.

    It is posted at most once a call. If the reply is lost, the log says that it may have been posted. With a
    ``journal``, all tasks, runs and DAGs whose notifiers or operators use the same ``once_per`` post it once together;
    see :mod:`airflow_provider_mediaops.video.at_most_once`.

    :param text: its message; may stand alone or with a video or playlist.
    :param video_id: a video to attach.
    :param playlist_id: a playlist to attach, instead of a video.
    :param journal: a folder on the local disk or an object store for the records, which all processes that call the
        notifier can write; missing folders are created. It needs ``once_per``.
    :param once_per: bulletins with the same value are posted once, for example ``{{ dag_run.run_after | ds }}``.
    :param video_conn_id: the connection's id.
    :param context: see :class:`~airflow_provider_mediaops.notifications.base.ServiceNotifier`.
    :raises ValueError: for an argument that cannot be used: here, or, if it is templated, before anything is sent.
    """

    template_fields: Sequence[str] = (
        "text",
        "video_id",
        "playlist_id",
        "journal",
        "once_per",
        "video_conn_id",
    )

    def __init__(
        self,
        *,
        text: str | None = None,
        video_id: str | None = None,
        playlist_id: str | None = None,
        journal: str | PurePath | ObjectStoragePath | None = None,
        once_per: str | None = None,
        video_conn_id: str = "mediaops_video_default",
        context: Context | None = None,
    ) -> None:
        super().__init__(context=context)
        self.text = text
        self.video_id = video_id
        self.playlist_id = playlist_id
        self.journal = path_text(journal)
        self.once_per = once_per
        self.video_conn_id = video_conn_id
        from airflow_provider_mediaops.video.arguments import Bulletin, JournalArguments

        self._journal_arguments = JournalArguments(self.journal, once_per)
        self._journal_arguments.check(is_templated)
        if journal is not None and once_per is None:
            raise InvalidArgumentError("journal needs once_per: a notifier is no task whose tries it could be kept by.")
        if isinstance(text, str) and text.endswith(_TEMPLATE_FILES):
            raise InvalidArgumentError(f"text names a template file, {shown(text)}. A notifier reads none.")
        if not is_templated(video_conn_id):
            read_identifier("video_conn_id", video_conn_id)
        Bulletin.check({"text": text, "video_id": video_id, "playlist_id": playlist_id}, is_templated)

    def notify(self, context: Context) -> None:
        """Post the bulletin, unless the journal says that it is posted."""
        with self._leaving_it_to_others():
            delivery, activity = self._begin(context), None
            if delivery is None or not delivery.already_posted:
                with self._make_hook() as hook:
                    activity = hook.post_bulletin(self.text, self.video_id, self.playlist_id, delivery=delivery)
            self._log_result(delivery, activity)

    async def async_notify(self, context: Context) -> None:
        """Post the bulletin on the event loop, unless the journal says that it is posted."""
        with self._leaving_it_to_others():
            # In threads, because these import the service's modules, and read the journal.
            delivery, activity = await in_thread(partial(self._begin, context)), None
            if delivery is None or not delivery.already_posted:
                with await in_thread(self._make_hook) as hook:
                    posting = hook.posting(self.text, self.video_id, self.playlist_id, delivery=delivery)
                    activity = await hook.arun(posting)
            self._log_result(delivery, activity)

    def _begin(self, context: Context) -> Delivery | None:
        from airflow_provider_mediaops.storage.ownership import task_of
        from airflow_provider_mediaops.video.arguments import Bulletin
        from airflow_provider_mediaops.video.at_most_once import (
            Author,
            Delivery,
            fingerprint_of,
            journal_record,
            key_of,
        )

        arguments = self._journal_arguments.rendered(self.journal, self.once_per)
        if arguments.journal is None:
            return None
        conn_id = read_identifier("video_conn_id", self.video_conn_id)
        key = key_of(arguments.once_per, conn_id, None)
        # Each call is an author of its own: a notifier has no tries.
        author = f"{task_of(context) or 'no task'} (notifier {secrets.token_hex(4)})"
        by = Author(task=author, contents=fingerprint_of(Bulletin(self.text, self.video_id, self.playlist_id), conn_id))
        delivery = Delivery(journal_record(arguments.journal, key, self.log.warning), key, by, self.log.warning)
        delivery.begin()
        return delivery

    def _log_result(self, delivery: Delivery | None, activity: Activity | None) -> None:
        if delivery and (found := delivery.already_posted):
            self.log.info("%s has posted bulletin %s; nothing is posted.", found.author, found.activity.get("id"))
        elif activity:
            self.log.info("Posted bulletin %s.", activity.id)

    @contextmanager
    def _leaving_it_to_others(self) -> Iterator[None]:
        try:
            yield
        except DestinationInUseError as error:
            # What the journal is for, if many tasks end at the same time.
            self.log.warning("%s", error)

    def _make_hook(self) -> VideoPlatformHook:
        from airflow_provider_mediaops.hooks.video import VideoPlatformHook

        return VideoPlatformHook(self.video_conn_id)
