"""An Airflow connection: its fields as typed values, those that have no effect, and its form on Airflow 3.1."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from airflow_provider_mediaops.arguments import read_choice, read_flag, read_number, read_whole_number, shown
from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from airflow_provider_mediaops.exceptions import InvalidArgumentError, InvalidConnectionError
from airflow_provider_mediaops.http.settings import is_header_text

H = TypeVar("H", bound=type)
T = TypeVar("T")

# The unknown fields that are named one by one.
_MAX_NAMED = 5


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
        """Return the password, which must be one that a header can hold, for example ``the REST key``."""
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
        word = self.text(name, default or schema.get("default", "")).lower()
        return self._read(read_choice, name, word, choices=schema["enum"])

    def number(self, name: str, default: float) -> float:
        """Return a field of extra that holds a number within the bounds of the form, or the text of one."""
        if not self.text(name):
            return default
        schema = self._schema(name)
        read = read_whole_number if "integer" in schema["type"] else read_number
        return self._read(read, name, self.extra[name], minimum=schema["minimum"], maximum=schema.get("maximum"))

    def flag(self, name: str) -> bool:
        """Return a field of extra as true or false."""
        return self._read(read_flag, name, self.extra[name]) if self.text(name) else self._schema(name)["default"]

    def _read(self, read: Callable[..., T], name: str, value: object, **bounds: Any) -> T:
        try:
            return read("it", value, **bounds)
        except InvalidArgumentError as error:
            raise self.error(name, str(error)) from None

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

    def _schema(self, name: str) -> dict[str, Any]:
        schema: dict[str, Any] = CONNECTION_TYPES[self.conn_type]["conn-fields"][name]["schema"]
        return schema


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
    others = [shown(name) for name, nearest in unknown.items() if not nearest]
    if not others:
        return mistakes, []
    names = ", ".join(others[:_MAX_NAMED]) + (" and others" if len(others) > _MAX_NAMED else "")
    return mistakes, [f"Extra without effect: {names}. Known fields are {', '.join(known)}."]


def connection_form(hook_class: H) -> H:
    """
    Add the two methods with the form of a connection that Airflow 3.1 looks for in the hook class itself.

    Later versions read the provider's metadata.
    """
    described = CONNECTION_TYPES[hook_class.conn_type]  # type: ignore[attr-defined]

    def get_connection_form_widgets() -> dict[str, Any]:
        """Return the form's own fields, as Airflow 3.1 expects them."""
        return {name: _widget(field) for name, field in described["conn-fields"].items()}

    def get_ui_field_behaviour() -> dict[str, Any]:
        """Return labels, placeholders and hidden fields, as Airflow 3.1 expects them."""
        return {key.replace("-", "_"): value for key, value in described["ui-field-behaviour"].items()}

    hook_class.get_connection_form_widgets = staticmethod(get_connection_form_widgets)  # type: ignore[attr-defined]
    hook_class.get_ui_field_behaviour = staticmethod(get_ui_field_behaviour)  # type: ignore[attr-defined]
    return hook_class


def _widget(field: dict[str, Any]) -> Any:
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
