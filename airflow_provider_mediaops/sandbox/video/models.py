"""What the video platform takes: the parameters of its two operations and the body of a bulletin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from airflow_provider_mediaops.sandbox.refusals import RefusedError, video_refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WRITE_PARTS = ("snippet", "contentDetails")
READ_PARTS = ("id", "snippet", "contentDetails")

_REASONS = {
    "missing": "missingRequiredParameter",
    "extra_forbidden": "unexpectedParameter",
    "json_invalid": "parseError",
    "incompatibleParameters": "incompatibleParameters",
    "missingRequiredParameter": "missingRequiredParameter",
    "unknownPart": "unknownPart",
}


def _known_parts(value: str, known: Sequence[str]) -> str:
    for name in value.split(","):
        if name not in known:
            message = "'{name}' is not a part here; known parts: {known}."
            raise PydanticCustomError("unknownPart", message, {"name": name, "known": ", ".join(known)})
    return value


def _digits(value: object) -> object:
    """Refuse what Python would take for a whole number and the platform does not: signs, blanks, fractions."""
    if isinstance(value, str) and not re.fullmatch("[0-9]+", value):
        raise PydanticCustomError("notDigits", "A whole number is written in digits.")
    return value


def _write_parts(value: str) -> str:
    return _known_parts(value, WRITE_PARTS)


def _read_parts(value: str) -> str:
    return _known_parts(value, READ_PARTS)


class _CamelCase(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class InsertParameters(_CamelCase):
    """Parameters of a bulletin's insertion (video specification, section 4.1)."""

    part: Annotated[str, AfterValidator(_write_parts)] = Field(
        description="Names exactly the top-level properties of the body: `snippet`, `contentDetails`, or both."
    )

    @property
    def parts(self) -> frozenset[str]:
        """The parts' names."""
        return frozenset(self.part.split(","))


class ListParameters(_CamelCase):
    """Parameters of a subscriptions list (video specification, section 4.2)."""

    part: Annotated[str, AfterValidator(_read_parts)] = Field(
        description="What each subscription shows: `id`, `snippet`, `contentDetails`, separated by commas."
    )
    channel_id: str | None = Field(default=None, min_length=1, description="Filter: the subscriber's channel.")
    id: str | None = Field(default=None, min_length=1, description="Filter: subscription ids, separated by commas.")
    mine: Literal["true", "false"] | None = Field(
        default=None, description="Filter: `true` for the user's own, with a bearer token only."
    )
    for_channel_id: str | None = Field(
        default=None, min_length=1, description="Only subscriptions to these channels, separated by commas."
    )
    max_results: Annotated[int, BeforeValidator(_digits)] = Field(
        default=5, ge=0, le=50, description="Subscriptions a page."
    )
    order: Literal["alphabetical", "relevance", "unread", "SUBSCRIPTION_ORDER_RELEVANCE"] = Field(
        default="SUBSCRIPTION_ORDER_RELEVANCE", description="How they are sorted."
    )
    page_token: str | None = Field(default=None, min_length=1, description="From an earlier reply.")
    key: str | None = Field(default=None, description="An API key, for public data.")

    @property
    def parts(self) -> frozenset[str]:
        """The parts' names."""
        return frozenset(self.part.split(","))

    @model_validator(mode="after")
    def _exactly_one_filter(self) -> ListParameters:
        given = [
            name
            for name, value in (("channelId", self.channel_id), ("id", self.id), ("mine", self.mine))
            if value is not None
        ]
        if len(given) > 1:
            message = "Only one of channelId, id and mine can be given, not {given}."
            raise PydanticCustomError("incompatibleParameters", message, {"given": " and ".join(given)})
        if not given or self.mine == "false":
            raise PydanticCustomError("missingRequiredParameter", "One filter is needed: channelId, id or mine=true.")
        return self


class Snippet(_CamelCase):
    """A bulletin's text."""

    description: str | None = None


class ResourceId(_CamelCase):
    """The video or playlist that a bulletin carries."""

    kind: str
    video_id: str | None = None
    playlist_id: str | None = None


class Bulletin(_CamelCase):
    """What a bulletin carries besides its text."""

    resource_id: ResourceId


class ContentDetails(_CamelCase):
    """The bulletin within an activity."""

    bulletin: Bulletin


class Activity(_CamelCase):
    """An activity as it is written (video specification, section 2)."""

    snippet: Snippet | None = None
    content_details: ContentDetails | None = None

    @property
    def properties(self) -> frozenset[str]:
        """The top-level properties that are present, by their names in JSON; null is as good as absent."""
        return frozenset(self.model_dump(by_alias=True, exclude_none=True))


def refusal_of_invalid(error: Mapping[str, Any]) -> RefusedError:
    """Say what is wrong with a request that does not fit its model.

    :param error: the first of pydantic's errors; its ``loc`` begins with ``query`` or ``body``.
    :returns: the refusal.
    """
    whole, *rest = error["loc"]
    place = ".".join(str(name) for name in rest) or None
    reason = _REASONS.get(error["type"], "invalidParameter")
    if whole == "body" and reason != "parseError":
        reason = "required" if error["type"] == "missing" else "badRequest"
    return video_refusal(400, reason, f"{place or whole}: {error['msg']}", location=place)
