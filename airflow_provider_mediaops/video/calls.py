"""The calls and errors of the video platform, as values."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from airflow_provider_mediaops.arguments import shown
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    InvalidReplyError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.errors import ErrorClass, ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Request, Response
from airflow_provider_mediaops.http.reply import ErrorDetails, is_of_search_cluster, read_json

if TYPE_CHECKING:
    from airflow_provider_mediaops.video.arguments import Bulletin, SubscriptionQuery
    from airflow_provider_mediaops.video.models import Activity, SubscriptionPage


def insert_bulletin(bulletin: Bulletin, kind_prefix: str) -> Call[Activity]:
    """
    Return the call that posts a bulletin. Its ``part`` names exactly the properties of the body.

    :param bulletin: the bulletin.
    :param kind_prefix: the text before ``#`` in kinds.
    :returns: the call; it is not idempotent.
    """
    body = bulletin.resource(kind_prefix)
    request = Request(
        "POST",
        "/v3/activities",
        params=(("part", ",".join(body)),),
        headers={"Content-Type": "application/json; charset=utf-8"},
        body=json.dumps(body, ensure_ascii=False).encode(),
        idempotent=False,
    )
    return Call(request, _read_activity)


def _read_activity(response: Response) -> Activity:
    from airflow_provider_mediaops.video.models import Activity, validated

    body = read_json(response)
    kind = str(body.get("kind") or "")
    # The document does not show that an activity has an id, so its kind will do; but one of the two it must have.
    if not (kind.lower().endswith("#activity") if kind else body.get("id") and not body.get("error")):
        raise InvalidReplyError(
            f"The reply is no activity (its kind is {shown(kind)}, its id {shown(body.get('id'))})."
        )
    activity = validated(Activity, body, "activity")
    try:
        # It is written down and returned as plain values.
        activity.to_dict()
    except ValueError:
        raise InvalidReplyError("The reply is nested too deeply for an activity.") from None
    return activity


def list_page(query: SubscriptionQuery, token: str | None = None) -> Call[SubscriptionPage]:
    """
    Return the call for one page of subscriptions.

    :param query: which subscriptions.
    :param token: the ``next_page_token`` or ``prev_page_token`` of another page of this query; None for the first.
    :returns: the call.
    """
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
    return Call(Request("GET", "/v3/subscriptions", params=tuple(params)), _read_page)


def _read_page(response: Response) -> SubscriptionPage:
    from airflow_provider_mediaops.video.models import SubscriptionPage, validated

    body = read_json(response)
    kind = str(body.get("kind", ""))
    # Replies are seen with a capital S too, and services that share this interface have prefixes of their own.
    is_list = kind.lower().endswith("#subscriptionlistresponse") if kind else "items" in body
    if not is_list:
        raise InvalidReplyError(f"The reply is no subscription list (its kind is {shown(kind)}).")
    return validated(SubscriptionPage, body, "subscription list")


_PER_DAY = re.compile(rb"per[\s_-]?day", re.IGNORECASE)


def _refine(response: Response, _details: ErrorDetails, found: ErrorClass) -> ErrorClass:
    # The same reason is used for the rate, which passes, and for the day's quota, which does not; the text decides.
    if issubclass(found, RateLimitedError) and _PER_DAY.search(response.body):
        return QuotaExceededError
    # For a wrong API key, the first reason is badRequest; only the second one says it.
    if issubclass(found, BadRequestError) and b"API_KEY_INVALID" in response.body:
        return AuthenticationError
    return found


def _foreign_reply(response: Response, details: ErrorDetails) -> str:
    if not is_of_search_cluster(response, details):
        return ""
    return "A search cluster answers there: put the video platform's base address into the connection."


def _next_reset(now: datetime) -> datetime:
    # The platform's daily quotas come back at midnight Pacific time.
    there = now.astimezone(ZoneInfo("America/Los_Angeles"))
    midnight = (there + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight.astimezone(now.tzinfo)


_LOOK_AT_TOKEN = (
    "The access token or API key is missing, wrong or expired: check the connection's password, or use "  # noqa: S105
    "auth=refresh_token."
)
_LOOK_AT_SCOPE = "The token lacks the scope for this: have the user grant it and use the new token."

#: The errors of the video platform: those of its document, and those documented for the public service.
VIDEO_RULES = ErrorRules(
    service="video platform",
    by_reason={
        "playlistnotfound": NotFoundError,
        "videonotfound": NotFoundError,
        "subscribernotfound": NotFoundError,
        "channelnotfound": NotFoundError,
        "notfound": NotFoundError,
        "bulletintextrequired": BadRequestError,
        "invalidmetadata": BadRequestError,
        "invalidpagetoken": BadRequestError,
        "badrequest": BadRequestError,
        "ratelimitexceeded": RateLimitedError,
        "userratelimitexceeded": RateLimitedError,
        "quotaexceeded": QuotaExceededError,
        "dailylimitexceeded": QuotaExceededError,
        "keyinvalid": AuthenticationError,
        "invalid_grant": AuthenticationError,
        "invalid_client": AuthenticationError,
        "unauthorized_client": AuthenticationError,
        "youtubesignuprequired": PermissionDeniedError,
        "svcsignuprequired": PermissionDeniedError,
        "insufficientpermissions": PermissionDeniedError,
        "access_token_scope_insufficient": PermissionDeniedError,
        "permission_denied": PermissionDeniedError,
        "accountclosed": PermissionDeniedError,
        "accountsuspended": PermissionDeniedError,
        "subscriptionforbidden": PermissionDeniedError,
        "forbidden": PermissionDeniedError,
        "backenderror": ServiceUnavailableError,
    },
    advice={
        "playlistnotfound": "Check playlist_id.",
        "videonotfound": "Check video_id.",
        "subscribernotfound": "Check channel_id: the service knows no such subscriber.",
        "bulletintextrequired": "Give the bulletin a text.",
        "invalidmetadata": "Check kind_prefix in the connection: the kind does not fit the identifier.",
        "invalidpagetoken": "The page token is not one of this listing, or has expired: start from the first page.",
        "invalid_grant": "The refresh token was revoked or is too old: have the user grant access again.",
        "invalid_client": "Check the client id (Login) and client secret (Password) in the connection.",
        "svcsignuprequired": "The account has no channel: sign it up at the service; another token does not help.",
        "youtubesignuprequired": "The account has no channel: sign it up at the service; another token does not help.",
        "insufficientpermissions": _LOOK_AT_SCOPE,
        "access_token_scope_insufficient": _LOOK_AT_SCOPE,
        "subscriptionforbidden": "The channel does not show its subscriptions: use mine=True as its owner.",
        "accountclosed": "The account is closed.",
        "accountsuspended": "The account is suspended.",
    },
    advice_by_class={
        AuthenticationError: _LOOK_AT_TOKEN,
        NotFoundError: "Check the identifier, and the base address in the connection: it ends before /v3.",
        QuotaExceededError: "The day's quota is used up: nothing succeeds until midnight Pacific time.",
    },
    refine=_refine,
    quota_reset=_next_reset,
    advice_by_reply=_foreign_reply,
)
