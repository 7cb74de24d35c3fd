"""The sensor of the video platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.sensors.service import ServiceSensor
from airflow_provider_mediaops.task_failure import is_templated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.hooks.video import VideoPlatformHook
    from airflow_provider_mediaops.triggers.video import SubscriptionTrigger
    from airflow_provider_mediaops.video.subscription_exists import SubscriptionWatch


class SubscriptionSensor(ServiceSensor):
    """
    Wait until a subscription that matches exists, and return its ``id`` and ``title``.

    Exactly one of ``channel_id``, ``ids`` and ``mine`` says whose subscriptions are meant (video-platform.md,
    section 4.2).

    :param channel_id: the channel whose subscriptions are looked through.
    :param ids: the identifiers of the subscriptions.
    :param mine: the authenticated user's own.
    :param for_channel_ids: only subscriptions to these channels count.
    :param video_conn_id: the connection's id.
    :param kwargs: those of :class:`~airflow_provider_mediaops.sensors.service.ServiceSensor`.
    :raises ValueError: where the arguments break the rule, unless they are templated.
    """

    template_fields: Sequence[str] = ("channel_id", "ids", "for_channel_ids", "conn_id")

    def __init__(
        self,
        *,
        channel_id: str | None = None,
        ids: Sequence[str] | None = None,
        mine: bool = False,
        for_channel_ids: Sequence[str] | None = None,
        video_conn_id: str = "mediaops_video_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(conn_id=video_conn_id, **kwargs)
        self.channel_id = channel_id
        self.ids = ids
        self.mine = mine
        self.for_channel_ids = for_channel_ids
        if not is_templated(channel_id, ids, for_channel_ids):
            self.make_watch()

    def make_hook(self) -> VideoPlatformHook:
        """Make the hook of the connection."""
        from airflow_provider_mediaops.hooks.video import VideoPlatformHook

        return VideoPlatformHook(self.conn_id)

    def make_watch(self) -> SubscriptionWatch:
        """Make what is waited for of the rendered arguments."""
        from airflow_provider_mediaops.video.subscription_exists import SubscriptionWatch

        return SubscriptionWatch(
            channel_id=self.channel_id, ids=self.ids, mine=self.mine, for_channel_ids=self.for_channel_ids
        )

    def make_trigger(self) -> SubscriptionTrigger:
        """Make the trigger that waits in this sensor's place."""
        from airflow_provider_mediaops.triggers.video import SubscriptionTrigger

        return SubscriptionTrigger(**self.trigger_arguments())
