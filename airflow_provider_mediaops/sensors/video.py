"""The sensor of the video platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mediaops.sensors.base import ServiceSensor
from airflow_provider_mediaops.task_failure import constructing, is_templated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.hooks.video import VideoPlatformHook
    from airflow_provider_mediaops.triggers.video import SubscriptionTrigger
    from airflow_provider_mediaops.video.subscription_exists import SubscriptionWatch


class SubscriptionSensor(ServiceSensor):
    """
    Wait until a subscription that matches exists, and return its ``id`` and ``title``.

    Exactly one of ``channel_id``, ``ids`` and ``mine`` selects the subscriptions.

    :param channel_id: the channel whose subscriptions are listed.
    :param ids: the identifiers of the subscriptions: a list, or one text with commas.
    :param mine: the authenticated user's own.
    :param for_channel_ids: only subscriptions to these channels count: a list, or one text with commas.
    :param video_conn_id: the connection's id.
    :param kwargs: those of :class:`~airflow_provider_mediaops.sensors.base.ServiceSensor`.
    :raises ValueError: if an argument cannot be used: here, or, if it is templated, before the first request.
    """

    template_fields: Sequence[str] = ("channel_id", "ids", "mine", "for_channel_ids", "conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(("ids", "for_channel_ids"), "json")

    def __init__(
        self,
        *,
        channel_id: str | None = None,
        ids: str | Sequence[str] | None = None,
        mine: bool | str = False,
        for_channel_ids: str | Sequence[str] | None = None,
        video_conn_id: str = "mediaops_video_default",
        **kwargs: Any,
    ) -> None:
        from airflow_provider_mediaops.video.arguments import SubscriptionQuery

        super().__init__(conn_id=video_conn_id, **kwargs)
        self.channel_id = channel_id
        self.ids = ids
        self.mine = mine
        self.for_channel_ids = for_channel_ids
        with constructing(self, kwargs):
            SubscriptionQuery.check(self._filter(), is_templated)

    def make_hook(self) -> VideoPlatformHook:
        """Make the hook of the connection."""
        from airflow_provider_mediaops.hooks.video import VideoPlatformHook

        return VideoPlatformHook(self.conn_id)

    def make_watch(self) -> SubscriptionWatch:
        """Return the condition that the rendered arguments describe."""
        from airflow_provider_mediaops.video.subscription_exists import SubscriptionWatch

        return SubscriptionWatch(**self._filter())

    def _filter(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("channel_id", "ids", "mine", "for_channel_ids")}

    def make_trigger(self, began: float, pause: float) -> SubscriptionTrigger:
        """Make the trigger that waits in this sensor's place; see :meth:`trigger_arguments`."""
        from airflow_provider_mediaops.triggers.video import SubscriptionTrigger

        return SubscriptionTrigger(**self.trigger_arguments(began, pause))
