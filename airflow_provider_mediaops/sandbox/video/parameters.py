"""The query parameters of the video platform: those of each operation, and those common to all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from airflow_provider_mediaops.sandbox.refusals import video_refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.datastructures import QueryParams

WRITE_PARTS = ("snippet", "contentDetails")
READ_PARTS = ("id", "snippet", "contentDetails")
#: Parameters that may carry an access token instead of the ``Authorization`` header.
TOKEN_PARAMETERS = ("access_token", "oauth_token")
#: Parameters that may be repeated; their values are joined.
REPEATED = frozenset({"part", "id"})


def joined(query: QueryParams) -> Mapping[str, str]:
    """
    Return one value for each parameter: a repeated ``part`` or ``id`` means all its values.

    :param query: the parameters as they came.
    :returns: the values by name.
    :raises RefusedError: if another parameter is repeated.
    """
    values: dict[str, str] = {}
    for name, value in query.multi_items():
        if name in values and name not in REPEATED:
            raise video_refusal(400, "invalidParameter", f"'{name}' may be given once only.", location=name)
        values[name] = f"{values[name]},{value}" if name in values else value
    return values


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


def _refuse_callback(_: str) -> NoReturn:
    message = "Replies are not wrapped in a call (JSONP): every web page could read them."
    raise PydanticCustomError("callback", message)


class CommonParameters(BaseModel):
    """The parameters that every operation of a Google-like API takes."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    alt: Literal["json"] = Field(default="json", description="Format of the reply; only `json` is here.")
    fields: str | None = Field(
        default=None, min_length=1, description="Which fields the reply has: `nextPageToken,items(id,snippet/title)`."
    )
    pretty_print: Literal["true", "false"] = Field(
        default="true", description="Whether the reply is indented, a line for each value."
    )
    quota_user: str | None = Field(default=None, description="Any text; each value has a rate of its own.")
    key: str | None = Field(default=None, description="An API key: good alone for public data.")
    access_token: str | None = Field(
        default=None, alias="access_token", description="An access token, instead of the `Authorization` header."
    )
    oauth_token: str | None = Field(default=None, alias="oauth_token", description="The same as `access_token`.")
    error_format: Literal["1"] = Field(
        default="1", alias="$.xgafv", description="Format of errors; only the first is here."
    )
    callback: Annotated[str, AfterValidator(_refuse_callback)] | None = Field(
        default=None, description="Refused: replies are not wrapped in a call (JSONP)."
    )


class _PartParameters(CommonParameters):
    """The parameters of an operation on some parts of a resource."""

    part: str

    @property
    def parts(self) -> frozenset[str]:
        """The parts' names."""
        return frozenset(self.part.split(","))


class InsertParameters(_PartParameters):
    """Parameters of posting a bulletin."""

    part: Annotated[str, AfterValidator(_write_parts)] = Field(
        description="Names exactly the top-level properties of the body: `snippet`, `contentDetails`, or both."
    )


class ListParameters(_PartParameters):
    """Parameters of listing subscriptions."""

    part: Annotated[str, AfterValidator(_read_parts)] = Field(
        description="What each subscription shows: `id`, `snippet`, `contentDetails`, separated by commas."
    )
    channel_id: str | None = Field(default=None, min_length=1, description="Filter: the subscriber's channel.")
    id: str | None = Field(default=None, min_length=1, description="Filter: subscription ids, separated by commas.")
    mine: Literal["true", "false"] | None = Field(
        default=None, description="Filter: `true` for the user's own, with an access token only."
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


def shown_names() -> set[str]:
    """Return the names of the parameters whose values are worth seeing and never secret."""
    names = {field.alias or name for name, field in ListParameters.model_fields.items()}
    return names - {"key", *TOKEN_PARAMETERS}
