"""The video platform: posting bulletins, listing subscriptions, and its token endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request

from airflow_provider_mediaops.sandbox.clock import iso_milliseconds
from airflow_provider_mediaops.sandbox.reading import described, from_body, from_query
from airflow_provider_mediaops.sandbox.refusals import RefusedError, token_refusal, video_refusal
from airflow_provider_mediaops.sandbox.services import TOKEN_PATH
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState
from airflow_provider_mediaops.sandbox.video import subscriptions
from airflow_provider_mediaops.sandbox.video import tokens as video_tokens
from airflow_provider_mediaops.sandbox.video.models import (
    Activity,
    InsertParameters,
    ListParameters,
    ResourceId,
)

VIDEOS = ("sandbox-video-1", "sandbox-video-2", "sandbox-video-3")
PLAYLISTS = ("sandbox-playlist-1", "sandbox-playlist-2")
INSERT_COST = 50
LIST_COST = 1

router = APIRouter(tags=["video platform"])


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    :param credential: the bearer token or API key, for the rate limit.
    :param scopes: what the token is good for; None for an API key, which reads public data only.
    """

    credential: str
    scopes: frozenset[str] | None


def _identify(request: Request, sandbox: SandboxState) -> Caller:
    header = request.headers.get("Authorization")
    if header is not None:
        scheme, _, token = header.partition(" ")
        scopes = sandbox.tokens.scopes_of(token) if scheme.lower() == "bearer" else None
        if scopes is None:
            raise video_refusal(401, "authError", "The access token is not valid.", location="Authorization")
        return Caller(token, scopes)
    key = request.query_params.get("key")
    if key is None:
        raise _login_required()
    if key != video_tokens.API_KEY:
        refusal = video_refusal(400, "badRequest", "The API key is not valid.", location="key")
        refusal.body["error"]["details"] = [{"reason": "API_KEY_INVALID", "domain": "sandbox.example"}]
        raise refusal
    return Caller(key, None)


def _login_required() -> RefusedError:
    return video_refusal(401, "required", "This needs an access token.", location="Authorization")


def _charge(sandbox: SandboxState, caller: Caller, *, units: int, rate_reason: str) -> None:
    settings, now = sandbox.settings, sandbox.clock.now()
    if not sandbox.video_rate.admit(caller.credential, limit=settings.video_requests_per_second, now=now):
        raise video_refusal(403, rate_reason, "Too many requests in a second.", domain="usageLimits")
    if not sandbox.video_quota.spend("all", units=units, limit=settings.video_daily_units, now=now):
        raise video_refusal(403, "quotaExceeded", "The quota of this day is spent.", domain="usageLimits")


async def _reader(request: Request, sandbox: Sandbox) -> Caller:
    caller = _identify(request, sandbox)
    _charge(sandbox, caller, units=LIST_COST, rate_reason="userRateLimitExceeded")
    return caller


async def _writer(request: Request, sandbox: Sandbox) -> Caller:
    caller = _identify(request, sandbox)
    if caller.scopes is None:
        raise _login_required()
    if video_tokens.WRITE_SCOPE not in caller.scopes:
        raise video_refusal(403, "insufficientPermissions", f"The token lacks the scope {video_tokens.WRITE_SCOPE}.")
    # The specification names this reason for insert (section 7), where a list says userRateLimitExceeded.
    _charge(sandbox, caller, units=INSERT_COST, rate_reason="rateLimitExceeded")
    return caller


@router.post(
    "/video/v3/activities",
    dependencies=[Depends(_writer)],
    openapi_extra=described(query=InsertParameters, body=Activity),
)
async def insert_bulletin(
    parameters: Annotated[InsertParameters, from_query(InsertParameters)],
    activity: Annotated[Activity, from_body(Activity)],
    sandbox: Sandbox,
) -> dict[str, Any]:
    """Post a bulletin (video specification, section 4.1)."""
    _check_parts(parameters, activity)
    _check_bulletin(activity, sandbox.settings.kind_prefix)
    resource = _kept_bulletin(activity, sandbox)
    sandbox.bulletins.append(resource)
    return {name: resource[name] for name in ("kind", "etag", "id", *sorted(parameters.parts))}


def _check_parts(parameters: InsertParameters, activity: Activity) -> None:
    for name in sorted(activity.properties - parameters.parts):
        raise video_refusal(400, "unexpectedPart", f"The body holds {name}, which part does not name.", location=name)
    for name in sorted(parameters.parts - activity.properties):
        raise video_refusal(400, "missingPart", f"part names {name}, which the body does not hold.", location="part")


def _check_bulletin(activity: Activity, prefix: str) -> None:
    if activity.content_details is not None:
        _check_resource(activity.content_details.bulletin.resource_id, prefix)
    elif not (activity.snippet and (activity.snippet.description or "").strip()):
        raise video_refusal(
            400,
            "bulletinTextRequired",
            "A bulletin without a video or playlist needs a text in snippet.description.",
            location="snippet.description",
        )


def _check_resource(resource: ResourceId, prefix: str) -> None:
    kinds = {
        (f"{prefix}#video", True, False): (resource.video_id, VIDEOS, "video"),
        (f"{prefix}#playlist", False, True): (resource.playlist_id, PLAYLISTS, "playlist"),
    }
    shape = (resource.kind, resource.video_id is not None, resource.playlist_id is not None)
    if shape not in kinds:
        raise video_refusal(
            400,
            "invalidMetadata",
            f"kind is {prefix}#video with videoId alone, or {prefix}#playlist with playlistId alone.",
            location="contentDetails.bulletin.resourceId",
        )
    wanted, known, what = kinds[shape]
    if wanted not in known:
        raise video_refusal(404, f"{what}NotFound", f"There is no such {what}.", location=f"{what}Id")


def _kept_bulletin(activity: Activity, sandbox: SandboxState) -> dict[str, Any]:
    resource: dict[str, Any] = {
        "kind": f"{sandbox.settings.kind_prefix}#activity",
        "id": f"BULLETIN-{len(sandbox.bulletins) + 1:06d}",
    }
    written = activity.model_dump(by_alias=True, exclude_none=True)
    if activity.snippet is not None:
        resource["snippet"] = {
            "publishedAt": iso_milliseconds(sandbox.clock.now()),
            "channelId": subscriptions.MINE,
            "type": "bulletin",
            **written["snippet"],
        }
    if activity.content_details is not None:
        resource["contentDetails"] = written["contentDetails"]
    return {**resource, "etag": subscriptions.etag_of(resource)}


@router.get("/video/v3/subscriptions", openapi_extra=described(query=ListParameters))
async def list_subscriptions(
    caller: Annotated[Caller, Depends(_reader)],
    parameters: Annotated[ListParameters, from_query(ListParameters)],
    sandbox: Sandbox,
) -> dict[str, Any]:
    """List subscriptions (video specification, section 4.2)."""
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
    tokens = {"nextPageToken": page.next_token, "prevPageToken": page.prev_token}
    return reply | {name: token for name, token in tokens.items() if token}


def _matching(parameters: ListParameters, caller: Caller, sandbox: SandboxState) -> list[dict[str, Any]]:
    if parameters.id is not None:
        return sandbox.subscriptions.with_ids(parameters.id.split(","))
    if parameters.mine and caller.scopes is None:
        raise _login_required()
    channel = parameters.channel_id or subscriptions.MINE
    if channel in subscriptions.WITHHELD:
        raise video_refusal(
            403, subscriptions.WITHHELD[channel], "This channel's subscriptions are not shown.", location="channelId"
        )
    items = sandbox.subscriptions.of_channel(channel)
    if items is None:
        raise video_refusal(404, "subscriberNotFound", "There is no such subscriber.", location="channelId")
    return items


@router.post(TOKEN_PATH)
async def refresh_token(request: Request, sandbox: Sandbox) -> dict[str, Any]:
    """Give a new access token for a refresh token (RFC 6749 section 6), asked for in a form."""
    if request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise token_refusal(400, "invalid_request", "The request is a form (application/x-www-form-urlencoded).")
    form = {name: values[0] for name, values in parse_qs((await request.body()).decode("latin-1")).items()}
    for name in ("grant_type", "client_id", "client_secret", "refresh_token"):
        if name not in form:
            raise token_refusal(400, "invalid_request", f"The form lacks {name}.")
    if form["grant_type"] != "refresh_token":
        raise token_refusal(400, "unsupported_grant_type", "Only grant_type=refresh_token is known.")
    if (form["client_id"], form["client_secret"]) != (video_tokens.CLIENT_ID, video_tokens.CLIENT_SECRET):
        raise token_refusal(401, "invalid_client", "The client is unknown or its secret is wrong.")
    if form["refresh_token"] != video_tokens.REFRESH_TOKEN:
        raise token_refusal(400, "invalid_grant", "The refresh token is unknown or was revoked.")
    granted = frozenset({video_tokens.WRITE_SCOPE, video_tokens.READ_SCOPE})
    scopes = frozenset(form.get("scope", "").split()) or granted
    if not scopes <= granted:
        raise token_refusal(400, "invalid_scope", f"The user granted only {' '.join(sorted(granted))}.")
    return {
        "access_token": sandbox.tokens.issue(scopes),
        "expires_in": sandbox.tokens.lifetime,
        "scope": " ".join(sorted(scopes)),
        "token_type": "Bearer",
    }
