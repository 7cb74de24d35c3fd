"""Access tokens of the video platform: which are good, until when, and what for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.clock import Clock

#: What precedes ``/auth/…`` in the names of scopes.
SCOPE_BASE = "https://video.sandbox.example"
#: The scope that posting a bulletin needs.
WRITE_SCOPE = f"{SCOPE_BASE}/auth/svc"
#: A scope that is good for reading only.
READ_SCOPE = f"{SCOPE_BASE}/auth/svc.readonly"

# Invented words, which protect nothing.
BEARER_TOKEN = "sandbox-bearer-token"  # noqa: S105
READ_ONLY_TOKEN = "sandbox-read-only-token"  # noqa: S105
REFRESH_TOKEN = "sandbox-refresh-token"  # noqa: S105
CLIENT_ID = "sandbox-client-id"
CLIENT_SECRET = "sandbox-client-secret"  # noqa: S105
API_KEY = "sandbox-api-key"


class TokenStore:
    """
    The access tokens: two fixed ones that never expire, and the issued ones, which do.

    :param clock: decides when a token has expired.
    :param lifetime: seconds that an issued token is good for.
    """

    def __init__(self, clock: Clock, *, lifetime: int) -> None:
        self.lifetime = lifetime
        self._clock = clock
        self._issued: dict[str, tuple[float, frozenset[str]]] = {}
        self._count = 0

    def issue(self, scopes: frozenset[str]) -> str:
        """
        Issue a new access token.

        :param scopes: what it is good for.
        :returns: the token.
        """
        self._count += 1
        token = f"sandbox-access-token-{self._count}"
        self._issued[token] = (self._clock.now() + self.lifetime, scopes)
        return token

    def scopes_of(self, token: str) -> frozenset[str] | None:
        """
        Return what a token is good for now.

        :param token: as it came with the request.
        :returns: its scopes; None if it is unknown, revoked or expired.
        """
        if token == BEARER_TOKEN:
            return frozenset({WRITE_SCOPE})
        if token == READ_ONLY_TOKEN:
            return frozenset({READ_SCOPE})
        expiry, scopes = self._issued.get(token, (0.0, frozenset[str]()))
        return scopes if self._clock.now() < expiry else None

    def revoke(self, token: str) -> None:
        """
        End an issued token before its time; the fixed ones stay.

        :param token: as it came with the request.
        """
        self._issued.pop(token, None)
