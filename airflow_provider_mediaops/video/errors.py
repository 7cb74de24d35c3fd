"""The errors of the video platform and of its token address, and what to do about each."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

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
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.reply import is_of_search_cluster

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.errors import ErrorClass
    from airflow_provider_mediaops.http.exchange import Response
    from airflow_provider_mediaops.http.reply import ErrorDetails

_SERVICE = "video platform"
_PER_DAY = re.compile(rb"per[\s_-]?day", re.IGNORECASE)


def _refine(response: Response, _details: ErrorDetails, found: ErrorClass) -> ErrorClass:
    # The same reason is used for the rate, which passes, and for the day's quota, which does not; the text decides.
    if issubclass(found, RateLimitedError) and _PER_DAY.search(response.body):
        return QuotaExceededError
    # For a wrong API key, the first reason is badRequest; only the second one says it.
    if issubclass(found, BadRequestError) and b"API_KEY_INVALID" in response.body:
        return AuthenticationError
    return found


def _advice_by_reply(response: Response, details: ErrorDetails) -> str:
    if is_of_search_cluster(response, details):
        return "A search cluster answers there: put the video platform's base address into the connection."
    # Its reason may be no more than "forbidden".
    if b"SERVICE_DISABLED" in response.body:
        return _ENABLE
    # With 400, the same reason is a missing parameter.
    needs_user = response.status == HTTPStatus.UNAUTHORIZED and (details.reason or "").lower() in _LOGIN_REQUIRED
    return _NEEDS_USER if needs_user else ""


def _next_reset(now: datetime) -> datetime:
    # The platform's daily quotas come back at midnight Pacific time.
    there = now.astimezone(ZoneInfo("America/Los_Angeles"))
    midnight = (there + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight.astimezone(now.tzinfo)


_LOOK_AT_TOKEN = (
    "The access token or API key is missing, wrong or expired: check the connection's password, or use "  # noqa: S105
    "auth=refresh_token."
)
_LOOK_AT_APPLICATION = (
    "The service refuses an access token that was just issued: check that the host, token_url, client id (Login) and "
    "scopes in the connection are of one platform."
)
_LOOK_AT_SCOPE = "The token lacks the scope for this: have the user grant it and use the new token."
_LOGIN_REQUIRED = ("required", "authorizationrequired")
_NEEDS_USER = (
    "Posting and mine=True need an authorised user, which no API key is: use auth=bearer or auth=refresh_token in the "
    "connection."
)
_NO_CHANNEL = "The account has no channel: sign it up at the service; another token does not help."
_ENABLE = (
    "The service's interface is not enabled in the project of this credential: enable it there, and try again some "
    "minutes later."
)

_LOOK_AT_CLIENT = "Check the client id (Login), scopes and token_url in the connection."
_LOOK_AT_TOKEN_URL = "Check token_url in the connection: it is the address that exchanges refresh tokens."  # noqa: S105

#: The errors of the video platform: the words of its document, for which that shows no status, and those of the public
#: service that mean something else than their status.
VIDEO_RULES = ErrorRules(
    service=_SERVICE,
    by_reason={
        "playlistnotfound": NotFoundError,
        "videonotfound": NotFoundError,
        "notfound": NotFoundError,
        "bulletintextrequired": BadRequestError,
        "badrequest": BadRequestError,
        "ratelimitexceeded": RateLimitedError,
        "userratelimitexceeded": RateLimitedError,
        "quotaexceeded": QuotaExceededError,
        "dailylimitexceeded": QuotaExceededError,
        "keyinvalid": AuthenticationError,
        "youtubesignuprequired": PermissionDeniedError,
        "svcsignuprequired": PermissionDeniedError,
        # A fault of the service, whatever its status: a post may have been carried out.
        "backenderror": ServiceUnavailableError,
    },
    advice={
        "playlistnotfound": "Check playlist_id.",
        "videonotfound": "Check video_id.",
        "subscribernotfound": "Check channel_id: the service knows no such subscriber.",
        "bulletintextrequired": "Give the bulletin a text.",
        "invalidmetadata": "Check kind_prefix in the connection: the kind does not fit the identifier.",
        "invalidpagetoken": "The page token is not one of this listing, or has expired: start from the first page.",
        "accessnotconfigured": _ENABLE,
        "svcsignuprequired": _NO_CHANNEL,
        "youtubesignuprequired": _NO_CHANNEL,
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
    advice_by_reply=_advice_by_reply,
)

#: The same with ``auth=refresh_token``.
REFRESHED_RULES = replace(
    VIDEO_RULES, advice_by_class={**VIDEO_RULES.advice_by_class, AuthenticationError: _LOOK_AT_APPLICATION}
)

#: The errors of the address that exchanges refresh tokens (RFC 6749, section 5.2).
TOKEN_RULES = ErrorRules(
    service=_SERVICE,
    by_reason={
        "invalid_client": AuthenticationError,
        "invalid_grant": AuthenticationError,
        "unauthorized_client": AuthenticationError,
    },
    advice={
        "invalid_client": "Check the client id (Login) and client secret (Password) in the connection.",
        "invalid_grant": "The refresh token was revoked or is too old: have the user grant access again. If the "
        "application is in testing, each refresh token ends after 7 days: publish the application first.",
        "invalid_scope": "Check scopes in the connection: ask for those that the user has granted, or leave it empty.",
        "unauthorized_client": "The refresh token belongs to another client: check the client id (Login) in the "
        "connection, or have the user grant access to this one.",
    },
    advice_by_class={
        AuthenticationError: _LOOK_AT_CLIENT,
        BadRequestError: _LOOK_AT_CLIENT,
        PermissionDeniedError: _LOOK_AT_CLIENT,
        NotFoundError: _LOOK_AT_TOKEN_URL,
        InvalidReplyError: _LOOK_AT_TOKEN_URL,
    },
    address_field="token_url",
)
