"""Pages of captures, made to be looked at, and their elements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from html import unescape
from html.parser import HTMLParser
from typing import Any

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats
from airflow_provider_mediaops.cluster.page.document import page
from airflow_provider_mediaops.cluster.statistics import statistics_of
from tests.unit.cluster.task_values import hostile_tasks
from tests.unit.hot_threads_text import ATTACKS, cpu, hostile, section, stack, thread

TAKEN = datetime(2026, 3, 14, 21, 0, 5, tzinfo=timezone(timedelta(hours=1)))


BUSY = section(
    "n1", thread("opensearch[n1][search][T#1]", cpu(96.1), stack(10, "a.b.C.top(C.java:1)", "a.b.C.run(C.java:2)"))
)


VOID = {"meta", "br", "wbr", "input", "link", "img"}


class Document(HTMLParser):
    """The elements of a page, and the text of those asked for."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append((tag, ""))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.append((self._open[-1], data))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, *tags: str) -> str:
        shown = [data for tag, data in self.texts if (tag in tags if tags else tag not in {"script", "style"})]
        return " ".join("".join(shown).split())


def words_of(html: str) -> str:
    """Return the words of a page or of a part of one, with a blank between elements, without scripts and raw texts."""
    body = re.sub(r"<(script|style|pre)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def capture(text: str, *, cpu: Sequence[NodeCpu] | None = None, **facts: Any) -> Capture:
    return Capture(text, stats=None if cpu is None else NodeStats(tuple(cpu)), **facts)


def made(*captures: Capture, title: str = "Hot threads") -> Document:
    html = page(captures, title=title)
    html.encode()
    assert html.startswith("<!DOCTYPE html>")
    return Document(html)


def attacked() -> str:
    """Return a page with attacks wherever a cluster or a user may have put them."""
    everything = "".join(ATTACKS)
    broken = f"::: {{{everything}}}{{id}}\n   hot threads is not supported on {everything}\n"
    nodes = [NodeCpu(everything, everything, percent=50.0)]
    counters = {"name": everything, "thread_pool": {everything: {"queue": 5_000}}}
    merge = f"opensearch[n][[{''.join(ATTACKS[:3])}][3]: Lucene Merge Thread #7]"
    one = capture(
        hostile() + section("n", thread(merge, cpu(99.0))),
        cpu=nodes,
        remarks=ATTACKS,
        path=everything,
        running_tasks=hostile_tasks(500),
        statistics=statistics_of({everything: counters}, {}),
    )
    return page([one, capture(broken), one], title=everything)
