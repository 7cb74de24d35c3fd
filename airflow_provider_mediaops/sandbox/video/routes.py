"""The operations of the video platform: posting bulletins, listing subscriptions, and refreshing tokens."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request

from airflow_provider_mediaops.sandbox.refusals import token_refusal, video_refusal
from airflow_provider_mediaops.sandbox.services import TOKEN_PATH
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState
from airflow_provider_mediaops.sandbox.video import bulletins, subscriptions, tokens
from airflow_provider_mediaops.sandbox.video.access import WRITER, Scopes, login_required
from airflow_provider_mediaops.sandbox.video.parameters import InsertParameters, ListParameters

router = APIRouter(tags=["video platform"])

_GRANTED = frozenset({tokens.WRITE_SCOPE, tokens.READ_SCOPE})


@router.post("/video/v3/activities", dependencies=[WRITER])
async def insert_bulletin(
    parameters: Annotated[InsertParameters, Query()], activity: bulletins.Activity, sandbox: Sandbox
) -> dict[str, Any]:
    """Post a bulletin."""
    resource = bulletins.kept(activity, parameters.part, sandbox)
    return {name: resource[name] for name in ("kind", "etag", "id", *sorted({*parameters.part}))}


@router.get("/video/v3/subscriptions")
async def list_subscriptions(
    scopes: Scopes, parameters: Annotated[ListParameters, Query()], sandbox: Sandbox
) -> dict[str, Any]:
    """List subscriptions."""
    items = _matching(parameters, scopes, sandbox)
    if parameters.forChannelId is not None:
        targets = parameters.forChannelId.split(",")
        items = [item for item in items if item["snippet"]["resourceId"]["channelId"] in targets]
    question = parameters.model_dump(include={"channelId", "id", "mine", "forChannelId", "order"})
    page = subscriptions.page_of(
        subscriptions.in_order(items, parameters.order),
        size=parameters.maxResults,
        token=parameters.pageToken,
        query=sorted(question.items()),
    )
    if page is None:
        message = "The page token is not one for this question and maxResults."
        raise video_refusal(400, "invalidPageToken", message, location="pageToken")
    shown = ("kind", "etag", *sorted({*parameters.part}))
    return {
        **page,
        "kind": f"{sandbox.settings.kind_prefix}#subscriptionListResponse",
        "etag": subscriptions.etag_of([item["etag"] for item in page["items"]]),
        "items": [{name: item[name] for name in shown} for item in page["items"]],
    }


def _matching(parameters: ListParameters, scopes: frozenset[str] | None, sandbox: SandboxState) -> list[dict[str, Any]]:
    filters = {"channelId": parameters.channelId, "id": parameters.id, "mine": parameters.mine}
    given = [name for name, value in filters.items() if value]
    if len(given) > 1:
        message = f"Only one of channelId, id and mine can be given, not {' and '.join(given)}."
        raise video_refusal(400, "incompatibleParameters", message)
    if not given or parameters.mine == "false":
        message = "One filter is needed: channelId, id or mine=true."
        raise video_refusal(400, "missingRequiredParameter", message)
    if parameters.id:
        return sandbox.subscriptions.with_ids(parameters.id)
    if parameters.mine and scopes is None:
        raise login_required()
    channel = parameters.channelId or subscriptions.MINE
    if channel in subscriptions.WITHHELD:
        message = "This channel's subscriptions are not shown."
        raise video_refusal(403, subscriptions.WITHHELD[channel], message, location="channelId")
    items = sandbox.subscriptions.of_channel(channel)
    if items is None:
        raise video_refusal(404, "subscriberNotFound", "There is no such subscriber.", location="channelId")
    return items


@router.post(TOKEN_PATH)
async def refresh_token(request: Request, sandbox: Sandbox) -> dict[str, Any]:
    """
    Issue a new access token for a refresh token (RFC 6749, section 6).

    The form has `grant_type` (`refresh_token`), `client_id`, `client_secret`, `refresh_token` and, optional, `scope`.
    """
    form = {name: values[0] for name, values in parse_qs((await request.body()).decode("latin-1")).items()}
    for name in ("grant_type", "client_id", "client_secret", "refresh_token"):
        if name not in form:
            raise token_refusal(400, "invalid_request", f"The form lacks {name}.")
    if form["grant_type"] != "refresh_token":
        raise token_refusal(400, "unsupported_grant_type", "Only grant_type=refresh_token is known.")
    if (form["client_id"], form["client_secret"]) != (tokens.CLIENT_ID, tokens.CLIENT_SECRET):
        raise token_refusal(401, "invalid_client", "The client is unknown or its secret is wrong.")
    if form["refresh_token"] != tokens.REFRESH_TOKEN:
        raise token_refusal(400, "invalid_grant", "The refresh token is unknown or was revoked.")
    scopes = frozenset(form.get("scope", "").split()) or _GRANTED
    if not scopes <= _GRANTED:
        raise token_refusal(400, "invalid_scope", f"The user granted only {' '.join(sorted(_GRANTED))}.")
    return {
        "access_token": sandbox.tokens.issue(scopes),
        "expires_in": tokens.LIFETIME,
        "scope": " ".join(sorted(scopes)),
        "token_type": "Bearer",
    }
