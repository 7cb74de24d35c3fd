"""The connection form of Airflow 3.1, which asks the hook class for it; later versions read the provider's metadata."""

from __future__ import annotations

from typing import Any, TypeVar

from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES

H = TypeVar("H", bound=type)


def connection_form(hook_class: H) -> H:
    """Add the two methods that Airflow 3.1 looks for in a hook class, made from the one definition of the form."""
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
