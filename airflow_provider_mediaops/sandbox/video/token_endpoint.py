"""The token endpoint of the video platform (RFC 6749 section 6)."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request

from airflow_provider_mediaops.sandbox.refusals import token_refusal
from airflow_provider_mediaops.sandbox.services import TOKEN_PATH
from airflow_provider_mediaops.sandbox.state import Sandbox
from airflow_provider_mediaops.sandbox.video import tokens

router = APIRouter(tags=["video platform"])

_GRANTED = frozenset({tokens.WRITE_SCOPE, tokens.READ_SCOPE})


@router.post(TOKEN_PATH)
async def refresh_token(request: Request, sandbox: Sandbox) -> dict[str, Any]:
    """
    Issue a new access token for a refresh token.

    The form has `grant_type` (`refresh_token`), `client_id`, `client_secret`, `refresh_token` and, optional, `scope`.
    """
    if request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise token_refusal(400, "invalid_request", "The request is a form (application/x-www-form-urlencoded).")
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
        "expires_in": sandbox.tokens.lifetime,
        "scope": " ".join(sorted(scopes)),
        "token_type": "Bearer",
    }
