"""The templates of a notifier in each kind of callback: what the pages show, what a run tells, and what is an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier, PostBulletinNotifier
from tests.callback_contexts import KINDS, RUN_ID, of_a_dag, of_a_deadline, of_a_task
from tests.unit.video_platform import connection

if TYPE_CHECKING:
    import requests_mock

    from tests.unit.conftest import Supervisor

GUIDES = Path(__file__).parents[3] / "docs" / "guides"
ACTIVITIES = "https://video.example/v3/activities"

# What the pages show in a notifier, the kinds for which they show it, and what it gives there.
SHOWN = {
    "{{ dag.dag_id }}": (["task", "lost", "DAG", "no tasks"], "nightly"),
    "{{ dag_run.dag_id }}": (["task", "lost", "DAG", "deadline"], "nightly"),
    "{{ dag_run.run_after | ds }}": (["task", "lost", "DAG", "deadline"], "2026-03-15"),
    "{{ params.folder }}": (["task", "lost", "DAG"], "/exports"),
    "{{ run_id }}": (["task", "lost", "DAG", "no tasks", "deadline"], RUN_ID),
    "{{ ti.task_id }}": (["task", "lost"], "load"),
    "{{ ti.try_number }}": (["task", "lost"], "2"),
    "{{ exception or 'no error is known' }}": (["task", "lost"], "no such file|no error is known"),
}
CASES = [(kind, template, expected) for template, (kinds, expected) in SHOWN.items() for kind in kinds]
# What a deadline alert has as a task has it.
OF_THE_RUN = [
    "{{ run_id }}",
    "{{ dag_run.run_id }}",
    "{{ dag_run.dag_id }}",
    "{{ dag_run.conf.why }}",
    "{{ dag_run.run_after | ts }}",
    "{{ dag_run.logical_date | ds_nodash }}",
    "{{ logical_date.in_timezone('Asia/Tokyo') | ds }}",
    "{{ data_interval_start | ts }}",
    "{{ data_interval_end.subtract(days=2) | ds }}",
    "{{ ds }} {{ ds_nodash }} {{ ts }} {{ ts_nodash }} {{ ts_nodash_with_tz }}",
]


@pytest.fixture(autouse=True)
def platform(supervisor: Supervisor, requests_mock: requests_mock.Mocker) -> requests_mock.Mocker:
    supervisor.connect("mediaops_video_default", connection("https://video.example"))
    requests_mock.post(ACTIVITIES, json={"kind": "svc#activity", "id": "act-1"})
    return requests_mock


def posted(platform: requests_mock.Mocker) -> list[str]:
    """Give the texts that were posted."""
    return [request.json()["snippet"]["description"] for request in platform.request_history]


def test_templates_that_pages_show_in_notifiers_are_the_tested_ones() -> None:
    texts = [cls.__doc__ or "" for cls in (CaptureHotThreadsNotifier, PostBulletinNotifier)]
    texts += [(GUIDES / f"{name}.md").read_text(encoding="utf-8") for name in ("bulletin_notifier", "capture_notifier")]
    shown = {found for text in texts for found in re.findall(r"\{\{.+?\}\}", text.replace(r"\|", "|"))}

    assert shown <= set(SHOWN)


@pytest.mark.parametrize(("kind", "template", "expected"), CASES)
def test_template_of_a_page_renders_in_each_kind_of_callback_that_it_is_shown_for(
    platform: requests_mock.Mocker, kind: str, template: str, expected: str
) -> None:
    PostBulletinNotifier(text=template)(KINDS[kind]())

    [text] = posted(platform)
    assert text == (expected.split("|")[kind == "lost"] if "|" in expected else expected)


@pytest.mark.parametrize("template", OF_THE_RUN)
def test_deadline_alert_renders_what_is_known_of_its_run_as_a_task_does(
    platform: requests_mock.Mocker, template: str
) -> None:
    for context in (of_a_task(), of_a_deadline()):
        PostBulletinNotifier(text=template)(context)

    in_task, in_alert = posted(platform)
    assert in_alert == in_task != ""


def test_deadline_alert_has_its_deadline_and_its_partition(platform: requests_mock.Mocker) -> None:
    context = of_a_deadline()

    PostBulletinNotifier(text="{{ partition_key }} by {{ deadline.deadline_time | ts }}", context=context)(context)

    assert posted(platform) == ["eu by 2026-03-15T21:00:00+00:00"]
    # What Airflow gives is left as it is.
    assert context == of_a_deadline()


def test_deadline_alert_of_a_run_without_a_logical_date_has_no_names_of_it() -> None:
    context = of_a_deadline(is_manual=True)

    with pytest.raises(InvalidArgumentError, match="'ds' is undefined"):
        PostBulletinNotifier(text="{{ ds }}", context=context)(context)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ ti.task_id }} is late", "'ti' is undefined"),
        ("{{ dag_run.no_such }}", "has no attribute 'no_such'"),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        ("{{ unclosed", "unexpected end of template"),
    ],
)
async def test_template_that_a_deadline_alert_cannot_render_is_raised_with_the_reason(
    platform: requests_mock.Mocker, template: str, why: str
) -> None:
    with pytest.raises(InvalidArgumentError) as in_executor:
        PostBulletinNotifier(text=template)(of_a_deadline())
    with pytest.raises(InvalidArgumentError) as in_triggerer:
        await PostBulletinNotifier(text=template, context=of_a_deadline())

    told = str(in_executor.value)
    assert told == str(in_triggerer.value)
    assert told.startswith(f"text cannot be rendered from {template!r}: ")
    assert why in told
    assert not platform.called


@pytest.mark.parametrize("kind", ["task", "DAG", "no tasks"])
def test_unknown_name_in_a_template_of_a_callback_is_an_error(platform: requests_mock.Mocker, kind: str) -> None:
    with pytest.raises(InvalidArgumentError, match="'deadline' is undefined"):
        PostBulletinNotifier(text="{{ deadline.id }}")(KINDS[kind]())
    assert not platform.called


def test_callback_with_a_dag_that_renders_no_templates_has_an_environment_of_its_own(
    platform: requests_mock.Mocker,
) -> None:
    class SerializedDag:
        """`dag.test()` gives such a one to the callbacks of the DAG (apache/airflow#64649)."""

        dag_id = "nightly"
        render_template_as_native_obj = False

    context = {**of_a_dag(), "dag": SerializedDag()}
    PostBulletinNotifier(text="{{ dag.dag_id }} of {{ dag_run.run_after | ds }}")(context)
    with pytest.raises(InvalidArgumentError, match="has no attribute 'no_such'"):
        PostBulletinNotifier(text="{{ dag.no_such }}")(context)

    assert posted(platform) == ["nightly of 2026-03-15"]
