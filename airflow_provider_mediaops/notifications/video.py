"""Posting a bulletin about a task or a DAG run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import read_identifier
from airflow_provider_mediaops.hooks.threads import in_thread
from airflow_provider_mediaops.notifications.base import ServiceNotifier
from airflow_provider_mediaops.task_failure import is_templated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_provider_mediaops.hooks.video import VideoPlatformHook


class PostBulletinNotifier(ServiceNotifier):
    """
    Post a bulletin to the channel of the connection's user.

    It is posted at most once. If the reply is lost, the log says that it may have been posted.

    :param text: its message; may stand alone or with a video or playlist.
    :param video_id: a video to attach.
    :param playlist_id: a playlist to attach, instead of a video.
    :param video_conn_id: the connection's id.
    :param context: see :class:`~airflow_provider_mediaops.notifications.base.ServiceNotifier`.
    :raises ValueError: for an argument that cannot be used: here, or, if it is templated, before anything is sent.
    """

    template_fields: Sequence[str] = ("text", "video_id", "playlist_id", "video_conn_id")

    def __init__(
        self,
        *,
        text: str | None = None,
        video_id: str | None = None,
        playlist_id: str | None = None,
        video_conn_id: str = "mediaops_video_default",
        context: Context | None = None,
    ) -> None:
        super().__init__(context=context)
        self.text = text
        self.video_id = video_id
        self.playlist_id = playlist_id
        self.video_conn_id = video_conn_id
        from airflow_provider_mediaops.video.api import Bulletin

        if not is_templated(video_conn_id):
            read_identifier("video_conn_id", video_conn_id)
        Bulletin.check({"text": text, "video_id": video_id, "playlist_id": playlist_id}, is_templated)

    def send(self, context: Context) -> None:
        """Post the bulletin."""
        with self._make_hook() as hook:
            activity = hook.post_bulletin(self.text, self.video_id, self.playlist_id)
        self.log.info("Posted bulletin %s.", activity.id)

    async def asend(self, context: Context) -> None:
        """Post the bulletin on the event loop."""
        # In a thread, because this imports the service's modules.
        async with await in_thread(self._make_hook) as hook:
            activity = await hook.apost_bulletin(self.text, self.video_id, self.playlist_id)
        self.log.info("Posted bulletin %s.", activity.id)

    def _make_hook(self) -> VideoPlatformHook:
        from airflow_provider_mediaops.hooks.video import VideoPlatformHook

        return VideoPlatformHook(self.video_conn_id)
