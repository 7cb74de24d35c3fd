"""The calls and errors of the video platform, as values."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo

from airflow_provider_mediaops.arguments import (
    optional,
    read_choice,
    read_flag,
    read_identifier,
    read_text,
    read_texts,
    read_whole_number,
    shown,
)
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    InvalidArgumentError,
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
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import BaseModel

    from airflow_provider_mediaops.video.models import Activity, SubscriptionPage

Model = TypeVar("Model", bound="BaseModel")

#: The properties of a subscription that ``part`` can name.
SUBSCRIPTION_PARTS = ("id", "snippet", "contentDetails")
#: The listed orders, and the literal that the document states as the default.
ORDERS = ("alphabetical", "relevance", "unread", "SUBSCRIPTION_ORDER_RELEVANCE")
#: The largest page; the service's own default is 5.
LARGEST_PAGE = 50


@dataclass(frozen=True, slots=True)
class Bulletin:
    """
    A bulletin: a text, a video or a playlist; a text with either; never both of the others.

    :param text: the message.
    :param video_id: the video to attach.
    :param playlist_id: the playlist to attach.
    :raises ValueError: for a bulletin that the service would refuse.
    """

    text: str | None = None
    video_id: str | None = None
    playlist_id: str | None = None

    def __post_init__(self) -> None:
        _set(self, text=optional(read_text, "text", self.text))
        for name in ("video_id", "playlist_id"):
            # A template that renders to nothing attaches nothing; blanks are a mistake.
            identifier = getattr(self, name)
            _set(self, **{name: None if identifier == "" else optional(read_identifier, name, identifier)})
        if self.video_id and self.playlist_id:
            raise InvalidArgumentError(
                "A bulletin carries a video or a playlist, not both: leave out video_id or playlist_id."
            )
        if not ((self.text or "").strip() or self.video_id or self.playlist_id):
            raise InvalidArgumentError(
                "A bulletin needs a text, a video or a playlist (bulletinTextRequired): "
                "give text, video_id or playlist_id."
            )

    @classmethod
    def check(cls, arguments: Mapping[str, Any], is_templated: Callable[[object], bool]) -> None:
        """
        Check what is known of a bulletin before templates are rendered.

        :param arguments: the arguments of the constructor.
        :param is_templated: whether an argument is a template.
        :raises InvalidArgumentError: for an argument that is known and cannot be used.
        """
        known = {name: value for name, value in arguments.items() if not is_templated(value)}
        # A template may render to anything or nothing, but at least to one of the three.
        cls(**known if len(known) == len(arguments) else {"text": "rendered later", **known})

    def resource(self, kind_prefix: str) -> dict[str, Any]:
        """
        Return the activity resource that the service takes.

        :param kind_prefix: the text before ``#`` in kinds, for example ``svc``.
        :returns: the body, holding only the properties that are set.
        """
        body: dict[str, Any] = {}
        if (self.text or "").strip():
            body["snippet"] = {"description": self.text}
        attached = (
            {"kind": f"{kind_prefix}#video", "videoId": self.video_id}
            if self.video_id
            else {"kind": f"{kind_prefix}#playlist", "playlistId": self.playlist_id}
            if self.playlist_id
            else None
        )
        if attached:
            body["contentDetails"] = {"bulletin": {"resourceId": attached}}
        return body


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
    from airflow_provider_mediaops.video.models import Activity

    body = read_json(response)
    kind = str(body.get("kind") or "")
    # The document does not show that an activity has an id, so its kind will do; but one of the two it must have.
    if not (kind.lower().endswith("#activity") if kind else body.get("id") and not body.get("error")):
        raise InvalidReplyError(
            f"The reply is no activity (its kind is {shown(kind)}, its id {shown(body.get('id'))})."
        )
    return _validated(Activity, body, "activity")


@dataclass(frozen=True, slots=True)
class SubscriptionQuery:
    """
    Which subscriptions to list: exactly one of ``channel_id``, ``ids`` and ``mine``, and how.

    A list may also be one text with commas. After the construction, each list is a tuple of texts.

    :param channel_id: the channel whose subscriptions are listed.
    :param ids: the identifiers of the subscriptions.
    :param mine: the authenticated user's own.
    :param part: the properties to include.
    :param for_channel_ids: keep only subscriptions to these channels.
    :param order: ``alphabetical`` (the only stable one beyond a page), ``relevance`` or ``unread``; None leaves it
        to the service.
    :param max_results: records a page, 0 to 50; None leaves it to the service (5).
    :raises ValueError: if an argument cannot be used.
    """

    channel_id: str | None = None
    ids: str | Sequence[str] | None = None
    mine: bool = False
    part: str | Sequence[str] = SUBSCRIPTION_PARTS
    for_channel_ids: str | Sequence[str] | None = None
    order: str | None = None
    max_results: int | None = None

    def __post_init__(self) -> None:
        _set(
            self,
            channel_id=optional(read_identifier, "channel_id", self.channel_id),
            ids=optional(read_texts, "ids", self.ids),
            mine=read_flag("mine", self.mine),
            part=read_texts("part", self.part),
            for_channel_ids=optional(read_texts, "for_channel_ids", self.for_channel_ids),
            order=optional(read_choice, "order", self.order, choices=ORDERS),
            max_results=optional(read_page_size, "max_results", self.max_results),
        )
        filters = {"channel_id": self.channel_id, "ids": self.ids, "mine": self.mine or None}
        given = [name for name, value in filters.items() if value is not None]
        if len(given) != 1:
            raise InvalidArgumentError(
                f"Give exactly one of channel_id, ids and mine=True, not {' and '.join(given) or 'none of them'}."
            )
        unknown = [part for part in self.part if part not in SUBSCRIPTION_PARTS]
        if unknown:
            raise InvalidArgumentError(
                f"part knows {', '.join(SUBSCRIPTION_PARTS)}; not {', '.join(map(shown, unknown))}."
            )

    @classmethod
    def check(cls, arguments: Mapping[str, Any], is_templated: Callable[[object], bool]) -> None:
        """
        Check what is known of a query before templates are rendered.

        :param arguments: the arguments of the constructor.
        :param is_templated: whether an argument is a template.
        :raises InvalidArgumentError: for an argument that is known and cannot be used.
        """
        known = {name: value for name, value in arguments.items() if not is_templated(value)}
        if any(is_templated(arguments.get(name)) for name in ("channel_id", "ids", "mine")):
            # Whose subscriptions are meant is known when the task runs; but each one that is given must be right.
            optional(read_identifier, "channel_id", known.pop("channel_id", None))
            optional(read_texts, "ids", known.pop("ids", None))
            optional(read_flag, "mine", known.pop("mine", None))
            known["mine"] = True
        cls(**known)

    def page(self, token: str | None = None) -> Call[SubscriptionPage]:
        """
        Return the call for one page.

        :param token: the ``next_page_token`` or ``prev_page_token`` of another page of this query; None for the first.
        :returns: the call.
        """
        params = [("part", ",".join(self.part))]
        if self.channel_id is not None:
            params.append(("channelId", self.channel_id))
        if self.ids is not None:
            params.append(("id", ",".join(self.ids)))
        if self.mine:
            params.append(("mine", "true"))
        if self.for_channel_ids is not None:
            params.append(("forChannelId", ",".join(self.for_channel_ids)))
        if self.max_results is not None:
            params.append(("maxResults", str(self.max_results)))
        if self.order is not None:
            params.append(("order", self.order))
        if token:
            params.append(("pageToken", token))
        return Call(Request("GET", "/v3/subscriptions", params=tuple(params)), _read_page)


def read_page_size(name: str, value: object, *, minimum: int = 0) -> int:
    """
    Read the number of records a page.

    :param name: the argument, for the message.
    :param value: the number, or its text.
    :param minimum: the smallest that will do; 1 if all pages are listed, because 0 never comes to an end.
    :returns: the number.
    :raises InvalidArgumentError: if it is none, or beyond 50.
    """
    return read_whole_number(name, value, minimum=minimum, maximum=LARGEST_PAGE)


def _set(record: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(record, name, value)


def _read_page(response: Response) -> SubscriptionPage:
    from airflow_provider_mediaops.video.models import SubscriptionPage

    body = read_json(response)
    kind = str(body.get("kind", ""))
    # Replies are seen with a capital S too, and services that share this interface have prefixes of their own.
    is_list = kind.lower().endswith("#subscriptionlistresponse") if kind else "items" in body
    if not is_list:
        raise InvalidReplyError(f"The reply is no subscription list (its kind is {shown(kind)}).")
    return _validated(SubscriptionPage, body, "subscription list")


def _validated(model: type[Model], body: Mapping[str, Any], what: str) -> Model:
    from pydantic import ValidationError

    try:
        return model.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise InvalidReplyError(f"The reply is no {what}: {where}: {fault['msg']}.") from None


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
