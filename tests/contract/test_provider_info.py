"""The provider as Airflow finds it: its name, and every key that Airflow is meant to read."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
from importlib.resources import files
from pkgutil import resolve_name
from typing import Any

import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.get_provider_info import get_provider_info
from tests.contract.tasks import OPERATORS

NAME = "airflow-provider-mediaops"
# Where tasks and DAG files look up what handles the URIs of assets; Airflow 3.2 has split it from what servers look up.
ASSET_PROVIDERS: Any = (
    importlib.import_module("airflow.sdk.providers_manager_runtime").ProvidersManagerTaskRuntime
    if importlib.util.find_spec("airflow.sdk.providers_manager_runtime")
    else ProvidersManager
)


def schema(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files("airflow").joinpath(name).read_text())
    return content


def test_airflow_finds_the_provider_under_its_canonical_name() -> None:
    provider = ProvidersManager().providers[NAME]
    assert provider.version == importlib.metadata.version(NAME) == __version__
    assert {entry["connection-type"] for entry in provider.data["connection-types"]} == {
        "mediaops_video",
        "mediaops_cluster",
        "mediaops_books",
    }


def test_the_metadata_is_valid() -> None:
    jsonschema.Draft7Validator(schema("provider_info.schema.json")).validate(get_provider_info())


def test_the_connection_types_keep_to_the_strict_schema() -> None:
    types = schema("provider.yaml.schema.json")["properties"]["connection-types"]
    jsonschema.Draft7Validator(types).validate(get_provider_info()["connection-types"])


def test_every_class_function_and_module_is_there() -> None:
    info = get_provider_info()
    hooks = [entry["hook-class-name"] for entry in info["connection-types"]]
    kinds = ("hooks", "operators", "sensors", "triggers")
    modules = [module for kind in kinds for entry in info[kind] for module in entry["python-modules"]]
    assert all(isinstance(resolve_name(path), type) for path in (*hooks, *info["notifications"], *info["extra-links"]))
    assert all(callable(resolve_name(path)) for path in info["cli"])
    assert all(importlib.import_module(path).__doc__ for path in modules)
    listed = [module for entry in info["operators"] for module in entry["python-modules"]]
    assert set(listed) == {task.kind.__module__ for task in OPERATORS}


@pytest.mark.parametrize("entry", get_provider_info()["asset-uris"], ids=lambda entry: entry["schemes"][0])
def test_airflow_finds_what_handles_the_uris_of_assets(entry: dict[str, Any]) -> None:
    manager = ASSET_PROVIDERS()
    for scheme in entry["schemes"]:
        assert manager.asset_uri_handlers[scheme] is resolve_name(entry["handler"])
        assert manager.asset_factories[scheme] is resolve_name(entry["factory"])
        assert manager.asset_to_openlineage_converters[scheme] is resolve_name(entry["to_openlineage_converter"])


def test_airflow_knows_the_links_of_all_operators() -> None:
    modules = [resolve_name(path) for path in get_provider_info()["extra-links"]]
    made = {type(link) for task in OPERATORS for link in task.kind.operator_extra_links}
    assert made == set(modules)
    assert set(get_provider_info()["extra-links"]) <= set(ProvidersManager().extra_links_class_names)


def test_every_service_is_listed_everywhere() -> None:
    info = get_provider_info()
    names = {entry["integration-name"] for entry in info["integrations"]}
    for kind in ("hooks", "operators", "sensors", "triggers"):
        assert {entry["integration-name"] for entry in info[kind]} == names


@pytest.mark.parametrize("entry", get_provider_info()["connection-types"], ids=lambda entry: entry["connection-type"])
def test_the_hook_says_of_itself_what_the_metadata_says(entry: dict[str, Any]) -> None:
    hook = resolve_name(entry["hook-class-name"])
    assert hook.conn_type == entry["connection-type"]
    assert hook.hook_name == entry["hook-name"]
    assert hook.default_conn_name == f"{hook.conn_type}_default"
    # Airflow makes a hook of a connection in this way, for a test of the connection for one.
    assert getattr(hook(**{hook.conn_name_attr: "mine"}), hook.conn_name_attr) == "mine"
