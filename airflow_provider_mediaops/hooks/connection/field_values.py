"""The fields of an Airflow connection as typed values, with one error for each field that cannot be used."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.http.settings import is_header_text


@dataclass(frozen=True, slots=True)
class ConnectionFields:
    """
    The fields of an Airflow connection, as plain values.

    :param conn_id: the connection's id, for messages.
    :param conn_type: its type, whose form says what the fields of extra may hold.
    :param host: the base address, whole or only its host; several separated by commas.
    :param schema: ``http`` or ``https``; used if ``host`` has no scheme.
    :param port: the port; used if ``host`` has none.
    :param login: the user name or client id.
    :param password: the password, token, key or client secret.
    :param extra: the extra fields; from a URI they are all texts.
    """

    conn_id: str
    host: str = ""
    schema: str = ""
    port: int | None = None
    login: str = ""
    password: str = field(default="", repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    conn_type: str = ""

    @classmethod
    def of(cls, connection: Any, conn_type: str) -> ConnectionFields:
        """
        Read an Airflow connection without asking Airflow to mask anything, which blocks in a triggerer.

        :raises InvalidConnectionError: if ``extra`` is not a JSON object, or ``port`` is not a port.
        """
        return cls(
            conn_id=connection.conn_id or "",
            host=(connection.host or "").strip(),
            schema=(connection.schema or "").strip().lower(),
            port=_port_of(connection),
            login=connection.login or "",
            password=connection.password or "",
            extra=_extra_of(connection),
            conn_type=conn_type,
        )

    def error(self, name: str, problem: str) -> InvalidConnectionError:
        """Return the error for a field that cannot be used: fault and correction in a sentence, without secrets."""
        return InvalidConnectionError(f"Connection {self.conn_id!r}, field {name!r}: {problem}")

    def text(self, name: str, default: str = "") -> str:
        """Return a field of extra as text."""
        value = self.extra.get(name)
        return ("" if value is None else str(value).strip()) or default

    def credential(self, meaning: str) -> str:
        """
        Return the password, which is required; the meaning is for the message, for example ``the REST key``.

        :raises InvalidConnectionError: if it is empty, or cannot be sent in a header.
        """
        if not self.password:
            raise self.error("password", f"it is empty; it must be {meaning}.")
        if not is_header_text(self.password):
            raise self.error(
                "password",
                f"it must be {meaning}, but has a blank or line break at an end, or a character beyond plain ASCII.",
            )
        return self.password

    def choice(self, name: str, default: str = "") -> str:
        """Return a field of extra that is one of a few words; if it is empty, ``default``, or that of the form."""
        schema = self._schema(name)
        words: list[str] = schema["enum"]
        value = self.text(name, default or schema.get("default", "")).lower()
        if value not in words:
            raise self.error(name, f"it is one of {', '.join(words)}.")
        return value

    def number(self, name: str, default: float) -> float:
        """Return a field of extra that holds a number within the bounds of the form, or the text of one."""
        value = self.extra.get(name)
        if value is None or value == "":
            return default
        schema = self._schema(name)
        whole, minimum, maximum = "integer" in schema["type"], schema["minimum"], schema.get("maximum")
        try:
            number = float(value) if not isinstance(value, bool) else float("nan")
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if not minimum <= number <= (maximum or sys.float_info.max) or (whole and number != int(number)):
            kind = "a whole number" if whole else "a number"
            bounds = f"{minimum:g} to {maximum:g}" if maximum else f"{minimum:g} or more"
            raise self.error(name, f"it must be {kind}, {bounds}.")
        return number

    def flag(self, name: str) -> bool:
        """Return a field of extra as true or false."""
        value = self.extra.get(name)
        if value is None or value == "":
            return bool(self._schema(name)["default"])
        word = str(value).strip().lower()
        if word not in ("true", "false", "1", "0", "yes", "no"):
            raise self.error(name, "it must be true or false.")
        return word in ("true", "1", "yes")

    def _schema(self, name: str) -> dict[str, Any]:
        schema: dict[str, Any] = CONNECTION_TYPES[self.conn_type]["conn-fields"][name]["schema"]
        return schema

    def mapping(self, name: str) -> dict[str, str]:
        """Return a field of extra that holds an object of texts, or the JSON text of one."""
        value = self.extra.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value.strip() or "{}")
            except ValueError:
                value = name
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(item, (str, int, float)) for item in value.values()):
            raise self.error(name, "it must be a JSON object of texts.")
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
