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
def test_the_form_of_python_classes_has_every_field_of_the_definition(kind: str) -> None:
    widgets = hook_of(kind).get_connection_form_widgets()
    described = CONNECTION_TYPES[kind]["conn-fields"]
    assert list(widgets) == list(described)
    for name, widget in widgets.items():
        assert widget.label == described[name]["label"]
        assert widget.description == described[name]["description"]
        # No field has to be filled in, and one of a few words takes no other.
        assert widget.validators[0] == SimpleNamespace()
        words = [word for word in described[name]["schema"].get("enum", []) if word]
        assert widget.validators[1:] == ([words] if words else [])


@pytest.mark.usefixtures("form_library")
@pytest.mark.parametrize(
    ("kind", "name", "cls", "default"),
    [
        (VIDEO, "refresh_token", PasswordField, None),
        (VIDEO, "auth", StringField, "bearer"),
        (VIDEO, "max_attempts", IntegerField, None),
        (VIDEO, "max_wait", StringField, None),
        (VIDEO, "requests_per_second", StringField, None),
        (VIDEO, "rate_limit_store", StringField, None),
        (CLUSTER, "verify", BooleanField, True),
        # Empty means basic with a login and none without: as a default, basic would fail without a login.
        (CLUSTER, "auth", StringField, None),
    ],
)
def test_a_fields_class_follows_its_schema(kind: str, name: str, cls: type[Field], *, default: object) -> None:
    widget = hook_of(kind).get_connection_form_widgets()[name]
    assert type(widget) is cls
    assert widget.default == default


@pytest.mark.parametrize("kind", EVERY_TYPE)
def test_the_forms_behaviour_is_the_definitions(kind: str) -> None:
    behaviour = hook_of(kind).get_ui_field_behaviour()
    described = CONNECTION_TYPES[kind]["ui-field-behaviour"]
    assert behaviour == {
        "hidden_fields": described["hidden-fields"],
        "relabeling": described["relabeling"],
        "placeholders": described["placeholders"],
    }


def test_airflow_looks_for_the_methods_in_the_class_itself() -> None:
    assert {"get_connection_form_widgets", "get_ui_field_behaviour"} <= set(vars(hook_of(VIDEO)))
