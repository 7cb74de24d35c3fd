"""Find the credentials in the settings of a connection that are not its own login: in proxies and in headers."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# A header holds a credential if one of the words of its name ends in one of these: X-Api-Key, apikey, PRIVATE-TOKEN.
_ENDS_OF_WORDS = (
    "auth",
    "credential",
    "credentials",
    "jwt",
    "key",
    "password",
    "passwd",
    "secret",
    "signature",
    "token",
)
_BEGINS_OF_WORDS = ("authoriz", "authenticat")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
# A value that begins with a scheme of HTTP authentication holds a credential, too, whatever the header's name.
_WITH_SCHEME = re.compile(r"(basic|bearer|apikey|token|digest|negotiate)[ \t]+(.+)", re.IGNORECASE)


def proxy_passwords(addresses: Iterable[str]) -> tuple[str, ...]:
    """Return the passwords in addresses of proxies, decoded; an address that cannot be read counts as one without."""
    found = (_password_in(address) for address in addresses)
    return tuple(dict.fromkeys(unquote(password) for password in found if password))


def _password_in(address: str) -> str | None:
    try:
        return urlsplit(address).password
    except ValueError:
        return None


def header_credentials(headers: Mapping[str, str]) -> tuple[str, ...]:
    """
    Return the credentials in headers: the values of those whose name or value looks like one.

    A scheme of authentication is taken off; of basic authentication, the password comes too.
    """
    found: list[str] = []
    for name, value in headers.items():
        scheme = _WITH_SCHEME.fullmatch(value)
        if scheme:
            found += scheme[2], *_basic_password(scheme)
        elif _names_credential(name):
            found.append(value)
    return tuple(dict.fromkeys(found))


def _names_credential(name: str) -> bool:
    words = _SEPARATORS.split(name.lower())
    return any(word.endswith(_ENDS_OF_WORDS) or word.startswith(_BEGINS_OF_WORDS) for word in words)


def _basic_password(scheme: re.Match[str]) -> tuple[str, ...]:
    if scheme[1].lower() != "basic":
        return ()
    try:
        password = base64.b64decode(scheme[2], validate=True).decode().partition(":")[2]
    except ValueError:
        return ()
    return (password,) if password else ()
