"""From the fields of a connection to settings: pure functions, with one error a field that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.http.retry import RetryPolicy

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.transport import TransportSettings

_SCHEMES = ("http", "https")


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
        :raises InvalidConnectionError: where ``extra`` is no JSON object.
        """
        return cls(
            conn_id=connection.conn_id or "",
            host=(connection.host or "").strip(),
            schema=(connection.schema or "").strip().lower(),
            port=connection.port or None,
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
        return default if value is None or value == "" else str(value).strip()

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """Give a field of extra that is one of a few words."""
        value = self.text(name, default).lower()
        if value not in choices:
            raise self.wrong(name, f"it is one of {', '.join(choices)}.")
        return value

    def number(self, name: str, default: float, *, least: float, whole: bool = False) -> float:
        """Give a field of extra as a number."""
        value = self.extra.get(name)
        if value is None or value == "":
            return default
        try:
            number = float(value) if not isinstance(value, bool) else float("nan")
        except (TypeError, ValueError):
            number = float("nan")
        if not least <= number < float("inf") or (whole and number != int(number)):
            kind = "a whole number" if whole else "a number"
            raise self.wrong(name, f"it must be {kind}, {least:g} or more.")
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
        if isinstance(value, str) and value.strip():
            try:
                value = json.loads(value)
            except ValueError:
                value = name
        if value in (None, ""):
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(name, "it must be a JSON object.")
        return {str(key): str(item) for key, item in value.items()}


def _extra_of(connection: Any) -> Mapping[str, Any]:
    try:
        extra = json.loads(connection.extra or "{}")
        # The URI form nests an object of any depth as the text of one field.
        nested = extra.pop("__extra__", None) if isinstance(extra, dict) else None
        extra = {**extra, **json.loads(nested)} if isinstance(nested, str) else extra
    except ValueError:
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
    whole = host if "://" in host else f"{fields.schema or 'https'}://{host}"
    try:
        parts = urlsplit(whole)
        port = parts.port or fields.port
    except ValueError:
        raise fields.wrong("host", "it is no address; write scheme://host[:port][/path].") from None
    if parts.scheme not in _SCHEMES:
        raise fields.wrong("host", "its scheme must be http or https.")
    if not parts.hostname or " " in parts.netloc:
        raise fields.wrong("host", "it names no host; write scheme://host[:port][/path].")
    if parts.username is not None or parts.query or parts.fragment:
        raise fields.wrong("host", "it holds more than an address; credentials belong in login and password.")
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    address = f"{name}:{port}" if port else name
    return f"{parts.scheme}://{address}{parts.path.rstrip('/')}"


def transport_settings(fields: ConnectionFields, *, verify: bool | str = True) -> TransportSettings:
    """
    Read what the transport needs: time limits, proxies, headers.

    :param fields: the connection.
    :param verify: whether certificates are checked, or the path of those to trust.
    :returns: the settings.
    :raises InvalidConnectionError: for a field that cannot be used.
    """
    from airflow_provider_mediaops.http.transport import TransportSettings

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
    value = fields.extra.get("proxies")
    if isinstance(value, str) and "://" in value and not value.lstrip().startswith("{"):
        return dict.fromkeys(_SCHEMES, value.strip())
    proxies = fields.mapping("proxies")
    if any(scheme not in _SCHEMES or "://" not in address for scheme, address in proxies.items()):
        raise fields.wrong("proxies", 'it must be one proxy address, or an object such as {"https": "http://proxy:3128"}.')
    return proxies


def _headers(fields: ConnectionFields) -> dict[str, str]:
    headers = fields.mapping("headers")
    for name, value in headers.items():
        if name.lower() == "authorization":
            raise fields.wrong("headers", "credentials belong in password, where they are kept secret.")
        if any(char in name + value for char in "\r\n"):
            raise fields.wrong("headers", "a header holds a line break.")
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
