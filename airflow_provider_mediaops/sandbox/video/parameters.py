"""The query parameters of the video platform. Their names are the platform's: older FastAPI knows no others here."""

# ruff: noqa: N815

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _split(values: list[str]) -> list[str]:
    return [name for value in values for name in value.split(",")]


# Of a list, FastAPI makes a parameter that may be repeated; the values of one may also be separated by commas.
_Split = BeforeValidator(_split)


class CommonParameters(BaseModel):
    """The parameters that both operations take."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    alt: Literal["json"] = Field(default="json", description="Format of the reply, which Google's client names.")
    key: str | None = Field(default=None, description="An API key: good alone for public data.")


class InsertParameters(CommonParameters):
    """Parameters of posting a bulletin."""

    part: Annotated[list[Literal["snippet", "contentDetails"]], _Split] = Field(
        description="Names exactly the top-level properties of the body: `snippet`, `contentDetails`, or both."
    )


class ListParameters(CommonParameters):
    """Parameters of listing subscriptions."""

    part: Annotated[list[Literal["id", "snippet", "contentDetails"]], _Split] = Field(
        description="What each subscription shows: `id`, `snippet`, `contentDetails`, separated by commas."
    )
    channelId: str | None = Field(default=None, min_length=1, description="Filter: the subscriber's channel.")
    id: Annotated[list[str], _Split] = Field(default=[], description="Filter: subscription ids, separated by commas.")
    mine: Literal["true", "false"] | None = Field(
        default=None, description="Filter: `true` for the user's own, with an access token only."
    )
    forChannelId: str | None = Field(
        default=None, min_length=1, description="Only subscriptions to these channels, separated by commas."
    )
    maxResults: int = Field(default=5, ge=0, le=50, description="Subscriptions a page.")
    order: Literal["alphabetical", "relevance", "unread", "SUBSCRIPTION_ORDER_RELEVANCE"] = Field(
        default="SUBSCRIPTION_ORDER_RELEVANCE", description="How they are sorted."
    )
    pageToken: str | None = Field(default=None, min_length=1, description="From an earlier reply.")
