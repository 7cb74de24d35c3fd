from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from airflow_provider_mediaops.connection_fields import BOOKS, CLUSTER, CONNECTION_TYPES, VIDEO
from airflow_provider_mediaops.hooks.connection.form import connection_form

EVERY_TYPE = [VIDEO, CLUSTER, BOOKS]


@dataclass
class Field:
    """A form field as wtforms makes one."""

    label: str
    validators: list[object] = field(default_factory=list)
    description: str = ""
    default: object = None


class StringField(Field): ...


class PasswordField(Field): ...


class IntegerField(Field): ...


class BooleanField(Field): ...


@pytest.fixture
def form_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for wtforms, which Airflow 3.1 has only with its classic user interface."""
    library, validators = ModuleType("wtforms"), ModuleType("wtforms.validators")
    for cls in (StringField, PasswordField, IntegerField, BooleanField):
        setattr(library, cls.__name__, cls)
    validators.Optional = SimpleNamespace  # type: ignore[attr-defined]
    validators.any_of = list  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wtforms", library)
    monkeypatch.setitem(sys.modules, "wtforms.validators", validators)


def hook_of(kind: str) -> Any:
    return connection_form(type("Hook", (), {"conn_type": kind}))


@pytest.mark.usefixtures("form_library")
@pytest.mark.parametrize("kind", EVERY_TYPE)
def test_form_of_python_classes_is_that_of_the_definition(kind: str) -> None:
    hook = hook_of(kind)
    widgets, behaviour = hook.get_connection_form_widgets(), hook.get_ui_field_behaviour()
    described = CONNECTION_TYPES[kind]["conn-fields"]
    assert list(widgets) == list(described)
    for name, widget in widgets.items():
        assert (widget.label, widget.description) == (described[name]["label"], described[name]["description"])
        # No field has to be filled in, and one of a few words takes no other.
        words = [word for word in described[name]["schema"].get("enum", []) if word]
        assert widget.validators == [SimpleNamespace(), *([words] if words else [])]
    assert behaviour == {
        name.replace("-", "_"): value for name, value in CONNECTION_TYPES[kind]["ui-field-behaviour"].items()
    }
    # Airflow looks for them in the class itself.
    assert {"get_connection_form_widgets", "get_ui_field_behaviour"} <= set(vars(hook))


@pytest.mark.usefixtures("form_library")
@pytest.mark.parametrize(
    ("kind", "name", "cls", "default"),
    [
        (VIDEO, "refresh_token", PasswordField, None),
        (VIDEO, "auth", StringField, "bearer"),
        (VIDEO, "max_attempts", IntegerField, None),
        (VIDEO, "max_wait", StringField, None),
        (CLUSTER, "verify", BooleanField, True),
        # Empty means basic with a login and none without: as a default, basic would fail without a login.
        (CLUSTER, "auth", StringField, None),
    ],
)
def test_class_of_a_field_follows_its_schema(kind: str, name: str, cls: type[Field], *, default: object) -> None:
    widget = hook_of(kind).get_connection_form_widgets()[name]
    assert (type(widget), widget.default) == (cls, default)
