"""What page and JSON make of reports as people have them: other time, pasted pieces, prompts, and no report at all."""

from __future__ import annotations

import json
import re

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.cluster.page.document import PageCapture, page
from tests.unit.hot_threads_text import cpu, section, thread

SPLIT = "100.0% [cpu=4.3%, other=95.7%] (500ms out of 500ms) cpu usage by"
HOT = "opensearch[n1][search][T#1]"


def shown(text: str) -> str:
    """Return the words of the page of a report, without its scripts and the report itself."""
    html = page([PageCapture(text, parse(text))], title="Hot threads")
    html = re.sub(r"<(script|style|pre)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_other_time_is_no_cpu() -> None:
    text = section("n1", f"   {SPLIT} thread 'elasticsearch[n1][transport_worker][T#1]'\n", thread(HOT, cpu(60.0)))
    words = shown(text)
    assert "Hottest thread: opensearch[n1][search][T#1] with 60.0 %" in words
    assert "4.3 % other 95.7 %" in words
    [node] = json.loads(Capture(text).content("json"))["nodes"]
    assert [(one["cpu_percent"], one["other_percent"]) for one in node["threads"]] == [(4.3, 95.7), (60.0, None)]


def test_a_text_that_is_no_report_does_not_say_that_nothing_was_hot() -> None:
    words = shown("hello world")
    assert "No thread was hot" not in words
    assert "understood" in words


def test_a_prompt_before_the_report_is_no_node() -> None:
    text = "$ curl localhost:9200/_nodes/hot_threads\n" + section("n1", thread(HOT, cpu(60.0)))
    assert "1 thread of 1 node" in shown(text)
    assert [node["name"] for node in json.loads(Capture(text).content("json"))["nodes"]] == ["n1"]


def test_a_piece_without_header_is_of_the_node_in_its_threads() -> None:
    text = thread(HOT, cpu(60.0))
    words = shown(text)
    assert "on n1" in words
    assert "(no node)" not in words
    assert [node["name"] for node in json.loads(Capture(text).content("json"))["nodes"]] == ["n1"]
