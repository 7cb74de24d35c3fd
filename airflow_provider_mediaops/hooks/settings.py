"""From the fields of a connection to settings: pure functions, with one error a field that cannot be used."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_mediaops.connection_fields import DEFAULT_RATE_STORE
from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.http.auth import is_header_text
from airflow_provider_mediaops.http.retry import RetryPolicy

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter
    from airflow_provider_mediaops.http.transport_settings import TransportSettings

#: The slowest rate that a connection can have: a request in some 17 minutes.
SLOWEST_RATE = 0.001

_SCHEMES = ("http", "https")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PROXY_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z_](?:[0-9A-Za-z_.-]{0,252}))(?::[0-9]{1,5})?")
_PROXY_USER = re.compile(
    r"(?:(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?::(?:[\w.~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*)?@)?", re.ASCII
)
_CREDENTIAL_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "cookie2"})
# They frame the request, belong to one connection only (RFC 9110, section 7.6.1), or change which part of the reply
# comes and in what form, which the transport relies on.
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


@dataclass(frozen=True, slots=True)
class ConnectionFields:
    """
    The fields of an Airflow connection, as plain values.

    :param conn_id: the connection's id, for messages.
    :param host: the base address, whole or only its host; several separated by commas.
    :param schema: ``http`` or ``https``, where ``host`` has none.
    :param port: the port, where ``host`` has none.
    :param login: the user name or client id.
    :param password: the password, token, key or client secret.
    :param extra: the extra fields; from an URI they are all texts.
    """

    conn_id: str
    host: str = ""
    schema: str = ""
    port: int | None = None
    login: str = ""
    password: str = field(default="", repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, connection: Any) -> ConnectionFields:
        """
        Read an Airflow connection without asking Airflow to mask anything, which blocks in a triggerer.

        :param connection: an ``airflow.sdk.Connection``, or the core's.
        :returns: its fields.
        :raises InvalidConnectionError: where ``extra`` is no JSON object, or ``port`` no port.
        """
        return cls(
            conn_id=connection.conn_id or "",
            host=(connection.host or "").strip(),
            schema=(connection.schema or "").strip().lower(),
            port=_port_of(connection),
            login=connection.login or "",
            password=connection.password or "",
            extra=_extra_of(connection),
        )

    def wrong(self, name: str, what: str) -> InvalidConnectionError:
        """
        Say that a field cannot be used.

        :param name: the field.
        :param what: what is wrong and what to write instead; free of secrets.
        :returns: the error to raise.
        """
        return InvalidConnectionError(f"Connection {self.conn_id!r}, field {name!r}: {what}")

    def text(self, name: str, default: str = "") -> str:
        """Give a field of extra as text."""
        value = self.extra.get(name)
        return ("" if value is None else str(value).strip()) or default

    def credential(self, meaning: str) -> str:
        """
        Give the password, which must be there.

        :param meaning: what it has to be, for the message; for example ``the REST key``.
        :returns: the password.
        :raises InvalidConnectionError: where it is empty, or cannot be sent in a header.
        """
        if not self.password:
            raise self.wrong("password", f"it is empty; it must be {meaning}.")
        if not is_header_text(self.password):
            raise self.wrong(
                "password",
                f"it must be {meaning}, but has a blank or line break at an end, or a character beyond plain ASCII.",
            )
        return self.password

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """Give a field of extra that is one of a few words."""
        value = self.text(name, default).lower()
        if value not in choices:
            raise self.wrong(name, f"it is one of {', '.join(choices)}.")
        return value

    def number(
        self, name: str, default: float, *, least: float, most: float = sys.float_info.max, whole: bool = False
    ) -> float:
        """Return a field of extra as a number."""
        value = self.extra.get(name)
        if value is None or value == "":
            return default
        try:
            number = float(value) if not isinstance(value, bool) else float("nan")
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if not least <= number <= most or (whole and number != int(number)):
            kind = "a whole number" if whole else "a number"
            bounds = f"{least:g} or more" if most == sys.float_info.max else f"{least:g} to {most:g}"
            raise self.wrong(name, f"it must be {kind}, {bounds}.")
        return number

    def flag(self, name: str, *, default: bool) -> bool:
        """Give a field of extra as true or false."""
        value = self.extra.get(name)
        if value is None or value == "":
            return default
        word = str(value).strip().lower()
        if word not in ("true", "false", "1", "0", "yes", "no"):
            raise self.wrong(name, "it must be true or false.")
        return word in ("true", "1", "yes")

    def mapping(self, name: str) -> dict[str, str]:
        """Give a field of extra as an object of texts, be it an object or the JSON text of one."""
        value = self.extra.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value.strip() or "{}")
            except ValueError:
                value = name
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(item, (str, int, float)) for item in value.values()):
            raise self.wrong(name, "it must be a JSON object of texts.")
        return {str(key): str(item) for key, item in value.items()}


def _port_of(connection: Any) -> int | None:
    # The JSON form of a connection may hold the port as a text.
    text = str(connection.port or "").strip()
    if text and not (text.isdecimal() and int(text) in range(65_536)):
        raise InvalidConnectionError(f"Connection {connection.conn_id!r}, field 'port': it must be 1 to 65535.")
    return int(text or 0) or None


def _extra_of(connection: Any) -> Mapping[str, Any]:
    try:
        extra = json.loads(connection.extra or "{}")
        # The URI form nests an object of any depth as the text of one field.
        nested = extra.pop("__extra__", None) if isinstance(extra, dict) else None
        extra = {**extra, **json.loads(nested)} if isinstance(nested, str) else extra
    except (TypeError, ValueError):
        extra = None
    if not isinstance(extra, dict):
        raise InvalidConnectionError(f"Connection {connection.conn_id!r}, field 'extra': it must be a JSON object.")
    return extra


def base_urls(fields: ConnectionFields) -> tuple[str, ...]:
    """
    Build the base addresses from host, scheme and port.

    :param fields: the connection.
    :returns: one or more of ``scheme://host[:port][/path]``, without a slash at the end.
    :raises InvalidConnectionError: where there is no host, or it is no address.
    """
    hosts = [host.strip() for host in fields.host.split(",") if host.strip()]
    if not hosts:
        raise fields.wrong("host", "it is empty; write the service's base address, for example https://host.example.")
    return tuple(_base_url(fields, host) for host in hosts)


def _base_url(fields: ConnectionFields, host: str) -> str:
    if fields.schema and fields.schema not in _SCHEMES:
        raise fields.wrong("schema", "it must be http or https.")
    if host.count(":") > 1 and not {"[", "/"} & set(host):
        # Airflow takes the brackets off an IPv6 address in a URI.
        host = f"[{host}]"
    parts = split_address(fields, "host", host if "://" in host else f"{fields.schema or 'https'}://{host}")
    if parts.query or parts.fragment:
        raise fields.wrong("host", "it holds more than an address; write scheme://host[:port][/path].")
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = parts.port or fields.port
    address = f"{name}:{port}" if port else name
    return f"{parts.scheme}://{address}{parts.path.rstrip('/')}"


def split_address(fields: ConnectionFields, name: str, address: str) -> SplitResult:
    """
    Check the address that a field holds.

    :param fields: the connection.
    :param name: the field.
    :param address: what it holds.
    :returns: the address's parts; it is ``http`` or ``https``, names a host and holds no credentials.
    :raises InvalidConnectionError: where it is no such address.
    """
    form = "write scheme://host[:port][/path]."
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        raise fields.wrong(name, f"it is no address; {form}") from None
    if parts.scheme not in _SCHEMES:
        raise fields.wrong(name, "its scheme must be http or https.")
    if not parts.hostname or parts.netloc.split() != [parts.netloc]:
        raise fields.wrong(name, f"it names no host; {form}")
    if parts.username is not None:
        raise fields.wrong(name, "it holds more than an address; credentials belong in login and password.")
    return parts


def transport_settings(fields: ConnectionFields, *, verify: bool | str = True) -> TransportSettings:
    """
    Read what the transport needs: time limits, proxies, headers.

    :param fields: the connection.
    :param verify: whether certificates are checked, or the path of those to trust.
    :returns: the settings.
    :raises InvalidConnectionError: for a field that cannot be used.
    """
    from airflow_provider_mediaops.http.transport_settings import TransportSettings, trust_context

    if isinstance(verify, str):
        try:
            trust_context(verify)
        except OSError:
            raise fields.wrong(
                "ca_cert", "on this machine it is the path of no file of certificates (PEM), or of none readable."
            ) from None
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
    if len(limits) not in (1, 2) or not all(0 < limit < float("inf") for limit in limits):
        raise fields.wrong("timeout", "it must be seconds, as 'connect, read' or one figure for both, above 0.")
    return limits[0], limits[-1]


def _proxies(fields: ConnectionFields) -> dict[str, str]:
    value = fields.text("proxies") if isinstance(fields.extra.get("proxies"), str) else ""
    proxies = dict.fromkeys(_SCHEMES, value) if "://" in value and value[0] != "{" else fields.mapping("proxies")
    if not all(scheme in _SCHEMES and _is_proxy(address) for scheme, address in proxies.items()):
        # The address is not shown: it may hold the proxy's password.
        raise fields.wrong(
            "proxies",
            'it must be one proxy address, or an object such as {"https": "http://proxy:3128"}; an address is '
            "http:// or https://, a host and a port, with special characters in user and password as %-escapes.",
        )
    return proxies


def _is_proxy(address: str) -> bool:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return False
    # More than one @, or a slash in the password, would put a part of the password into the host's place.
    host = parts.netloc.rpartition("@")[2]
    return (
        # urlsplit drops line breaks.
        address.isprintable()
        and parts.scheme in _SCHEMES
        and bool(_PROXY_HOST.fullmatch(host))
        and bool(_PROXY_USER.fullmatch(parts.netloc.removesuffix(host)))
        and parts.path in ("", "/")
        and not (parts.query or parts.fragment)
    )


def _headers(fields: ConnectionFields) -> dict[str, str]:
    headers = fields.mapping("headers")
    for name, value in headers.items():
        lower = name.strip().lower()
        if lower in _CREDENTIAL_HEADERS:
            raise fields.wrong(
                "headers", f"{name.strip()} holds credentials; they belong in password, or in the address in proxies."
            )
        if lower in _TRANSPORT_HEADERS:
            raise fields.wrong("headers", f"{name.strip()} cannot be set; the HTTP library sets it where it is needed.")
        if not _HEADER_NAME.fullmatch(name) or not is_header_text(value):
            raise fields.wrong("headers", "names and values must be plain ASCII, without line breaks and not empty.")
    return headers


def retry_policy(fields: ConnectionFields) -> RetryPolicy:
    """
    Read the bounds of trying again.

    :param fields: the connection.
    :returns: the policy.
    :raises InvalidConnectionError: for a field that cannot be used.
    """
    default = RetryPolicy()
    return RetryPolicy(
        max_attempts=int(fields.number("max_attempts", default.max_attempts, least=1, whole=True)),
        max_wait=fields.number("max_wait", default.max_wait, least=0),
    )


def rate_limiter(fields: ConnectionFields, service: str, key: str, per_second: float) -> RateLimiter:
    """
    Make the limiter of a key, which all share who use the key and the store.

    :param fields: the connection; it may name a store of its own, in the place of that of Airflow's configuration.
    :param service: the service that counts by the key.
    :param key: the key.
    :param per_second: its rate.
    :returns: the limiter; its store is not opened before it is used.
    :raises InvalidConnectionError: where the store's address cannot be used.
    """
    from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
    from airflow_provider_mediaops.http.rate_limit.stores import store_at

    own = fields.text("rate_limit_store")
    try:
        store = store_at(_in_airflow_home(own or _configured_rate_store()))
    except ValueError as error:
        if own:
            raise fields.wrong("rate_limit_store", str(error)) from None
        raise InvalidConnectionError(f"Airflow's section [mediaops], option rate_limit_store: {error}") from None
    if own and store.secrets:
        raise fields.wrong(
            "rate_limit_store",
            "it holds a password, and Airflow shows this field. An address with a password belongs in the option "
            "rate_limit_store of Airflow's section [mediaops].",
        )
    return limiter_for(service, key, per_second, store)


def optional_rate_limiter(fields: ConnectionFields, service: str, key: str) -> RateLimiter | None:
    """
    Make the limiter of a key whose rate is not known but from the connection.

    :param fields: the connection.
    :param service: the service that counts by the key.
    :param key: the key.
    :returns: the limiter; None where the connection has no rate, and then no store is looked for.
    :raises InvalidConnectionError: where rate or store cannot be used, or there is a store without a rate.
    """
    rate = fields.number("requests_per_second", 0.0, least=SLOWEST_RATE)
    if rate:
        return rate_limiter(fields, service, key, rate)
    if fields.text("rate_limit_store"):
        raise fields.wrong(
            "rate_limit_store", "without a rate it has no use: set requests_per_second as well, or leave both empty."
        )
    return None


def _configured_rate_store() -> str:
    from airflow.providers.common.compat.sdk import conf

    # Airflow 3.1 may not know a provider's defaults where a task runs.
    address: str = conf.get("mediaops", "rate_limit_store", fallback=DEFAULT_RATE_STORE)
    return address.strip()


def _in_airflow_home(address: str) -> str:
    home = os.path.expandvars(os.environ.get("AIRFLOW_HOME", "~/airflow"))
    return address.replace("{AIRFLOW_HOME}", str(Path(home).expanduser().absolute()))
