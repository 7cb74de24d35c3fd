"""A page leaves nothing to the garbage collector: in a large process it would keep the pages of an hour."""

from __future__ import annotations

from airflow_provider_mediaops.cluster.page import assets as page_assets
from airflow_provider_mediaops.cluster.page.document import Surroundings, page
from tests.unit.cluster.made_digests import digest_of, page_of
from tests.unit.cluster.made_pages import BUSY, TAKEN, capture
from tests.unit.cluster.task_values import TASKS
from tests.unit.garbage import garbage_of


def test_a_macro_of_the_page_itself_would_leave_its_values() -> None:
    template = page_assets.environment().from_string(
        '{% extends "page.html" %}{% macro own() %}{{ title }}{% endmacro %}{% block before %}{{ own() }}{% endblock %}'
    )
    left = garbage_of(lambda: page([capture(BUSY)], title="x", within=Surroundings(template, {})))
    assert {"Context", "Macro", "Table", "Cell", "FlameData"} <= left


def test_one_capture_leaves_nothing() -> None:
    one = capture(BUSY, taken=TAKEN, running_tasks=TASKS)
    assert garbage_of(lambda: page([one], title="x")) == set()


def test_several_captures_leave_nothing() -> None:
    both = [capture(BUSY, taken=TAKEN, running_tasks=TASKS), capture(BUSY)]
    assert garbage_of(lambda: page(both, title="x")) == set()


def test_a_text_that_was_not_understood_leaves_nothing() -> None:
    assert garbage_of(lambda: page([capture("what is this")], title="x")) == set()


def test_a_digest_leaves_nothing() -> None:
    digest = digest_of()
    assert garbage_of(lambda: page_of(digest)) == set()
