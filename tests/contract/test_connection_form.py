"""The connection form: every field of the one definition reaches Airflow's pages, in each version by its own way."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any

import pytest
from airflow.sdk._shared.secrets_masker import redact
from packaging.version import Version

from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from tests.contract import fresh_python

# What the route `/ui/connections/hook_meta` answers, by the function that it calls.
FORMS = """
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

result = {
    form.connection_type: form.model_dump(mode="json")
    for form in HookMetaService.hook_meta_data()
    if (form.connection_type or "").startswith("mediaops_")
}
"""
WITHOUT_WTFORMS = "import sys; sys.modules['wtforms'] = None\n"
# Asks for all that Airflow can ask of hooks, and keeps what it says about ours meanwhile.
ALL_HOOKS = """
import logging, warnings
from airflow.providers_manager import ProvidersManager

said = []
logging.getLogger().addHandler(handler := logging.Handler(logging.WARNING))
handler.emit = lambda record: said.append(record.getMessage())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    manager = ProvidersManager()
    names = {name: hook.hook_name for name, hook in manager.hooks.items() if name.startswith("mediaops_") and hook}
    masked = [
        (key.split("__")[1], widget.field_name)
        for key, widget in manager.connection_form_widgets.items()
        if key.startswith("extra__mediaops_") and widget.is_sensitive
    ]
    manager.field_behaviours
result = {
    "names": names,
    "masked": masked,
    "said": [text for text in [*said, *(str(warning.message) for warning in caught)] if "mediaops" in text],
}
"""
TYPES = sorted(CONNECTION_TYPES)
SECRETS = [("mediaops_cluster", "client_key_password"), ("mediaops_video", "refresh_token")]

# The one place where the versions differ: below 3.2 the form is made of Python classes that Airflow does not bring.
IN_PYTHON = Version(importlib.metadata.version("apache-airflow")) < Version("3.2")
shows_fields = pytest.mark.skipif(
    IN_PYTHON and importlib.util.find_spec("wtforms") is None,
    reason="Airflow 3.1 shows the own fields of no provider where wtforms is not installed",
)


# The form is made in a process of its own.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def forms() -> dict[str, Any]:
    found: dict[str, Any] = fresh_python.result_of(FORMS)
    return found


@shows_fields
@pytest.mark.parametrize("name", TYPES)
def test_form_has_the_name_and_the_standard_fields_of_its_definition(name: str, forms: dict[str, Any]) -> None:
    form, described = forms[name], CONNECTION_TYPES[name]
    assert (form["hook_name"], form["hook_class_name"]) == (described["hook-name"], described["hook-class-name"])
    shown = {field: entry or {} for field, entry in form["standard_fields"].items()}
    shown["schema"] = shown.pop("url_schema")
    behaviour = described["ui-field-behaviour"]
    assert {field for field, entry in shown.items() if entry.get("hidden")} == set(behaviour["hidden-fields"])
    for part, told in (("title", "relabeling"), ("placeholder", "placeholders")):
        assert {field: entry[part] for field, entry in shown.items() if entry.get(part)} == behaviour[told]


@shows_fields
@pytest.mark.parametrize("name", TYPES)
def test_form_shows_each_own_field_as_it_is_defined_and_no_others(name: str, forms: dict[str, Any]) -> None:
    shown, defined = forms[name]["extra_fields"], CONNECTION_TYPES[name]["conn-fields"]
    assert list(shown) == list(defined)
    for field, definition in defined.items():
        schema, wanted = shown[field]["schema"], definition["schema"]
        assert (schema["title"], shown[field]["description"]) == (definition["label"], definition["description"])
        assert shown[field]["value"] == wanted.get("default")
        if not IN_PYTHON or (name, field) in SECRETS:
            assert schema.get("format") == wanted.get("format")
        assert {*schema.get("enum", [])} - {None} == {*wanted.get("enum", [])} - {None}
        # Without "null" the form would insist on a value.
        assert "null" in schema["type"]


@pytest.mark.parametrize("before", ["", WITHOUT_WTFORMS], ids=["as installed", "without wtforms"])
def test_airflow_finds_no_fault_with_the_hooks(before: str) -> None:
    found = fresh_python.result_of(before + ALL_HOOKS)
    assert found["names"] == {name: described["hook-name"] for name, described in CONNECTION_TYPES.items()}
    assert found["said"] == []


@shows_fields
def test_secrets_are_masked_fields() -> None:
    found = fresh_python.result_of(ALL_HOOKS)
    assert sorted(tuple(field) for field in found["masked"]) == SECRETS


@pytest.mark.airflow(">=3.2")
def test_the_form_needs_no_wtforms() -> None:
    forms = fresh_python.result_of(WITHOUT_WTFORMS + FORMS)
    assert {name: list(forms[name]["extra_fields"]) for name in TYPES} == {
        name: list(CONNECTION_TYPES[name]["conn-fields"]) for name in TYPES
    }


@pytest.mark.parametrize(("name", "field"), SECRETS)
def test_airflow_masks_secrets_in_extra_by_their_names(name: str, field: str) -> None:
    assert CONNECTION_TYPES[name]["conn-fields"][field]["schema"]["format"] == "password"
    assert redact({field: "a long secret"}) == {field: "***"}
