"""Replies of the video platform, as it sends them: known fields typed, unknown ones kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, InstanceOf, ValidationError
from pydantic.alias_generators import to_camel

from airflow_provider_mediaops.arguments import shown
from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.http.reply import read_json

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response

Model = TypeVar("Model", bound=BaseModel)

# A property that is null counts as absent.
_Properties = Annotated[dict[str, Any], BeforeValidator(lambda value: {} if value is None else value)]


class _Record(BaseModel):
    # Unknown fields are kept, so that what the service adds later is not lost.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", frozen=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the record under the service's own field names, with every field that it sent."""
        return self.model_dump(by_alias=True, exclude_unset=True, mode="json")


class _Resource(_Record):
    id: str | None = None
    kind: str | None = None
    etag: str | None = None
    snippet: _Properties = Field(default_factory=dict)
    content_details: _Properties = Field(default_factory=dict)


class Activity(_Resource):
    """
    A posted bulletin.

    :param id: the activity's identifier, if the service sends one.
    :param kind: for example ``svc#activity``.
    :param snippet: its properties, among them ``description``.
    :param content_details: the attached video or playlist.
    """

    @property
    def text(self) -> str | None:
        """The bulletin's text."""
        text = self.snippet.get("description")
        return text if isinstance(text, str) else None


class Subscription(_Resource):
    """
    One subscription.

    :param id: the subscription's identifier.
    :param snippet: its properties, among them ``title`` and ``resourceId``; empty if ``part`` left it out.
    :param content_details: figures of the channel; empty if ``part`` left it out.
    """

    @property
    def title(self) -> str | None:
        """The display title."""
        title = self.snippet.get("title")
        return title if isinstance(title, str) else None

    @property
    def channel_id(self) -> str | None:
        """The channel that is subscribed to."""
        resource = self.snippet.get("resourceId")
        channel = resource.get("channelId") if isinstance(resource, dict) else None
        return channel if isinstance(channel, str) else None


class PageInfo(_Record):
    """
    The service's own count. It is known to be wrong in both directions.

    :param total_results: results in the whole set.
    :param results_per_page: results in this reply.
    """

    total_results: int | None = None
    results_per_page: int | None = None


class SubscriptionPage(_Record):
    """
    One page of subscriptions.

    :param items: the records as they came.
    :param next_page_token: leads to the next page; None on the last.
    :param prev_page_token: leads to the page before; None on the first.
    """

    kind: str | None = None
    etag: str | None = None
    page_info: PageInfo = Field(default_factory=PageInfo)
    next_page_token: str | None = None
    prev_page_token: str | None = None
    # Not copied: a listing has thousands of pages. An error for each wrong item would take gigabytes.
    items: Annotated[list[InstanceOf[dict[str, Any]]], FailFast()] = Field(default_factory=list)

    @property
    def subscriptions(self) -> list[Subscription]:
        """The records, typed."""
        return [read_subscription(item) for item in self.items]


def read_subscription(record: Mapping[str, Any]) -> Subscription:
    """Read a record of a listing; raise InvalidReplyError if a field has another type than documented."""
    return _validated(Subscription, record, "subscription")


def _validated(model: type[Model], body: Mapping[str, Any], what: str) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
    # Outside the handler: the library's error quotes the reply.
    where = ".".join(map(str, fault["loc"]))
    raise InvalidReplyError(f"The reply is not a {what}: {where}: {fault['msg']}.", service="video platform")


def read_activity(response: Response) -> Activity:
    """Read the reply to a post."""
    body = read_json(response)
    kind = str(body.get("kind") or "")
    # The document does not show that an activity has an id, so its kind will do; but one of the two it must have.
    if not (kind.lower().endswith("#activity") if kind else body.get("id") and not body.get("error")):
        raise InvalidReplyError(
            f"The reply is not an activity (its kind is {shown(kind)}, its id {shown(body.get('id'))})."
        )
    activity = _validated(Activity, body, "activity")
    try:
        # It is written down and returned as plain values.
        activity.to_dict()
    except ValueError:
        raise InvalidReplyError("The reply is nested too deeply for an activity.") from None
    return activity


def read_page(response: Response) -> SubscriptionPage:
    """Read a page of subscriptions."""
    body = read_json(response)
    kind = str(body.get("kind", ""))
    # Replies are seen with a capital S too, and services that share this interface have prefixes of their own.
    is_list = kind.lower().endswith("#subscriptionlistresponse") if kind else "items" in body
    if not is_list:
        raise InvalidReplyError(f"The reply is not a subscription list (its kind is {shown(kind)}).")
    return _validated(SubscriptionPage, body, "subscription list")
