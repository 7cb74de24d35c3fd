"""Credentials of a client: fixed ones, access tokens that are refreshed, and those in the settings."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from urllib.request import getproxies

from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Blocking, Call, Clock, Request, Response
from airflow_provider_mediaops.http.reply import read_json
from airflow_provider_mediaops.http.settings import is_header_text

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import AuthenticationError
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow
    from airflow_provider_mediaops.http.settings import TransportSettings

# A token is refreshed this long before it expires, so that it does not expire on the way; if its lifetime is short, a
# tenth of it.
_LEEWAY_SECONDS = 60.0
_DEFAULT_LIFETIME_SECONDS = 3600.0
# The name of a header that holds a credential, such as X-Api-Key or PRIVATE-TOKEN.
_CREDENTIAL_NAME = re.compile(
    r"(?:auth|credentials?|jwt|key|password|passwd|secret|signature|token)(?![a-z0-9])|\b(?:authoriz|authenticat)",
    re.IGNORECASE,
)
# A value that begins with a scheme of HTTP authentication holds a credential, too, whatever the header's name.
_WITH_SCHEME = re.compile(r"(?:basic|bearer|apikey|token|digest|negotiate)[ \t]+(.+)", re.IGNORECASE)


@dataclass(slots=True)
class Auth:
    """The credentials of a client; here those that stay the same, in a header or in the query, or none."""

    authorization: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)  # every credential held now, for redaction
    params: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def bearer(cls, token: str) -> Auth:
        """Return credentials that send a bearer token (RFC 6750)."""
        return Auth(f"Bearer {token}", (token,))

    @classmethod
    def basic(cls, login: str, password: str) -> Auth:
        """Return credentials that send a user name and password (RFC 7617)."""
        encoded = base64.b64encode(f"{login}:{password}".encode()).decode("ascii")
        return Auth(f"Basic {encoded}", (password, encoded))

    def sign(self, request: Request) -> Request:
        """Return the request with the credential on it."""
        if self.authorization:
            request = replace(request, headers={**request.headers, "Authorization": self.authorization})
        return replace(request, secret_params=self.params)

    def prepare(self, send: Ask) -> CallFlow[None]:
        """Fetch the credential that signing needs, unless there is one."""
        yield from ()

    def invalidate(self, refused: Request, error: AuthenticationError) -> bool:
        """
        Drop the credential with which a request was refused, and return whether another can be fetched.

        It cannot if the refusal is not about a credential that was good once.
        """
        return False


@dataclass(slots=True, kw_only=True)
class RefreshTokenAuth(Auth):
    """
    Access tokens fetched with a refresh token (RFC 6749, section 6) and kept until they expire.

    A known limit: a service that replaces the refresh token, and whose reply is lost, refuses the next refresh. The
    connection needs a new refresh token then.
    """

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    refresh_token: str = field(repr=False)
    scopes: str = ""  # empty keeps those that were granted
    token_rules: ErrorRules = field(default_factory=lambda: ErrorRules("token service"), repr=False)
    clock: Clock = field(default_factory=Clock, repr=False)
    # Called with each new token before it is used, so that the log can mask it; it may block.
    on_secret: Callable[[str], None] = field(default=lambda _: None, repr=False)
    # Called when the service replaces the refresh token for the first time; it may block.
    on_rotated: Callable[[], None] = field(default=lambda: None, repr=False)
    _expires: float = field(default=float("-inf"), init=False, repr=False)

    def __post_init__(self) -> None:
        self.secrets = (self.client_secret, self.refresh_token)

    def prepare(self, send: Ask) -> CallFlow[None]:
        """Fetch an access token, unless there is one that does not expire on the way."""
        if self.authorization and self.clock.monotonic() < self._expires:
            return
        token, replacing = yield from send(self._token_call())
        yield Blocking(partial(self.on_secret, token))
        if replacing:
            yield Blocking(partial(self.on_secret, replacing))
            yield Blocking(self.on_rotated)
            self.on_rotated = lambda: None

    def _token_call(self) -> Call[tuple[str, str]]:
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
            kind="token",
        )
        return Call(request, self._accept, rules=self.token_rules)

    def _accept(self, response: Response) -> tuple[str, str]:
        """Keep the tokens of a reply; return the access token, and the refresh token if it is a new one."""
        reply = read_json(response)
        token = reply.get("access_token")
        if not isinstance(token, str) or not is_header_text(token):
            raise InvalidReplyError("The token address answered without an access_token that can be sent.")
        lifetime = 0.0
        with suppress(TypeError, ValueError, OverflowError):
            lifetime = float(reply.get("expires_in", 0.0))
        if not lifetime > 0.0:
            lifetime = _DEFAULT_LIFETIME_SECONDS
        self.authorization = f"Bearer {token}"
        self._expires = self.clock.monotonic() + lifetime - min(_LEEWAY_SECONDS, lifetime / 10)
        given = reply.get("refresh_token")
        replacing = given if isinstance(given, str) and given != self.refresh_token else ""
        self.refresh_token = replacing or self.refresh_token
        self.secrets = (self.client_secret, self.refresh_token, token)
        return token, replacing

    def invalidate(self, refused: Request, error: AuthenticationError) -> bool:
        """Drop the access token, unless another call has replaced it since; the next request fetches another."""
        if error.status != HTTPStatus.UNAUTHORIZED:
            return False
        if refused.headers.get("Authorization") == self.authorization:
            self.authorization = ""
        return True


def credentials_of(settings: TransportSettings) -> tuple[str, ...]:
    """
    Return the credentials in the settings of a transport, which a reply or an error may echo.

    They are the passwords of proxies, those of the environment included, that of the key of a client certificate, and
    the values of headers whose name or value looks like a credential.
    """
    found = [_password_in(address) for address in (settings.proxies or getproxies()).values()]
    if settings.client_certificate:
        found.append(settings.client_certificate.password)
    for name, value in settings.headers.items():
        if scheme := _WITH_SCHEME.fullmatch(value):
            found.append(scheme[1])
        elif _CREDENTIAL_NAME.search(name):
            found.append(value)
    return tuple(dict.fromkeys(filter(None, found)))


def _password_in(address: str) -> str:
    try:
        return unquote(urlsplit(address).password or "")
    except ValueError:
        return ""
