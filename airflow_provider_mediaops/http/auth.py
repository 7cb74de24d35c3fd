"""Credentials on a request: fixed ones, and access tokens that are refreshed."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.http.exchange import Call, Request, Response
from airflow_provider_mediaops.http.reply import read_json
from airflow_provider_mediaops.http.retry import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

# A token that would run out on the way is refreshed before it is used: a minute, or a tenth of a shorter life.
_LEEWAY = 60.0


def is_header_text(text: str) -> bool:
    """Say whether a text can stand in a header as it is: printable ASCII, with no blank at its ends, not empty."""
    return text.isascii() and text.isprintable() and text == text.strip() != ""


class Auth(Protocol):
    """How a service is shown who asks."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every credential this holds now, to be struck out of messages."""
        ...

    def token_request(self) -> Call[None] | None:
        """Give the call to make before a request can be signed, or None where none is needed."""
        ...

    def sign(self, request: Request) -> Request:
        """Give the request with the credential on it."""
        ...

    def invalidate(self) -> bool:
        """Drop a credential that the service refused; say whether another can be had."""
        ...


@dataclass(frozen=True, slots=True)
class NoAuth:
    """No credentials."""

    secrets: tuple[str, ...] = ()

    def token_request(self) -> Call[None] | None:
        """Need nothing first."""
        return None

    def sign(self, request: Request) -> Request:
        """Give the request as it is."""
        return request

    def invalidate(self) -> bool:
        """Have no other credential."""
        return False


@dataclass(frozen=True, slots=True)
class HeaderAuth:
    """
    A fixed ``Authorization`` header.

    :param value: the header's value.
    :param secrets: the parts of it that must not be shown.
    """

    value: str = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def raw(cls, key: str) -> HeaderAuth:
        """Send the key as it is, as the book database asks."""
        return cls(key, (key,))

    @classmethod
    def bearer(cls, token: str) -> HeaderAuth:
        """Send a bearer token (RFC 6750)."""
        return cls(f"Bearer {token}", (token,))

    @classmethod
    def api_key(cls, key: str) -> HeaderAuth:
        """Send an Elasticsearch API key in its encoded form."""
        return cls(f"ApiKey {key}", (key,))

    @classmethod
    def basic(cls, login: str, password: str) -> HeaderAuth:
        """Send a user name and password (RFC 7617)."""
        encoded = base64.b64encode(f"{login}:{password}".encode()).decode("ascii")
        return cls(f"Basic {encoded}", (password, encoded))

    def token_request(self) -> Call[None] | None:
        """Need nothing first."""
        return None

    def sign(self, request: Request) -> Request:
        """Give the request with the header."""
        return replace(request, headers={**request.headers, "Authorization": self.value})

    def invalidate(self) -> bool:
        """Have no other credential."""
        return False


@dataclass(frozen=True, slots=True)
class ParameterAuth:
    """
    A key in the query, as the video platform takes API keys for public data.

    :param key: the API key.
    :param name: the parameter's name.
    """

    key: str = field(repr=False)
    name: str = "key"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key."""
        return (self.key,)

    def token_request(self) -> Call[None] | None:
        """Need nothing first."""
        return None

    def sign(self, request: Request) -> Request:
        """Give the request with the parameter."""
        return replace(request, secret_params=((self.name, self.key),))

    def invalidate(self) -> bool:
        """Have no other credential."""
        return False


@dataclass(slots=True)
class RefreshTokenAuth:
    """
    Access tokens got for a refresh token (RFC 6749, section 6), one at a time, kept until they expire.

    :param token_url: the address that exchanges tokens.
    :param client_id: the OAuth client.
    :param client_secret: its secret.
    :param refresh_token: the long-lived token of the user.
    :param scopes: the scopes to ask for; empty keeps those that were granted.
    :param clock: where time comes from.
    :param on_secret: told each new token, so that the log can mask it.
    """

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    refresh_token: str = field(repr=False)
    scopes: str = ""
    clock: Clock = field(default_factory=Clock)
    on_secret: Callable[[str], None] = field(default=lambda _: None, repr=False)
    _access_token: str = field(default="", init=False, repr=False)
    _expires: float = field(default=float("-inf"), init=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The tokens and the client secret."""
        held = (self.client_secret, self.refresh_token, self._access_token)
        return tuple(secret for secret in held if secret)

    def token_request(self) -> Call[None] | None:
        """Give the refresh call where there is no token, or it is about to expire."""
        if self._access_token and self.clock.monotonic() < self._expires:
            return None
        form = {
            "grant_type": "refresh_token",
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "refresh_token": self.refresh_token,
        }
        if self.scopes:
            form["scope"] = self.scopes
        parts = urlsplit(self.token_url)
        request = Request(
            "POST",
            parts.path or "/",
            params=tuple(parse_qsl(parts.query, keep_blank_values=True)),
            base=f"{parts.scheme}://{parts.netloc}",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
        )
        return Call(request, self._accept)

    def _accept(self, response: Response) -> None:
        reply = read_json(response)
        token = reply.get("access_token")
        if not isinstance(token, str) or not is_header_text(token):
            raise InvalidReplyError("The token address answered without an access_token that can be sent.")
        try:
            lifetime = float(reply.get("expires_in", 3600))
        except (TypeError, ValueError, OverflowError):
            lifetime = 3600.0
        self._access_token = token
        self._expires = self.clock.monotonic() + lifetime - min(_LEEWAY, lifetime / 10)
        self.on_secret(token)
        rotated = reply.get("refresh_token")
        if isinstance(rotated, str) and rotated:
            self.refresh_token = rotated
            self.on_secret(rotated)

    def sign(self, request: Request) -> Request:
        """Give the request with the access token in hand."""
        return HeaderAuth.bearer(self._access_token).sign(request)

    def invalidate(self) -> bool:
        """Drop the access token, so that the next request fetches another."""
        self._access_token = ""
        return True
