"""The sensor of the video platform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow_provider_mediaops.sensors.base import ServiceSensor


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

    conn_id_field = "video_conn_id"
    watch_class = "airflow_provider_mediaops.video.subscription_exists:SubscriptionWatch"
    watch_fields = ("channel_id", "ids", "mine", "for_channel_ids")
    trigger_class = "airflow_provider_mediaops.triggers.video:SubscriptionTrigger"
    template_fields: Sequence[str] = (*watch_fields, "video_conn_id")
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
        super().__init__(**kwargs)
        self.channel_id = channel_id
        self.ids = ids
        self.mine = mine
        self.for_channel_ids = for_channel_ids
        self.video_conn_id = video_conn_id
        self._check_known()
