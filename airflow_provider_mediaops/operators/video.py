"""The operators of the video platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_mediaops.exceptions import TemporaryError, UncertainDeliveryError
from airflow_provider_mediaops.task_failure import ending_task, is_templated, use_retry_policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context, ObjectStoragePath

    from airflow_provider_mediaops.hooks.video import SubscriptionArguments


class PostBulletinOperator(BaseOperator):
    """
    Post a bulletin to the channel of the connection's user, and return the activity (video-platform.md, section 4.1).

    :param text: its message; may stand alone or with a video or playlist.
    :param video_id: a video to attach.
    :param playlist_id: a playlist to attach, instead of a video.
    :param on_uncertain: what to do where the reply was lost and the bulletin may or may not be posted: ``fail`` ends
        the task at once; ``retry`` lets the task's retries post it again, perhaps for the second time.
    :param video_conn_id: the connection's id.
    :raises ValueError: for a bulletin that breaks the rules of section 2: here, unless an argument is templated.
    """

    template_fields: Sequence[str] = ("text", "video_id", "playlist_id", "video_conn_id")

    def __init__(
        self,
        *,
        text: str | None = None,
        video_id: str | None = None,
        playlist_id: str | None = None,
        on_uncertain: Literal["fail", "retry"] = "fail",
        video_conn_id: str = "mediaops_video_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.text = text
        self.video_id = video_id
        self.playlist_id = playlist_id
        self.on_uncertain = on_uncertain
        self.video_conn_id = video_conn_id
        if on_uncertain not in ("fail", "retry"):
            raise ValueError(f"on_uncertain is fail or retry; not {on_uncertain!r}.")
        if not is_templated(text, video_id, playlist_id):
            from airflow_provider_mediaops.video.api import Bulletin

            Bulletin(text, video_id, playlist_id)
        use_retry_policy(self)

    def execute(self, context: Context) -> dict[str, Any]:
        """Post, and return the activity as the service sent it."""
        from airflow_provider_mediaops.hooks.video import VideoPlatformHook

        with ending_task(), VideoPlatformHook(self.video_conn_id) as hook:
            try:
                activity = hook.post_bulletin(self.text, self.video_id, self.playlist_id)
            except UncertainDeliveryError as error:
                if self.on_uncertain == "fail":
                    raise
                raise TemporaryError(f"on_uncertain='retry': {error}", service=error.service) from error
        self.log.info("Posted bulletin %s.", activity.id)
        return activity.to_dict()


class ExportSubscriptionsOperator(BaseOperator):
    """
    Write all subscriptions of a channel, or those of a list, to a dataset (video-platform.md, section 4.2).

    Exactly one of ``channel_id``, ``ids`` and ``mine`` says whose subscriptions are meant. Each is in the dataset once,
    however often the service lists it: as it came in JSON lines, as columns in CSV and Parquet. The dataset appears
    whole when the last page is there; until then an older one stays.

    The summary holds ``path``, ``rows``, ``pages``, ``duplicates`` (records that came again and were left out) and
    ``bytes``.

    :param destination: where the dataset goes, on any object storage; folders are made.
    :param channel_id: the channel whose subscriptions are exported.
    :param ids: the identifiers of the subscriptions.
    :param mine: the authenticated user's own.
    :param part: the properties to include.
    :param for_channel_ids: keep only subscriptions to these channels.
    :param order: ``alphabetical``, the only order in which the service's pages do not shift; ``relevance``;
        ``unread``; None leaves it to the service.
    :param page_size: records a page, 1 to 50.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None goes by the suffix of the destination.
    :param video_conn_id: the connection's id.
    :raises ValueError: for arguments that cannot be used: here, unless they are templated.
    """

    template_fields: Sequence[str] = (
        "destination",
        "channel_id",
        "ids",
        "part",
        "for_channel_ids",
        "order",
        "format",
        "video_conn_id",
    )

    def __init__(
        self,
        *,
        destination: str | ObjectStoragePath,
        channel_id: str | None = None,
        ids: Sequence[str] | None = None,
        mine: bool = False,
        part: Sequence[str] = ("id", "snippet", "contentDetails"),
        for_channel_ids: Sequence[str] | None = None,
        order: str | None = "alphabetical",
        page_size: int = 50,
        format: str | None = None,
        video_conn_id: str = "mediaops_video_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.destination = destination
        self.channel_id = channel_id
        self.ids = ids
        self.mine = mine
        self.part = part
        self.for_channel_ids = for_channel_ids
        self.order = order
        self.page_size = page_size
        self.format = format
        self.video_conn_id = video_conn_id
        if page_size < 1:
            raise ValueError(f"page_size is 1 to 50; not {page_size}.")
        if not is_templated(channel_id, ids, part, for_channel_ids, order):
            from airflow_provider_mediaops.video.api import SubscriptionQuery

            SubscriptionQuery(**self._query())
        # A path is no text, but what is templated in it shows in its text.
        if not is_templated(str(destination), format):
            from airflow_provider_mediaops.storage.formats import format_of

            format_of(destination, format)
        use_retry_policy(self)

    def execute(self, context: Context) -> dict[str, Any]:
        """Walk all pages, publish the dataset, and return the summary."""
        from airflow_provider_mediaops.hooks.video import VideoPlatformHook
        from airflow_provider_mediaops.storage.dataset import Dataset
        from airflow_provider_mediaops.video.export import SUBSCRIPTIONS

        with ending_task():
            pages = duplicates = 0
            dataset = Dataset(self.destination, view=SUBSCRIPTIONS, format=self.format)
            with dataset.writing() as rows, VideoPlatformHook(self.video_conn_id) as hook:
                for walked in hook.walk_subscriptions(**self._query()):
                    rows.write(walked.fresh)
                    pages += 1
                    duplicates += len(walked.page.items) - len(walked.fresh)
        self.log.info("Wrote %d subscriptions of %d pages to %s.", rows.count, pages, self.destination)
        return {
            "path": str(self.destination),
            "rows": rows.count,
            "pages": pages,
            "duplicates": duplicates,
            "bytes": rows.bytes,
        }

    def _query(self) -> SubscriptionArguments:
        query = {
            "channel_id": self.channel_id,
            "ids": self.ids,
            "mine": self.mine,
            "part": self.part,
            "for_channel_ids": self.for_channel_ids,
            "order": self.order,
            "max_results": self.page_size,
        }
        return cast("SubscriptionArguments", {name: value for name, value in query.items() if value is not None})
