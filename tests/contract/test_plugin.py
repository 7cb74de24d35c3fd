"""The pages as Airflow finds them: through its own loading of plugins, at next to no cost."""

from __future__ import annotations

import pytest

from tests.contract import fresh_python

pytestmark = pytest.mark.long

PROVIDER = "airflow_provider_mediaops"
OURS = {PROVIDER, f"{PROVIDER}.plugin", f"{PROVIDER}.plugin.airflow_plugin", f"{PROVIDER}.report_urls"}
IN_A_WORKER = "from airflow.sdk.execution_time import task_runner\n"
IN_A_SERVER = "from airflow import plugins_manager\n"


@pytest.mark.parametrize("process", [IN_A_WORKER, IN_A_SERVER])
def test_loading_the_plugin_loads_next_to_nothing(process: str) -> None:
    """Its load time is kept low by what is imported, which does not depend on how busy the machine is."""
    loaded = fresh_python.result_of(
        "import sys\n"
        f"{process}"
        "from airflow.sdk import BaseOperator\n"
        "before = set(sys.modules)\n"
        f"import {PROVIDER}.plugin.airflow_plugin\n"
        "result = sorted(set(sys.modules) - before)\n"
    )
    # Airflow 3.1 has the base class of plugins in its server part only.
    assert {name for name in loaded if not name.startswith("airflow.plugins_manager")} <= OURS


PLUGINS = """
from airflow import plugins_manager
if hasattr(plugins_manager, "get_fastapi_plugins"):
    apps = plugins_manager.get_fastapi_plugins()[0]
    views = plugins_manager._get_ui_plugins()[0]
    errors = plugins_manager._get_plugins()[1]
else:
    plugins_manager.initialize_fastapi_plugins()
    plugins_manager.initialize_ui_plugins()
    apps, views, errors = plugins_manager.fastapi_apps, plugins_manager.external_views, plugins_manager.import_errors
result = [[app["url_prefix"] for app in apps], views, errors]
"""


@pytest.mark.parametrize("option", [{}, {"AIRFLOW__MEDIAOPS__PAGES": ""}], ids=["no option", "empty option"])
@pytest.mark.airflow(">=3.1.1")
def test_airflow_finds_the_tab_the_list_and_the_app(option: dict[str, str]) -> None:
    env = {"AIRFLOW__API__BASE_URL": "http://a.example/af/", **option}
    prefixes, views, errors = fresh_python.result_of(PLUGINS, env=env)
    assert not errors
    assert "/mediaops" in prefixes
    ours = {view["destination"]: view for view in views if view["url_route"].startswith("mediaops")}
    path = "/af/mediaops/hot-threads"
    assert ours["task_instance"]["href"] == f"{path}/report/{{DAG_ID}}/{{TASK_ID}}/{{MAP_INDEX}}/{{RUN_ID}}"
    assert ours["nav"]["href"] == path


def test_pages_that_are_turned_off_are_neither_shown_nor_served() -> None:
    prefixes, views, errors = fresh_python.result_of(PLUGINS, env={"AIRFLOW__MEDIAOPS__PAGES": "False"})
    assert not errors
    assert "/mediaops" not in prefixes
    assert not [view for view in views if view["url_route"].startswith("mediaops")]


@pytest.mark.airflow(">=3.1.1")
def test_option_that_is_no_boolean_is_an_import_error_of_the_plugin_alone() -> None:
    prefixes, _, errors = fresh_python.result_of(PLUGINS, env={"AIRFLOW__MEDIAOPS__PAGES": "perhaps"})
    assert "/mediaops" not in prefixes
    assert [error for error in errors.values() if "perhaps" in error or "boolean" in error]


@pytest.mark.airflow("<3.1.1")
def test_airflow_without_what_the_pages_need_loads_the_provider_and_says_so_once() -> None:
    prefixes, views, errors = fresh_python.result_of(PLUGINS)
    assert not errors
    assert "/mediaops" not in prefixes
    assert not [view for view in views if view["url_route"].startswith("mediaops")]
    done = fresh_python.run(
        "-c",
        f"import logging\nlogging.basicConfig(level='INFO')\n{PLUGINS}\n"
        "plugins_manager.ensure_plugins_loaded()\nplugins_manager.ensure_plugins_loaded()\n",
    )
    assert (done.stdout + done.stderr).count("The pages about hot threads need Airflow 3.1.1 or newer") == 1
