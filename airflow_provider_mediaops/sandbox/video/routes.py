"""The two operations of the video platform: posting bulletins and listing subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from airflow_provider_mediaops.sandbox.reading import described, from_body, from_query
from airflow_provider_mediaops.sandbox.refusals import RefusedError, video_refusal
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState
from airflow_provider_mediaops.sandbox.video import bulletins, replies, subscriptions
from airflow_provider_mediaops.sandbox.video.access import Caller, admit_reader, admit_writer, login_required
from airflow_provider_mediaops.sandbox.video.parameters import InsertParameters, ListParameters, joined

if TYPE_CHECKING:
    from collections.abc import Mapping

router = APIRouter(tags=["video platform"])

_REASONS = {
    "missing": "missingRequiredParameter",
    "extra_forbidden": "unexpectedParameter",
    "json_invalid": "parseError",
    "incompatibleParameters": "incompatibleParameters",
    "missingRequiredParameter": "missingRequiredParameter",
    "unknownPart": "unknownPart",
}


async def _reader(request: Request, sandbox: Sandbox) -> Caller:
    return admit_reader(request, sandbox)


async def _writer(request: Request, sandbox: Sandbox) -> Caller:
    return admit_writer(request, sandbox)


@router.post(
    "/video/v3/activities",
    dependencies=[Depends(_writer)],
    openapi_extra=described(query=InsertParameters, body=bulletins.Activity),
)
async def insert_bulletin(
    parameters: Annotated[InsertParameters, from_query(InsertParameters, values=joined)],
    activity: Annotated[bulletins.Activity, from_body(bulletins.Activity)],
    sandbox: Sandbox,
) -> Response:
    """Post a bulletin."""
    shape = replies.Shape(parameters, replies.BULLETIN)
    bulletins.check(activity, parameters.parts, kind_prefix=sandbox.settings.kind_prefix)
    resource = bulletins.kept(activity, sandbox)
    return shape.reply({name: resource[name] for name in ("kind", "etag", "id", *sorted(parameters.parts))})


@router.get("/video/v3/subscriptions", openapi_extra=described(query=ListParameters))
async def list_subscriptions(
    caller: Annotated[Caller, Depends(_reader)],
    parameters: Annotated[ListParameters, from_query(ListParameters, values=joined)],
    sandbox: Sandbox,
) -> Response:
    """List subscriptions."""
    shape = replies.Shape(parameters, replies.SUBSCRIPTION_PAGE)
    items = _matching(parameters, caller, sandbox)
    if parameters.for_channel_id is not None:
        targets = parameters.for_channel_id.split(",")
        items = [item for item in items if item["snippet"]["resourceId"]["channelId"] in targets]
    question = parameters.model_dump(include={"channel_id", "id", "mine", "for_channel_id", "order"})
    page = subscriptions.page_of(
        subscriptions.in_order(items, parameters.order),
        size=parameters.max_results,
        token=parameters.page_token,
        query=sorted(question.items()),
    )
    if page is None:
        raise video_refusal(
            400,
            "invalidPageToken",
            "The page token is not one for this question and maxResults.",
            location="pageToken",
        )
    shown = ("kind", "etag", *sorted(parameters.parts))
    reply: dict[str, Any] = {
        "kind": f"{sandbox.settings.kind_prefix}#subscriptionListResponse",
        "etag": subscriptions.etag_of([item["etag"] for item in page.items]),
        "pageInfo": {"totalResults": page.total, "resultsPerPage": len(page.items)},
        "items": [{name: item[name] for name in shown} for item in page.items],
    }
    page_tokens = {"nextPageToken": page.next_token, "prevPageToken": page.prev_token}
    return shape.reply(reply | {name: token for name, token in page_tokens.items() if token})


def _matching(parameters: ListParameters, caller: Caller, sandbox: SandboxState) -> list[dict[str, Any]]:
    if parameters.id is not None:
        return sandbox.subscriptions.with_ids(parameters.id.split(","))
    if parameters.mine and caller.scopes is None:
        raise login_required()
    channel = parameters.channel_id or subscriptions.MINE
    if channel in subscriptions.WITHHELD:
        raise video_refusal(
            403, subscriptions.WITHHELD[channel], "This channel's subscriptions are not shown.", location="channelId"
        )
    items = sandbox.subscriptions.of_channel(channel)
    if items is None:
        raise video_refusal(404, "subscriberNotFound", "There is no such subscriber.", location="channelId")
    return items


def refusal_of_invalid(error: Mapping[str, Any]) -> RefusedError:
    """
    Return the refusal of a request that does not fit its model.

    :param error: the first of pydantic's errors; its ``loc`` begins with ``query`` or ``body``.
    :returns: the refusal.
    """
    whole, *rest = error["loc"]
    place = ".".join(str(name) for name in rest) or None
    reason = _REASONS.get(error["type"], "invalidParameter")
    if whole == "body" and reason != "parseError":
        reason = "invalid"
    return video_refusal(400, reason, f"{place or whole}: {error['msg']}", location=place)
