"""
An Airflow connection: its fields as typed values, the settings made of them, and its form on Airflow 3.1.

Whatever reads a field raises InvalidConnectionError for one that cannot be used.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_mediaops.arguments import read_choice, read_flag, read_number, read_whole_number, shown
from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES, DEFAULT_RATE_STORE
from airflow_provider_mediaops.exceptions import InvalidArgumentError, InvalidConnectionError
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.http.settings import TransportSettings, is_header_name, is_header_text, trust_problem

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from airflow_provider_mediaops.http.rate_limit.backends import RateBackend
    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter

# No socket takes a time limit of any length.
_LONGEST_TIME_LIMIT_SECONDS = 86_400.0
_SCHEMES = ("http", "https")
# With more than one @, or a slash in the password, a part of the password would be taken for the host.
_PROXY = re.compile(r"https?://(?:[^\s/?#@]*@)?[^\s/?#@'\x22]+/?")
_CREDENTIAL_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "cookie2"})
# These frame the request, or change the form of the reply, on which the transport relies.
_TRANSPORT_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


@dataclass(frozen=True, slots=True)
class ConnectionFields:
    """The fields of an Airflow connection, as plain values."""

    conn_id: str
    host: str = ""  # the base address, whole or only its host; several separated by commas
    schema: str = ""  # used if the host has no scheme
    port: int | None = None  # used if the host has none
    login: str = ""
    password: str = field(default="", repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)  # from a URI they are all texts
    conn_type: str = ""  # its form says what the fields of extra may hold

    @classmethod
    def of(cls, connection: Any, conn_type: str) -> ConnectionFields:
        """Read an Airflow connection without asking Airflow to mask anything, which blocks in a triggerer."""
        # Another one holds the secret of another service. One that states no type is for whoever names it.
        if connection.conn_type not in (conn_type, "", None) or _is_uri_without_scheme(connection):
            raise wrong_type(connection, conn_type)
        fields = cls(
            conn_id=connection.conn_id or "",
            host=(connection.host or "").strip(),
            schema=(connection.schema or "").strip().lower(),
            login=connection.login or "",
            password=connection.password or "",
            conn_type=conn_type,
        )
        # The JSON form of a connection may hold the port as a text.
        port = str(connection.port or "").strip() or "0"
        if not (port.isdecimal() and int(port) in range(65_536)):
            raise fields.error("port", "it must be 1 to 65535.")
        try:
            extra = json.loads(connection.extra or "{}")
            # The URI form nests an object of any depth as the text of one field.
            if isinstance(extra, dict) and isinstance(nested := extra.pop("__extra__", None), str):
                extra = {**extra, **json.loads(nested)}
        except (TypeError, ValueError, RecursionError):
            extra = None
        if not isinstance(extra, dict):
            raise fields.error("extra", "it must be a JSON object.")
        return replace(fields, port=int(port) or None, extra=extra)

    def error(self, name: str, problem: str) -> InvalidConnectionError:
        """Return the error for a field that cannot be used: fault and correction in a sentence, without secrets."""
        return InvalidConnectionError(f"Connection {self.conn_id!r}, field {name!r}: {problem}")

    def text(self, name: str, default: str = "") -> str:
        """Return a field of extra as text."""
        value = self.extra.get(name)
        return ("" if value is None else str(value).strip()) or default

    def required(self, name: str, meaning: str) -> str:
        """Return the login, the password or a field of extra, which must not be empty: for example the client id."""
        value = {"login": self.login, "password": self.password}.get(name) or self.text(name)
        if not value:
            raise self.error(name, f"it is empty; it must be {meaning}.")
        return value

    def credential(self, meaning: str) -> str:
        """Return the password, which must be one that a header can hold, for example ``the REST key``."""
        if not is_header_text(self.required("password", meaning)):
            raise self.error(
                "password",
                f"it must be {meaning}, but has a blank or line break at an end, or a character beyond plain ASCII.",
            )
        return self.password

    def value(self, name: str, default: Any = None) -> Any:
        """Return a field of extra as the form describes it; if it is empty, ``default``, or that of the form."""
        schema = CONNECTION_TYPES[self.conn_type]["conn-fields"][name]["schema"]
        given = self.text(name)
        if not given:
            return schema.get("default", default)
        try:
            if "enum" in schema:
                return read_choice("it", given.lower(), schema["enum"])
            if "boolean" in schema["type"]:
                return read_flag("it", self.extra[name])
            read = read_whole_number if "integer" in schema["type"] else read_number
            return read("it", self.extra[name], minimum=schema["minimum"], maximum=schema.get("maximum"))
        except InvalidArgumentError as error:
            # Without the value: it may be a credential in the wrong field.
            raise self.error(name, f"{str(error).partition('; not ')[0]}.") from None

    def mapping(self, name: str) -> dict[str, str]:
        """Return a field of extra that holds an object of texts, or the JSON text of one."""
        value = self.extra.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value.strip() or "{}")
            except (ValueError, RecursionError):
                value = name
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(item, (str, int, float)) for item in value.values()):
            raise self.error(name, "it must be a JSON object of texts.")
        return {str(key): str(item) for key, item in value.items()}


def wrong_type(connection: Any, *conn_types: str) -> InvalidConnectionError:
    """Return the error for an Airflow connection that is of none of these types, of which one is needed."""
    start = f"Connection {connection.conn_id!r}"
    if _is_uri_without_scheme(connection):
        schemes = " or ".join(f"{conn_type.replace('_', '-')}://…" for conn_type in conn_types)
        return InvalidConnectionError(
            f"{start}: its URI begins with no scheme. A scheme has no underscore: write {schemes}"
        )
    return InvalidConnectionError(
        f"{start} is of type {shown(connection.conn_type)}; it must be of type {' or '.join(conn_types)}. Name another "
        "connection, or correct its type."
    )


def _is_uri_without_scheme(connection: Any) -> bool:
    # Airflow finds no scheme in one with an underscore, and takes the whole of it, with its password, for a schema.
    return not connection.conn_type and "//" in (connection.schema or "")


def unknown_fields(fields: ConnectionFields) -> tuple[list[str], list[str]]:
    """
    Return sentences about the fields of extra that have no effect: about misspelt ones, and about others.

    Those that resemble no known field may be somebody's notes.
    """
    from difflib import get_close_matches

    known = list(CONNECTION_TYPES[fields.conn_type]["conn-fields"])
    unknown = {name: get_close_matches(name.lower(), known, n=1) for name in fields.extra if name not in known}
    mistakes = [
        f"Extra field {shown(name)} is unknown and has no effect: write {nearest[0]!r}."
        for name, nearest in unknown.items()
        if nearest
    ]
    others = ", ".join(name for name, nearest in unknown.items() if not nearest)
    notes = [f"Extra without effect: {shown(others)}. Known fields are {', '.join(known)}."] if others else []
    return mistakes, notes


def base_urls(fields: ConnectionFields) -> tuple[str, ...]:
    """Build the base addresses of host, scheme and port: ``scheme://host[:port][/path]``, with no slash at the end."""
    hosts = [host.strip() for host in _without_json(fields.host).split(",") if host.strip()]
    if not hosts:
        raise fields.error("host", "it is empty; write the service's base address, for example https://host.example.")
    return tuple(_base_url(fields, host) for host in hosts)


def _without_json(host: str) -> str:
    """Return the addresses of a JSON list, as the clusters' own clients take them, separated by commas."""
    try:
        hosts = json.loads(host) if host.startswith("[") else host
    except (ValueError, RecursionError):
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
    """Parse the address that a field holds: it is ``http`` or ``https``, names a host and holds no credentials."""
    form = "write scheme://host[:port][/path]."
    parts = _parts_of(address)
    if parts is None:
        raise fields.error(name, f"it is not an address; {form}")
    if parts.scheme not in _SCHEMES:
        raise fields.error(name, "its scheme must be http or https.")
    if not parts.hostname or parts.netloc.split() != [parts.netloc]:
        raise fields.error(name, f"it names no host; {form}")
    if parts.hostname in _SCHEMES:
        raise fields.error(name, f"its scheme is doubled or broken; {form}")
    if {'"', "'"} & set(parts.netloc):
        raise fields.error(name, f"there is a quotation mark in it; {form}")
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
    """Read time limits, proxies and headers; ``verify`` may be the path of the certificates to trust."""
    if problem := trust_problem(verify):
        raise fields.error("ca_cert", f"{verify} cannot be used on this machine: {problem}.")
    connect, read = _time_limits(fields)
    return TransportSettings(connect, read, proxies=_proxies(fields), headers=_headers(fields), verify=verify)


def _time_limits(fields: ConnectionFields) -> tuple[float, float]:
    value = fields.extra.get("timeout")
    if value is None or value == "":
        default = TransportSettings()
        return default.connect_timeout, default.read_timeout
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
            "http:// or https:// (a SOCKS proxy is not supported), a host and a port, with special characters in user "
            "and password as %-escapes.",
        )
    return proxies


def _is_proxy(address: str) -> bool:
    parts = _parts_of(address) if _PROXY.fullmatch(address) else None
    return bool(parts and parts.hostname)


def _headers(fields: ConnectionFields) -> dict[str, str]:
    headers = fields.mapping("headers")
    for name, value in headers.items():
        lower = name.strip().lower()
        if lower in _CREDENTIAL_HEADERS:
            raise fields.error("headers", f"{name.strip()} holds credentials: write them in password or proxies.")
        if lower in _TRANSPORT_HEADERS:
            raise fields.error("headers", f"{name.strip()} cannot be set: the HTTP library sets it.")
        if not is_header_name(name) or not is_header_text(value):
            raise fields.error("headers", "names and values must be plain ASCII, without line breaks and not empty.")
    return headers


def retry_policy(fields: ConnectionFields) -> RetryPolicy:
    """Read the limits of retries."""
    default = RetryPolicy()
    return RetryPolicy(
        max_attempts=fields.value("max_attempts", default.max_attempts),
        max_wait=fields.value("max_wait", default.max_wait),
    )


def rate_limiter(
    fields: ConnectionFields, service: str, key: str, default_per_second: float = 0.0
) -> RateLimiter | None:
    """
    Make the limiter of a key, which is shared by all who use the key and the back end; that is opened at first use.

    There is none if neither the connection nor a default states the rate. The connection may name a back end of its own
    instead of the one in Airflow's configuration.
    """
    from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for

    per_second = fields.value("requests_per_second", default_per_second)
    if per_second:
        return limiter_for(service, key, per_second, _rate_backend(fields))
    if fields.text("rate_limit_store"):
        raise fields.error(
            "rate_limit_store", "without a rate it has no use: set requests_per_second as well, or leave both empty."
        )
    return None


def _rate_backend(fields: ConnectionFields) -> RateBackend:
    from airflow_provider_mediaops.http.rate_limit.backends import backend_at
    from airflow_provider_mediaops.version_compat import conf

    own = fields.text("rate_limit_store")
    # In a worker, Airflow 3.1 may not know a provider's defaults.
    address = own or conf.get("mediaops", "rate_limit_store", fallback=DEFAULT_RATE_STORE).strip()
    home = os.path.expandvars(os.environ.get("AIRFLOW_HOME", "~/airflow"))
    try:
        backend = backend_at(address.replace("{AIRFLOW_HOME}", str(Path(home).expanduser().absolute())))
    except ValueError as error:
        problem = str(error)
    else:
        if not (own and backend.secrets):
            return backend
        problem = (
            "it holds a password, and Airflow shows this field. An address with a password belongs in the option "
            "rate_limit_store of Airflow's section [mediaops]."
        )
    if own:
        raise fields.error("rate_limit_store", problem)
    raise InvalidConnectionError(f"Airflow's section [mediaops], option rate_limit_store: {problem}")


def form_widget(field: dict[str, Any]) -> Any:
    """Return a field of the form as Airflow 3.1 expects it."""
    # Airflow 3.1 brings wtforms only with its classic user interface; it catches the ImportError of the rest.
    from wtforms import BooleanField, IntegerField, PasswordField, StringField
    from wtforms.validators import Optional, any_of

    schema = field["schema"]
    kinds = {"boolean": BooleanField, "integer": IntegerField}
    kind = PasswordField if schema.get("format") == "password" else kinds.get(schema["type"][0], StringField)
    choices = [choice for choice in schema.get("enum", ()) if choice is not None]
    return kind(
        field["label"],
        validators=[Optional(), any_of(choices)] if choices else [Optional()],
        description=field["description"],
        default=schema.get("default"),
    )
