"""Access to the video platform: check the credential of a request, and its daily quota."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from airflow_provider_mediaops.sandbox.refusals import RefusedError, video_refusal
from airflow_provider_mediaops.sandbox.state import Sandbox, SandboxState  # noqa: TC001 - FastAPI reads the types
from airflow_provider_mediaops.sandbox.video import tokens

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
        raise login_required()
    if tokens.WRITE_SCOPE not in scopes:
        raise video_refusal(403, "insufficientPermissions", f"The token lacks the scope {tokens.WRITE_SCOPE}.")
    _charge(sandbox, _INSERT_COST)


#: The scopes of a request's token; None for an API key, which reads public data only.
Scopes: TypeAlias = Annotated[frozenset[str] | None, Depends(_admit_reader)]
#: The dependency of a route that only writers may use.
WRITER = Depends(_admit_writer)


def login_required() -> RefusedError:
    """Return the refusal of a request that needs an access token and has none."""
    return video_refusal(401, "required", "This needs an access token.", location="Authorization")


def _scopes_of(request: Request, sandbox: SandboxState) -> frozenset[str] | None:
    key, header = request.query_params.get("key"), request.headers.get("Authorization")
    if key not in (None, tokens.API_KEY):
        refusal = video_refusal(400, "badRequest", "The API key is not valid.", location="key")
        refusal.body["error"]["details"] = [{"reason": "API_KEY_INVALID", "domain": "sandbox.example"}]
        raise refusal
    if header is None and key is None:
        raise login_required()
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
