"""The calls of the video platform, as values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import shown
from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.http.exchange import Call, Request, Response
from airflow_provider_mediaops.http.reply import read_json

if TYPE_CHECKING:
    from airflow_provider_mediaops.video.arguments import Bulletin, SubscriptionQuery
    from airflow_provider_mediaops.video.models import Activity, SubscriptionPage


def insert_bulletin(bulletin: Bulletin, kind_prefix: str) -> Call[Activity]:
    """Return the call that posts a bulletin; its ``part`` names exactly the properties of the body."""
    body = bulletin.resource(kind_prefix)
    request = Request(
        "POST",
        "/v3/activities",
        params=(("part", ",".join(body)),),
        headers={"Content-Type": "application/json; charset=utf-8"},
        body=json.dumps(body, ensure_ascii=False).encode(),
        idempotent=False,
        kind="bulletin",
    )
    return Call(request, _read_activity)


def _read_activity(response: Response) -> Activity:
    from airflow_provider_mediaops.video.models import Activity, validated

    body = read_json(response)
    kind = str(body.get("kind") or "")
    # The document does not show that an activity has an id, so its kind will do; but one of the two it must have.
    if not (kind.lower().endswith("#activity") if kind else body.get("id") and not body.get("error")):
        raise InvalidReplyError(
            f"The reply is not an activity (its kind is {shown(kind)}, its id {shown(body.get('id'))})."
        )
    activity = validated(Activity, body, "activity")
    try:
        # It is written down and returned as plain values.
        activity.to_dict()
    except ValueError:
        raise InvalidReplyError("The reply is nested too deeply for an activity.") from None
    return activity


def list_page(query: SubscriptionQuery, token: str | None = None) -> Call[SubscriptionPage]:
    """Return the call for one page of subscriptions, by the token of its neighbour; None for the first."""
    params = [("part", ",".join(query.part))]
    if query.channel_id is not None:
        params.append(("channelId", query.channel_id))
    if query.ids is not None:
        params.append(("id", ",".join(query.ids)))
    if query.mine:
        params.append(("mine", "true"))
    if query.for_channel_ids is not None:
        params.append(("forChannelId", ",".join(query.for_channel_ids)))
    if query.max_results is not None:
        params.append(("maxResults", str(query.max_results)))
    if query.order is not None:
        params.append(("order", query.order))
    if token:
        params.append(("pageToken", token))
    return Call(Request("GET", "/v3/subscriptions", params=tuple(params), kind="subscriptions"), _read_page)


def _read_page(response: Response) -> SubscriptionPage:
    from airflow_provider_mediaops.video.models import SubscriptionPage, validated

    body = read_json(response)
    kind = str(body.get("kind", ""))
    # Replies are seen with a capital S too, and services that share this interface have prefixes of their own.
    is_list = kind.lower().endswith("#subscriptionlistresponse") if kind else "items" in body
    if not is_list:
        raise InvalidReplyError(f"The reply is not a subscription list (its kind is {shown(kind)}).")
    return validated(SubscriptionPage, body, "subscription list")
