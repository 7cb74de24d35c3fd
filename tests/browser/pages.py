"""Pages of captures: recorded ones, ones of which all figures are known, one of hostile texts, and a digest."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.capture.reading import read_head
from airflow_provider_mediaops.cluster.digest.attempt import DigestPlan, make_digest
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.cluster.models import NodeCpu
from airflow_provider_mediaops.cluster.page.document import page
from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
from tests.unit.cluster.digest.captured_days import MONDAY, write_two_weeks
from tests.unit.cluster.made_pages import capture
from tests.unit.cluster.task_values import NODE, TASKS
from tests.unit.hot_threads_text import cpu, section, stack, thread, unique

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.model import Capture

RECORDED = Path(__file__).parents[1] / "data" / "hot_threads"
TASKS_RECORDED = RECORDED.parent / "running_tasks"
NODES = [
    NodeCpu("1", "Node 1", percent=97.0, source="os", load_average={"1m": 12.3}),
    NodeCpu("2", "Node 2", percent=91.0, source="os"),
]


def recorded(name: str, **facts: Any) -> Capture:
    return capture((RECORDED / f"{name}.txt").read_text(encoding="utf-8"), cpu=NODES, **facts)


def made(*texts: str) -> str:
    return page(list(map(capture, texts)), title="Hot threads")


def one() -> str:
    return page([recorded("opensearch-3.8.0-cpu-with-idle-threads")], title="Hot threads of search-prod")


def with_tasks() -> str:
    tasks = RunningTasks(nodes=(NODE, replace(NODE, node="n2", unexplained_percent=None)), remarks=TASKS.remarks)
    shown = recorded("opensearch-3.8.0-cpu-with-idle-threads", running_tasks=tasks)
    return page([shown], title="Hot threads of search-prod")


def recorded_with_tasks() -> str:
    text, document = (
        (TASKS_RECORDED / f"opensearch-2.19.{name}").read_text(encoding="utf-8") for name in ("txt", "json")
    )
    tasks = RunningTasks.from_dict(read_head(document)["running_tasks"])
    return page([capture(text, running_tasks=tasks)], title="Hot threads of search-prod")


def several() -> str:
    names = ("cpu-with-idle-threads", "cpu", "cpu-with-idle-threads")
    return page([recorded(f"opensearch-2.19.1-{name}") for name in names], title="Hot threads of search-prod")


@cache
def digest_of_a_week() -> str:
    """Return the page of a week."""
    week = Period(MONDAY.timestamp(), (MONDAY + timedelta(days=7)).timestamp())
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_two_weeks(folder / "reports")
        plan = DigestPlan((str(folder / "reports"),), str(folder / "week.html"), week)
        make_digest(plan, log=lambda _: None, warn=lambda _: None)
        return (folder / "week.html").read_text()


# Two captures of which all figures are known.
BEFORE = section(
    "n1",
    thread("opensearch[n1][search][T#1]", cpu(60.0), stack(10, "a.B.same(B.java:1)", "a.B.run(B.java:1)")),
    thread("opensearch[n1][write][T#1]", cpu(20.0), stack(10, "a.B.gone(B.java:1)", "a.B.run(B.java:1)")),
)
AFTER = section(
    "n1",
    thread("opensearch[n1][search][T#1]", cpu(90.0), stack(10, "a.B.same(B.java:1)", "a.B.run(B.java:1)")),
    thread("opensearch[n1][flush][T#1]", cpu(10.0), unique("a.B.fresh(B.java:1)", "a.B.run(B.java:1)")),
)
