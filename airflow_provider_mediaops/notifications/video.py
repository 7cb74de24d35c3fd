"""Posting a bulletin about a task or a DAG run."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import path_text, shown
from airflow_provider_mediaops.exceptions import DestinationInUseError, InvalidArgumentError
from airflow_provider_mediaops.notifications.base import ServiceNotifier
from airflow_provider_mediaops.task_failure import given_arguments, is_templated, templated_arguments

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_provider_mediaops.hooks.video import VideoPlatformHook
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.video.at_most_once import Delivery

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

    hook_class = "airflow_provider_mediaops.hooks.video:VideoPlatformHook"
    conn_id_field = "video_conn_id"

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
        from airflow_provider_mediaops.video.arguments import check_bulletin

        self._kept_by = [name for name in ("journal", "once_per") if getattr(self, name) is not None]
        check_bulletin(given_arguments(self), is_templated)
        if journal is not None and once_per is None:
            raise InvalidArgumentError(
                "journal needs once_per: a notifier is not a task whose tries it could be kept by."
            )
        if isinstance(text, str) and text.endswith(_TEMPLATE_FILES):
            raise InvalidArgumentError(f"text names a template file, {shown(text)}. A notifier reads none.")

    own_arguments = templated_arguments(__init__)
    template_fields: Sequence[str] = own_arguments

    def _flow(self, hook: VideoPlatformHook, context: Context) -> CallFlow[None]:
        try:
            yield from hook.posting(self.text, self.video_id, self.playlist_id, partial(self._begin, context))
        except DestinationInUseError as error:
            # What the journal is for, if many tasks end at the same time.
            self.log.warning("%s", error)

    def _begin(self, context: Context) -> Delivery | None:
        from airflow_provider_mediaops.storage.ownership import task_of
        from airflow_provider_mediaops.video.at_most_once import begin_delivery

        # Each call is an author of its own: a notifier has no tries.
        author = {"task": f"{task_of(context) or 'no task'} (notifier {secrets.token_hex(4)})"}
        return begin_delivery(given_arguments(self), self._kept_by, None, author, self.log.warning)
