"""The stand-in for the video platform: bulletins, subscriptions, refreshing tokens, and who may use them."""

# ruff: noqa: N815 - the names are the platform's: older FastAPI knows no others for query parameters

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from airflow_provider_mediaops.sandbox import subscriptions
from airflow_provider_mediaops.sandbox.clock import iso_milliseconds
from airflow_provider_mediaops.sandbox.faults import TOKEN_PATH
from airflow_provider_mediaops.sandbox.refusals import RefusedError, token_refusal, video_refusal
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState

#: The scope that posting a bulletin needs.
WRITE_SCOPE = "https://video.sandbox.example/auth/svc"
#: A scope that is good for reading only.
READ_SCOPE = f"{WRITE_SCOPE}.readonly"

# Invented words, which protect nothing.
BEARER_TOKEN = "sandbox-bearer-token"  # noqa: S105
READ_ONLY_TOKEN = "sandbox-read-only-token"  # noqa: S105
REFRESH_TOKEN = "sandbox-refresh-token"  # noqa: S105
CLIENT_ID = "sandbox-client-id"
CLIENT_SECRET = "sandbox-client-secret"  # noqa: S105
API_KEY = "sandbox-api-key"

VIDEOS = ("sandbox-video-1", "sandbox-video-2", "sandbox-video-3")
PLAYLISTS = ("sandbox-playlist-1", "sandbox-playlist-2")

# The tokens that never expire; those that are issued are good for so many seconds.
_FIXED = {BEARER_TOKEN: frozenset({WRITE_SCOPE}), READ_ONLY_TOKEN: frozenset({READ_SCOPE})}
_LIFETIME_SECONDS = 3_599
_GRANTED = frozenset({WRITE_SCOPE, READ_SCOPE})
_INSERT_COST = 50
_LIST_COST = 1

router = APIRouter(tags=["video platform"])


async def _admit_reader(request: Request, sandbox: Sandbox) -> frozenset[str] | None:
    """Check the credential of a request that only reads, and charge for it."""
    scopes = _scopes_of(request, sandbox)
    _charge(sandbox, _LIST_COST)
    return scopes


async def _admit_writer(request: Request, sandbox: Sandbox) -> None:
    """Check the credential of a request that posts a bulletin, and charge for it."""
    scopes = _scopes_of(request, sandbox)
    if scopes is None:
        raise _login_required()
    if WRITE_SCOPE not in scopes:
        raise video_refusal(403, f"The token lacks the scope {WRITE_SCOPE}.", "insufficientPermissions")
    _charge(sandbox, _INSERT_COST)


#: The scopes of a request's token; None for an API key, which reads public data only.
Scopes: TypeAlias = Annotated[frozenset[str] | None, Depends(_admit_reader)]


def _login_required() -> RefusedError:
    """Return the refusal of a request that needs an access token and has none."""
    return video_refusal(401, "This needs an access token.", "required", location="Authorization")


def _scopes_of(request: Request, sandbox: SandboxState) -> frozenset[str] | None:
    key, header = request.query_params.get("key"), request.headers.get("Authorization")
    if key not in (None, API_KEY):
        refusal = video_refusal(400, "The API key is not valid.", location="key")
        refusal.body["error"]["details"] = [{"reason": "API_KEY_INVALID", "domain": "sandbox.example"}]
        raise refusal
    if header is None:
        if key is None:
            raise _login_required()
        return None
    scheme, _, token = header.partition(" ")
    end, scopes = sandbox.tokens.get(token, (0.0, frozenset[str]()))
    if scheme.lower() == "bearer" and (token in _FIXED or sandbox.clock.now() < end):
        return _FIXED.get(token, scopes)
    raise video_refusal(401, "The access token is not valid.", location="Authorization")


def _charge(sandbox: SandboxState, units: int) -> None:
    limit = sandbox.settings.video_daily_units
    if not sandbox.video_quota.spend("all", units=units, limit=limit, now=sandbox.clock.now()):
        raise video_refusal(403, f"The quota of {limit} units per day is spent.", "rateLimitExceeded")


class _Strict(BaseModel):
    # With a limit, pydantic refuses half of a surrogate pair, too, which no reply could carry.
    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=100_000)


class Snippet(_Strict):
    """A bulletin's text."""

    description: str | None = Field(default=None, description="The text of the bulletin.")


class ResourceId(_Strict):
    """The video or playlist that a bulletin carries."""

    kind: str | None = Field(default=None, description="`svc#video` or `svc#playlist`; `--kind-prefix` replaces `svc`.")
    videoId: str | None = Field(default=None, description="The video to attach.")
    playlistId: str | None = Field(default=None, description="The playlist to attach.")


class Bulletin(_Strict):
    """What a bulletin carries besides its text."""

    resourceId: ResourceId | None = None


class ContentDetails(_Strict):
    """The bulletin within an activity."""

    bulletin: Bulletin | None = None


class Activity(_Strict):
    """An activity as it is posted."""

    snippet: Snippet | None = None
    contentDetails: ContentDetails | None = None


def _split(values: list[str]) -> list[str]:
    return [name for value in values for name in value.split(",")]


# Of a list, FastAPI makes a parameter that may be repeated; the values of one may also be separated by commas.
_Split = BeforeValidator(_split)


class CommonParameters(_Strict):
    """The parameters that both operations take."""

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


@router.post("/video/v3/activities", dependencies=[Depends(_admit_writer)])
async def insert_bulletin(
    parameters: Annotated[InsertParameters, Query()], activity: Activity, sandbox: Sandbox
) -> dict[str, Any]:
    """Post a bulletin."""
    prefix = sandbox.settings.kind_prefix
    written = activity.model_dump(exclude_none=True)
    _check(activity, {*parameters.part}, {*written}, prefix)
    resource = {"kind": f"{prefix}#activity", "id": f"BULLETIN-{len(sandbox.bulletins) + 1:06d}", **written}
    if "snippet" in written:
        at = iso_milliseconds(sandbox.clock.now())
        usual = {"publishedAt": at, "channelId": subscriptions.MINE, "type": "bulletin"}
        resource["snippet"] = usual | written["snippet"]
    whole = {**resource, "etag": subscriptions.etag_of(resource)}
    sandbox.bulletins.append(whole)
    return {name: whole[name] for name in ("kind", "etag", "id", *sorted(written))}


def _check(activity: Activity, parts: set[str], properties: set[str], prefix: str) -> None:
    for name in sorted(properties - parts):
        raise video_refusal(400, f"The body holds {name}, which part does not name.", "unexpectedPart", location=name)
    for name in sorted(parts - properties):
        raise video_refusal(400, f"part names {name}, which the body does not hold.", "missingPart", location="part")
    bulletin = activity.contentDetails and activity.contentDetails.bulletin
    resource = bulletin and bulletin.resourceId
    if resource:
        _check_resource(resource, prefix)
    elif not activity.snippet or not (activity.snippet.description or "").strip():
        message = "A bulletin without a video or playlist needs a text in snippet.description."
        raise video_refusal(400, message, "bulletinTextRequired", location="snippet.description")


def _check_resource(resource: ResourceId, prefix: str) -> None:
    kinds = {
        (f"{prefix}#video", True, False): (resource.videoId, VIDEOS, "video"),
        (f"{prefix}#playlist", False, True): (resource.playlistId, PLAYLISTS, "playlist"),
    }
    shape = (resource.kind, resource.videoId is not None, resource.playlistId is not None)
    if shape not in kinds:
        message = f"kind is {prefix}#video with videoId alone, or {prefix}#playlist with playlistId alone."
        raise video_refusal(400, message, "invalidMetadata", location="contentDetails.bulletin.resourceId")
    wanted, known, what = kinds[shape]
    if wanted not in known:
        raise video_refusal(404, f"There is no such {what}.", f"{what}NotFound", location=f"{what}Id")


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
        raise video_refusal(400, message, "invalidPageToken", location="pageToken")
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
        raise video_refusal(400, message, "incompatibleParameters")
    if not given or parameters.mine == "false":
        message = "One filter is needed: channelId, id or mine=true."
        raise video_refusal(400, message, "missingRequiredParameter")
    if parameters.id:
        return sandbox.subscriptions.with_ids(parameters.id)
    if parameters.mine and scopes is None:
        raise _login_required()
    channel = parameters.channelId or subscriptions.MINE
    if channel in subscriptions.WITHHELD:
        message = "This channel's subscriptions are not shown."
        raise video_refusal(403, message, subscriptions.WITHHELD[channel], location="channelId")
    items = sandbox.subscriptions.of_channel(channel)
    if items is None:
        raise video_refusal(404, "There is no such subscriber.", "subscriberNotFound", location="channelId")
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
            raise token_refusal(400, f"The form lacks {name}.")
    if form["grant_type"] != "refresh_token":
        raise token_refusal(400, "Only grant_type=refresh_token is known.", "unsupported_grant_type")
    if (form["client_id"], form["client_secret"]) != (CLIENT_ID, CLIENT_SECRET):
        raise token_refusal(401, "The client is unknown or its secret is wrong.", "invalid_client")
    if form["refresh_token"] != REFRESH_TOKEN:
        raise token_refusal(400, "The refresh token is unknown or was revoked.", "invalid_grant")
    scopes = frozenset(form.get("scope", "").split()) or _GRANTED
    if not scopes <= _GRANTED:
        raise token_refusal(400, f"The user granted only {' '.join(sorted(_GRANTED))}.", "invalid_scope")
    token = f"sandbox-access-token-{len(sandbox.tokens) + 1}"
    sandbox.tokens[token] = (sandbox.clock.now() + _LIFETIME_SECONDS, scopes)
    return {
        "access_token": token,
        "expires_in": _LIFETIME_SECONDS,
        "scope": " ".join(sorted(scopes)),
        "token_type": "Bearer",
    }
