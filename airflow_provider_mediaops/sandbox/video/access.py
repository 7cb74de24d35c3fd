"""Access to the video platform: check the credential of a request, its rate and its daily quota."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.sandbox.refusals import RefusedError, video_limit_refusal, video_refusal
from airflow_provider_mediaops.sandbox.video import tokens
from airflow_provider_mediaops.sandbox.video.parameters import TOKEN_PARAMETERS

if TYPE_CHECKING:
    from fastapi import Request

    from airflow_provider_mediaops.sandbox.state import SandboxState

INSERT_COST = 50
LIST_COST = 1


@dataclass(frozen=True, slots=True)
class Caller:
    """
    The caller of a request.

    :param rate_key: names the bearer token or API key and the ``quotaUser``: each pair has a rate of its own.
    :param scopes: what the token allows; None for an API key, which reads public data only.
    """

    rate_key: str
    scopes: frozenset[str] | None


def admit_reader(request: Request, sandbox: SandboxState) -> Caller:
    """
    Check the credential of a request that only reads, and count the request.

    :param request: the request; nothing but its credential is looked at.
    :param sandbox: the state with the tokens and the limits.
    :returns: the caller.
    :raises RefusedError: if the credential is missing or wrong, or a limit is reached.
    """
    caller = _identify(request, sandbox)
    _charge(sandbox, caller, units=LIST_COST)
    return caller


def admit_writer(request: Request, sandbox: SandboxState) -> Caller:
    """
    Check the credential of a request that posts a bulletin, and count the request.

    :param request: the request; nothing but its credential is looked at.
    :param sandbox: the state with the tokens and the limits.
    :returns: the caller.
    :raises RefusedError: if the credential does not allow it, or a limit is reached.
    """
    caller = _identify(request, sandbox)
    if caller.scopes is None:
        raise login_required()
    if tokens.WRITE_SCOPE not in caller.scopes:
        raise video_refusal(403, "insufficientPermissions", f"The token lacks the scope {tokens.WRITE_SCOPE}.")
    _charge(sandbox, caller, units=INSERT_COST)
    return caller


def login_required() -> RefusedError:
    """Return the refusal of a request that needs an access token and has none."""
    return video_refusal(401, "required", "This needs an access token.", location="Authorization")


def _identify(request: Request, sandbox: SandboxState) -> Caller:
    query = request.query_params
    user = query.get("quotaUser", "")
    key = query.get("key")
    if key not in (None, tokens.API_KEY):
        refusal = video_refusal(400, "badRequest", "The API key is not valid.", location="key")
        refusal.body["error"]["details"] = [{"reason": "API_KEY_INVALID", "domain": "sandbox.example"}]
        raise refusal
    given = [name for name in TOKEN_PARAMETERS if name in query]
    header = request.headers.get("Authorization")
    if len(given) + (header is not None) > 1:
        message = "The request carries more than one access token."
        raise video_refusal(400, "badRequest", message, location=given[0])
    if given:
        return _bearer(query[given[0]], user, sandbox, location=given[0])
    if header is not None:
        scheme, _, token = header.partition(" ")
        return _bearer(token if scheme.lower() == "bearer" else "", user, sandbox, location="Authorization")
    if key is None:
        raise login_required()
    return Caller(f"{key} {user}", None)


def _bearer(token: str, user: str, sandbox: SandboxState, *, location: str) -> Caller:
    scopes = sandbox.tokens.scopes_of(token)
    if scopes is None:
        raise video_refusal(401, "authError", "The access token is not valid.", location=location)
    return Caller(f"{token} {user}", scopes)


def _charge(sandbox: SandboxState, caller: Caller, *, units: int) -> None:
    settings, now = sandbox.settings, sandbox.clock.now()
    if not sandbox.video_rate.admit(caller.rate_key, limit=settings.video_requests_per_second, now=now):
        raise video_limit_refusal("Too many requests in a second.")
    if not sandbox.video_quota.spend("all", units=units, limit=settings.video_daily_units, now=now):
        raise video_limit_refusal(f"The quota of {settings.video_daily_units} units per day is spent.")
