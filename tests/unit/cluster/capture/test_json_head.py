"""The head of a capture's JSON file, whole or cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.capture.json_head import JsonHead, read_head
from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
from tests.unit.cluster.digest.captured_days import MONDAY, SEARCH, hot, text_at
from tests.unit.cluster.task_values import TASKS, hostile_tasks
from tests.unit.hot_threads_text import hostile

TEXT = text_at(MONDAY, hot("n", "search", 50, SEARCH))


def written(text: str, **circumstances: Any) -> str:
    return Capture(text, **circumstances).content("json").decode("ascii")


AFTER_TASKS = ',\n "kinds": ['
FULL = written(hostile(), running_tasks=TASKS)


def test_the_first_characters_say_when_and_why() -> None:
    head = read_head(written(TEXT, taken=MONDAY, cause="CPU", reason="time_limit")[:300])
    assert (head.taken, head.reason, head.cut) == (MONDAY, "time_limit", None)


@pytest.mark.parametrize("tasks", [TASKS, hostile_tasks(100), RunningTasks()])
def test_tasks_are_read_from_what_a_capture_writes(tasks: RunningTasks) -> None:
    content = written(hostile(), running_tasks=tasks)
    head = read_head(content)
    assert head.values["running_tasks"] == tasks.to_dict() == json.loads(content)["running_tasks"]
    assert head.cut is None
    # What follows is not needed.
    assert read_head(content[: content.index(AFTER_TASKS)]).values["running_tasks"] == tasks.to_dict()


def test_a_capture_without_them_has_none() -> None:
    assert list(read_head(written(hostile())).values) == ["capture", "kinds"]


def test_the_words_in_another_place_are_not_taken_for_them() -> None:
    text = ' "running_tasks": {"nodes": [{"node": "forged"}]}'
    for content in (
        written(f"::: {{{text}}}", cause=f"because\n{text}"),
        '{\n "capture": {\n  "running_tasks": {"nodes": [{"node": "another"}]}\n },\n "nodes": []\n}',
    ):
        assert "running_tasks" not in read_head(content).values


@pytest.mark.parametrize("end", [FULL.index(AFTER_TASKS) - 1, 250])
def test_tasks_that_are_cut_are_said_to_be(end: int) -> None:
    head = read_head(FULL[:end])
    assert head.cut == "running_tasks"
    assert (list(head.values), head.values["running_tasks"]) == (["capture", "running_tasks"], None)


@pytest.mark.parametrize("value", ["[" * 100_000, "nonsense", '{"nodes": NaN'])
def test_file_that_is_no_json_is_not_read(value: str) -> None:
    assert read_head(f'{{\n "running_tasks": {value}').cut == "running_tasks"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"nodes": []}',
        '{"capture"',
        '{"capture": 5, "nodes": []}',
        '{"capture": {"taken": "soon", "reason": 3}}',
        '{"capture": {"taken": null}, "running_tasks": [1, {"nodes": 2}]}',
        '{"a": ' + "[" * 100_000,
        "\ufffd\ufffd{\x00",
        written(TEXT),
    ],
)
def test_anything_else_is_a_head_that_says_nothing(content: str) -> None:
    head = read_head(content)
    assert (head.taken, head.reason) == (None, None)


def test_a_digest_is_known_by_its_first_name() -> None:
    assert read_head('{"digest": {"since": null}, "profiles": []}') == JsonHead({"digest": None})
