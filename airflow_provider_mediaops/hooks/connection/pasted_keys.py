"""Read API keys and tokens of a search cluster in the forms in which people paste them."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_mediaops.hooks.connection.fields import ConnectionFields

_MEANING = "the API key, as encoded or as id:api_key, with auth=api_key"


def api_key(fields: ConnectionFields) -> str:
    """
    Return the encoded form of the API key in the password.

    It may be pasted encoded, as ``id:api_key``, as the JSON of the reply that made it, or with ``ApiKey`` before it.

    :raises InvalidConnectionError: if the password is none of these.
    """
    key = _without_scheme(fields.password, "ApiKey")
    if key.lstrip().startswith("{"):
        key = _key_in_json(fields, key)
    elif ":" in key:
        # Base64 has no colon.
        key = base64.b64encode(key.encode()).decode("ascii")
    return replace(fields, password=key).credential(_MEANING)


def bearer_token(fields: ConnectionFields) -> str:
    """
    Return the token in the password, without ``Bearer`` before it.

    :raises InvalidConnectionError: if it cannot be sent.
    """
    token = _without_scheme(fields.password, "Bearer")
    return replace(fields, password=token).credential("the token, with auth=bearer")


def _without_scheme(text: str, scheme: str) -> str:
    first, blank, rest = text.partition(" ")
    return rest.strip() if blank and first.lower() == scheme.lower() else text


def _key_in_json(fields: ConnectionFields, text: str) -> str:
    try:
        reply = json.loads(text)
    except ValueError:
        reply = {}
    if isinstance(encoded := reply.get("encoded"), str):
        return encoded
    parts = reply.get("id"), reply.get("api_key")
    if not all(isinstance(part, str) and part for part in parts):
        raise fields.error(
            "password", f"it begins like JSON, but has neither encoded nor id and api_key: write {_MEANING}."
        )
    return base64.b64encode(":".join(parts).encode()).decode("ascii")
