"""Make the settings of client, transport and rate limiter from the fields of a connection. Pure functions."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from airflow_provider_mediaops.connection_fields import DEFAULT_RATE_STORE
from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.http.settings import is_header_name, is_header_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from urllib.parse import SplitResult

    from airflow_provider_mediaops.hooks.connection.field_values import ConnectionFields
    from airflow_provider_mediaops.http.rate_limit.backend import RateBackend
    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter
    from airflow_provider_mediaops.http.settings import TransportSettings

# No socket takes a time limit of any length.
_LONGEST_TIME_LIMIT_SECONDS = 86_400.0

_SCHEMES = ("http", "https")
_PROXY_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z_](?:[0-9A-Za-z_.-]{0,252}))(?::[0-9]{1,5})?")
_PROXY_USER = re.compile(
    r"(?:(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?::(?:[\w.~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*)?@)?", re.ASCII
)
_LAST_LATIN_1 = 0xFF
_CREDENTIAL_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "cookie2"})
# These frame the request, belong to one connection only (RFC 9110, section 7.6.1), or change the form of the reply, on
# which the transport relies.
_TRANSPORT_HEADERS = frozenset(
    {
        "host",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
        "http2-settings",
        "expect",
        "accept-encoding",
        "range",
        "if-range",
    }
)

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


def base_urls(fields: ConnectionFields) -> tuple[str, ...]:
    """
    Build the base addresses from host, scheme and port: ``scheme://host[:port][/path]``, without a slash at the end.

    :raises InvalidConnectionError: if there is no host, or it is not an address.
    """
    hosts = [host.strip() for host in _without_json(fields.host).split(",") if host.strip()]
    if not hosts:
        raise fields.error("host", "it is empty; write the service's base address, for example https://host.example.")
    return tuple(_base_url(fields, host) for host in hosts)


def _without_json(host: str) -> str:
    """Return the addresses of a JSON list, as the clusters' own clients take them, separated by commas."""
    try:
        hosts = json.loads(host) if host.startswith("[") else host
    except ValueError:
        return host
    return ",".join(hosts) if isinstance(hosts, list) and all(isinstance(each, str) for each in hosts) else host


def _base_url(fields: ConnectionFields, host: str) -> str:
    if fields.schema and fields.schema not in _SCHEMES:
        raise fields.error("schema", "it must be http or https.")
    if host.count(":") > 1 and not {"[", "/"} & set(host):
        # Airflow takes the brackets off an IPv6 address in a URI.
        host = f"[{host}]"
    parts = split_address(fields, "host", host if "://" in host else f"{fields.schema or 'https'}://{host}")
    if parts.query or parts.fragment:
        raise fields.error("host", "it holds more than an address; write scheme://host[:port][/path].")
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = parts.port or fields.port
    address = f"{name}:{port}" if port else name
    return f"{parts.scheme}://{address}{parts.path.rstrip('/')}"


def split_address(fields: ConnectionFields, name: str, address: str) -> SplitResult:
    """
    Parse the address that a field holds: it is ``http`` or ``https``, names a host and holds no credentials.

    :raises InvalidConnectionError: if it is not such an address.
    """
    form = "write scheme://host[:port][/path]."
    parts = _parts_of(address)
    if parts is None:
        raise fields.error(name, f"it is not an address; {form}")
    if parts.scheme not in _SCHEMES:
        raise fields.error(name, "its scheme must be http or https.")
    if not parts.hostname or parts.netloc.split() != [parts.netloc]:
        raise fields.error(name, f"it names no host; {form}")
    if parts.username is not None:
        raise fields.error(name, "it holds more than an address; credentials belong in login and password.")
    return parts


def _parts_of(address: str) -> SplitResult | None:
    """Return the parts of an address; None if its host or port can be none."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts


def transport_settings(fields: ConnectionFields, *, verify: bool | str = True) -> TransportSettings:
    """
    Read the settings of the transport: time limits, proxies, headers; ``verify`` may be the path of what is trusted.

    :raises InvalidConnectionError: for a field that cannot be used.
    """
    from airflow_provider_mediaops.http.settings import TransportSettings, check_trust

    if isinstance(verify, str):
        try:
            check_trust(verify)
        except OSError as error:
            # OpenSSL's own words about the content of a file help nobody.
            problem = "it holds no certificates (PEM)" if isinstance(error, ssl.SSLError) else error.strerror
            raise fields.error("ca_cert", f"{verify} cannot be used on this machine: {problem}.") from None
    connect, read = _time_limits(fields)
    return TransportSettings(
        connect_timeout=connect,
        read_timeout=read,
        proxies=_proxies(fields),
        headers=_headers(fields),
        verify=verify,
    )


def _time_limits(fields: ConnectionFields) -> tuple[float, float]:
    value = fields.extra.get("timeout")
    if value is None or value == "":
        return 10.0, 60.0
    parts = value if isinstance(value, (list, tuple)) else str(value).strip("[]() ").split(",")
    try:
        limits = [float(part) for part in parts]
    except (TypeError, ValueError):
        limits = []
    if len(limits) not in (1, 2) or not all(0 < limit <= _LONGEST_TIME_LIMIT_SECONDS for limit in limits):
        raise fields.error(
            "timeout", "it must be seconds, as 'connect, read' or one figure for both, above 0 and a day at most."
        )
    return limits[0], limits[-1]


def _proxies(fields: ConnectionFields) -> dict[str, str]:
    value = fields.text("proxies") if isinstance(fields.extra.get("proxies"), str) else ""
    proxies = dict.fromkeys(_SCHEMES, value) if "://" in value and value[0] != "{" else fields.mapping("proxies")
    if not all(scheme in _SCHEMES and _is_proxy(address) for scheme, address in proxies.items()):
        # The address is not shown: it may hold the proxy's password.
        raise fields.error(
            "proxies",
            'it must be one proxy address, or an object such as {"https": "http://proxy:3128"}; an address is '
            "http:// or https://, a host and a port, with special characters in user and password as %-escapes of "
            "UTF-8, none beyond Latin-1.",
        )
    return proxies


def _is_proxy(address: str) -> bool:
    parts = _parts_of(address)
    if parts is None:
        return False
    # With more than one @, or a slash in the password, a part of the password would be taken for the host.
    host = parts.netloc.rpartition("@")[2]
    user = parts.netloc.removesuffix(host)
    return (
        # urlsplit drops line breaks.
        address.isprintable()
        and parts.scheme in _SCHEMES
        and bool(_PROXY_HOST.fullmatch(host))
        and bool(_PROXY_USER.fullmatch(user))
        and _is_latin_1(unquote(user))
        and parts.path in ("", "/")
        and not (parts.query or parts.fragment)
    )


def _is_latin_1(text: str) -> bool:
    # requests encodes user and password of a proxy so. unquote replaces bytes that are not UTF-8 by another character.
    return all(ord(character) <= _LAST_LATIN_1 for character in text)


def _headers(fields: ConnectionFields) -> dict[str, str]:
    headers = fields.mapping("headers")
    for name, value in headers.items():
        lower = name.strip().lower()
        if lower in _CREDENTIAL_HEADERS:
            raise fields.error(
                "headers", f"{name.strip()} holds credentials; they belong in password, or in the address in proxies."
            )
        if lower in _TRANSPORT_HEADERS:
            raise fields.error("headers", f"{name.strip()} cannot be set; the HTTP library sets it where it is needed.")
        if not is_header_name(name) or not is_header_text(value):
            raise fields.error("headers", "names and values must be plain ASCII, without line breaks and not empty.")
    return headers


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


def retry_policy(fields: ConnectionFields) -> RetryPolicy:
    """
    Read the limits of retries.

    :raises InvalidConnectionError: for a field that cannot be used.
    """
    default = RetryPolicy()
    return RetryPolicy(
        max_attempts=int(fields.number("max_attempts", default.max_attempts)),
        max_wait=fields.number("max_wait", default.max_wait),
    )


def rate_limiter(fields: ConnectionFields, service: str, key: str, per_second: float) -> RateLimiter:
    """
    Make the limiter of a key, which is shared by all who use the key and the back end; that is opened at first use.

    The connection may name a back end of its own instead of the one in Airflow's configuration.

    :raises InvalidConnectionError: if the back end's address cannot be used.
    """
    from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for

    own = fields.text("rate_limit_store")
    backend = _own_rate_backend(fields, own) if own else configured_rate_backend()
    return limiter_for(service, key, per_second, backend)


def _own_rate_backend(fields: ConnectionFields, address: str) -> RateBackend:
    from airflow_provider_mediaops.http.rate_limit.backend import backend_at

    try:
        backend = backend_at(_in_airflow_home(address))
    except ValueError as error:
        raise fields.error("rate_limit_store", str(error)) from None
    if backend.secrets:
        raise fields.error(
            "rate_limit_store",
            "it holds a password, and Airflow shows this field. An address with a password belongs in the option "
            "rate_limit_store of Airflow's section [mediaops].",
        )
    return backend


def optional_rate_limiter(fields: ConnectionFields, service: str, key: str) -> RateLimiter | None:
    """
    Make the limiter of a key, if the connection states its rate; None if it does not.

    :raises InvalidConnectionError: if rate or back end cannot be used, or there is a back end without a rate.
    """
    rate = fields.number("requests_per_second", 0.0)
    if rate:
        return rate_limiter(fields, service, key, rate)
    if fields.text("rate_limit_store"):
        raise fields.error(
            "rate_limit_store", "without a rate it has no use: set requests_per_second as well, or leave both empty."
        )
    return None


def configured_rate_backend() -> RateBackend:
    """
    Return the back end of Airflow's configuration, which all connections without one of their own share.

    :raises InvalidConnectionError: if its address cannot be used.
    """
    from airflow_provider_mediaops.http.rate_limit.backend import backend_at
    from airflow_provider_mediaops.version_compat import conf

    # In a worker, Airflow 3.1 may not know a provider's defaults.
    address: str = conf.get("mediaops", "rate_limit_store", fallback=DEFAULT_RATE_STORE)
    try:
        return backend_at(_in_airflow_home(address.strip()))
    except ValueError as error:
        raise InvalidConnectionError(f"Airflow's section [mediaops], option rate_limit_store: {error}") from None


def _in_airflow_home(address: str) -> str:
    home = os.path.expandvars(os.environ.get("AIRFLOW_HOME", "~/airflow"))
    return address.replace("{AIRFLOW_HOME}", str(Path(home).expanduser().absolute()))
