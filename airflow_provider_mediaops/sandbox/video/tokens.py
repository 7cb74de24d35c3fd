"""Access tokens of the video platform: which are good, until when, and what for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.clock import Clock

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

#: Seconds that an issued token is good for.
LIFETIME = 3_599

_FIXED = {BEARER_TOKEN: frozenset({WRITE_SCOPE}), READ_ONLY_TOKEN: frozenset({READ_SCOPE})}


class TokenStore:
    """The access tokens: two fixed ones that never expire, and the issued ones, which do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._issued: dict[str, tuple[float, frozenset[str]]] = {}

    def issue(self, scopes: frozenset[str]) -> str:
        """Issue a new access token with these scopes."""
        token = f"sandbox-access-token-{len(self._issued) + 1}"
        self._issued[token] = (self._clock.now() + LIFETIME, scopes)
        return token

    def scopes_of(self, token: str) -> frozenset[str] | None:
        """Return the scopes that a token has now; None if it is unknown or expired."""
        if token in _FIXED:
            return _FIXED[token]
        expiry, scopes = self._issued.get(token, (0.0, frozenset[str]()))
        return scopes if self._clock.now() < expiry else None
