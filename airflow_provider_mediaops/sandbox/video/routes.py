"""The operations of the video platform, and who may use them: bulletins, subscriptions, and refreshing tokens."""

# ruff: noqa: N815 - the names of query parameters are the platform's: older FastAPI knows no others here

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from airflow_provider_mediaops.sandbox.faults import TOKEN_PATH
from airflow_provider_mediaops.sandbox.refusals import RefusedError, token_refusal, video_refusal
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState
from airflow_provider_mediaops.sandbox.video import bulletins, subscriptions, tokens

router = APIRouter(tags=["video platform"])

_GRANTED = frozenset({tokens.WRITE_SCOPE, tokens.READ_SCOPE})
_INSERT_COST = 50
_LIST_COST = 1


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
    if tokens.WRITE_SCOPE not in scopes:
        raise video_refusal(403, "insufficientPermissions", f"The token lacks the scope {tokens.WRITE_SCOPE}.")
    _charge(sandbox, _INSERT_COST)


#: The scopes of a request's token; None for an API key, which reads public data only.
Scopes: TypeAlias = Annotated[frozenset[str] | None, Depends(_admit_reader)]
#: The dependency of a route that only writers may use.
WRITER = Depends(_admit_writer)


def _login_required() -> RefusedError:
    """Return the refusal of a request that needs an access token and has none."""
    return video_refusal(401, "required", "This needs an access token.", location="Authorization")


def _scopes_of(request: Request, sandbox: SandboxState) -> frozenset[str] | None:
    key, header = request.query_params.get("key"), request.headers.get("Authorization")
    if key not in (None, tokens.API_KEY):
        refusal = video_refusal(400, "badRequest", "The API key is not valid.", location="key")
        refusal.body["error"]["details"] = [{"reason": "API_KEY_INVALID", "domain": "sandbox.example"}]
        raise refusal
    if header is None and key is None:
        raise _login_required()
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    scopes = sandbox.tokens.scopes_of(token) if scheme.lower() == "bearer" else None
    if scopes is None:
        raise video_refusal(401, "authError", "The access token is not valid.", location="Authorization")
    return scopes


def _charge(sandbox: SandboxState, units: int) -> None:
    limit = sandbox.settings.video_daily_units
    if not sandbox.video_quota.spend("all", units=units, limit=limit, now=sandbox.clock.now()):
        raise video_refusal(403, "rateLimitExceeded", f"The quota of {limit} units per day is spent.")


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
        raise _login_required()
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
