"""
What the video platform is asked with: bulletins and lists, how each is read, checked and sent.

It loads no client and no models: the constructors of operators and sensors check with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_mediaops.arguments import (
    optional,
    read_choice,
    read_flag,
    read_identifier,
    read_path,
    read_text,
    read_texts,
    read_whole_number,
    refused,
    shown,
)
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Call
    from airflow_provider_mediaops.video.models import Activity, SubscriptionPage

#: The properties of a subscription that ``part`` can name.
SUBSCRIPTION_PARTS = ("id", "snippet", "contentDetails")
#: The listed orders, and the literal that the document states as the default.
ORDERS = ("alphabetical", "relevance", "unread", "SUBSCRIPTION_ORDER_RELEVANCE")
#: The largest page.
LARGEST_PAGE = 50
#: The page that the service sends if no size is asked for.
DEFAULT_PAGE = 5
#: What happens if it is not known whether a bulletin was posted: the task fails, or its next try posts again.
OnUncertain = Literal["fail", "retry"]
ON_UNCERTAIN: tuple[OnUncertain, ...] = get_args(OnUncertain)
_CONTENTS = ("text", "video_id", "playlist_id")
# What a template makes of a date that a run does not have; it would join bulletins that have nothing in common.
_NO_VALUES = ("None", "NaT")


@dataclass(slots=True)
class Bulletin:
    """A bulletin: a text, a video or a playlist; a text with either; never both of the others."""

    text: str | None = None
    video_id: str | None = None
    playlist_id: str | None = None

    def __post_init__(self) -> None:
        self.text = optional(read_text, "text", self.text)
        # A template that renders to nothing attaches nothing; blanks are a mistake.
        self.video_id = optional(_read_id, "video_id", None if self.video_id == "" else self.video_id)
        self.playlist_id = optional(_read_id, "playlist_id", None if self.playlist_id == "" else self.playlist_id)
        if self.video_id and self.playlist_id:
            raise InvalidArgumentError(
                "A bulletin carries a video or a playlist, not both: leave out video_id or playlist_id."
            )
        if not ((self.text or "").strip() or self.video_id or self.playlist_id):
            raise InvalidArgumentError(
                "A bulletin needs a text, a video or a playlist (bulletinTextRequired): "
                "give text, video_id or playlist_id."
            )

    def resource(self, kind_prefix: str) -> dict[str, Any]:
        """Return the activity resource that the service takes, with the properties that are set."""
        body: dict[str, Any] = {}
        if (self.text or "").strip():
            body["snippet"] = {"description": self.text}
        for what, identifier in (("video", self.video_id), ("playlist", self.playlist_id)):
            if identifier:
                attached = {"kind": f"{kind_prefix}#{what}", f"{what}Id": identifier}
                body["contentDetails"] = {"bulletin": {"resourceId": attached}}
        return body

    def post(self, kind_prefix: str) -> Call[Activity]:
        """Return the call that posts the bulletin; its ``part`` names exactly the properties of the body."""
        from airflow_provider_mediaops.http.exchange import Call, Request
        from airflow_provider_mediaops.video.models import read_activity

        body = self.resource(kind_prefix)
        request = Request(
            "POST",
            "/v3/activities",
            params=(("part", ",".join(body)),),
            headers={"Content-Type": "application/json; charset=utf-8"},
            body=json.dumps(body, ensure_ascii=False).encode(),
            idempotent=False,
            kind="bulletin",
        )
        return Call(request, read_activity)


def check_bulletin(given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
    """Check the arguments of a bulletin's task or notifier that are known: all but the templated ones at parse time."""
    known = {name: value for name, value in given.items() if not is_unknown(value)}
    if given["journal"] is None and given["once_per"] is not None:
        raise InvalidArgumentError("once_per needs journal: the folder in which it is noted what was posted.")
    optional(read_path, "journal", known.get("journal"))
    optional(read_once_per, "once_per", known.get("once_per"))
    read_identifier("video_conn_id", known.get("video_conn_id", "any"))
    read_choice("on_uncertain", known.get("on_uncertain", "fail"), ON_UNCERTAIN)
    read_flag("post_again_on_clear", known.get("post_again_on_clear", False))
    contents = {name: known[name] for name in _CONTENTS if name in known}
    # A template may render to anything or nothing, but at least to one of the three.
    if len(contents) < len(_CONTENTS) and contents.get("text") in (None, ""):
        contents["text"] = "rendered later"
    Bulletin(**contents)


def read_once_per(name: str, value: object) -> str:
    """Read the value of which a bulletin is posted once: a text that is not blank, and no text of a missing date."""
    text = read_identifier(name, value)
    if text in _NO_VALUES:
        rule = "names one bulletin: a template gave the text of a missing value (a run without a logical date?)"
        raise refused(name, value, rule)
    return text


@dataclass(slots=True)
class SubscriptionQuery:
    """
    Which subscriptions to list: exactly one of ``channel_id``, ``ids`` and ``mine``, and how.

    A list may also be one text with commas. After the construction, each list is a tuple of texts. Raise ValueError if
    an argument cannot be used.
    """

    channel_id: str | None = None  # whose subscriptions
    ids: str | Sequence[str] | None = None  # of the subscriptions
    mine: bool = False  # the authenticated user's own
    part: str | Sequence[str] = SUBSCRIPTION_PARTS  # the properties to include
    for_channel_ids: str | Sequence[str] | None = None  # only subscriptions to these
    # ``alphabetical`` (the only stable one beyond a page), ``relevance`` or ``unread``; None leaves it to the service.
    order: str | None = None
    max_results: int | None = None  # a page, 0 to 50; None leaves it to the service (5)

    def __post_init__(self) -> None:
        self.channel_id = optional(_read_id, "channel_id", self.channel_id)
        self.ids = optional(read_texts, "ids", self.ids)
        self.mine = read_flag("mine", self.mine)
        self.part = read_texts("part", self.part)
        self.for_channel_ids = optional(_read_channel_ids, "for_channel_ids", self.for_channel_ids)
        self.order = optional(read_choice, "order", self.order, choices=ORDERS)
        self.max_results = optional(read_page_size, "max_results", self.max_results)
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
        """Check those arguments of the constructor that are known before templates are rendered."""
        known = {name: value for name, value in arguments.items() if not is_templated(value)}
        if any(is_templated(arguments.get(name)) for name in ("channel_id", "ids", "mine")):
            # Whose subscriptions are meant is known when the task runs; but each one that is given must be right.
            optional(_read_id, "channel_id", known.pop("channel_id", None))
            optional(read_texts, "ids", known.pop("ids", None))
            optional(read_flag, "mine", known.pop("mine", None))
            known["mine"] = True
        cls(**known)

    def page(self, token: str | None = None) -> Call[SubscriptionPage]:
        """Return the call for one page, by the token of its neighbour; None for the first."""
        from airflow_provider_mediaops.http.exchange import Call, Request
        from airflow_provider_mediaops.video.models import read_page

        params = {
            "part": ",".join(self.part),
            "channelId": self.channel_id,
            "id": None if self.ids is None else ",".join(self.ids),
            "mine": "true" if self.mine else None,
            "forChannelId": None if self.for_channel_ids is None else ",".join(self.for_channel_ids),
            "maxResults": None if self.max_results is None else str(self.max_results),
            "order": self.order,
            "pageToken": token or None,
        }
        given = tuple((name, value) for name, value in params.items() if value is not None)
        return Call(Request("GET", "/v3/subscriptions", params=given, kind="subscriptions"), read_page)


def _read_id(name: str, value: object) -> str:
    """Read the identifier of a channel, a video or a playlist; people also write a handle or an address there."""
    identifier = read_identifier(name, value)
    if not (identifier.startswith("@") or "/" in identifier):
        return identifier
    written = "a handle" if identifier.startswith("@") else "an address"
    # For example https://www.youtube.com/channel/UC_x5XG1OV2P6uZZ5FSM9Ttw
    _, is_in_it, channel = identifier.partition("/channel/")
    correction = f"write {shown(channel.strip('/'))}" if is_in_it else "write the identifier itself"
    raise InvalidArgumentError(
        f"{name} holds {written}, which the service does not take: {shown(value)}; {correction}."
    )


def _read_channel_ids(name: str, value: object) -> tuple[str, ...]:
    return tuple(_read_id(f"an entry of {name}", entry) for entry in read_texts(name, value))


def read_page_size(name: str, value: object, *, minimum: int = 0) -> int:
    """Read the number of records a page; 0 will not do where all pages are listed, because it never comes to an end."""
    return read_whole_number(name, value, minimum=minimum, maximum=LARGEST_PAGE)
