"""Every operator and sensor of the provider, each with arguments that Airflow has to carry about."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.sensors.video import SubscriptionSensor

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

OUTPUT = "memory://contract"
#: A folder of reports that clusters sent.
REPORTS = str(Path(__file__).parents[1] / "data" / "hot_threads")


@dataclass(frozen=True)
class Task:
    """A task to make.

    :param kind: its class.
    :param arguments: how it is made.
    :param connection: the name of the argument that names its connection; empty if it has none.
    :param mapped: what it may be mapped over, which the sandbox answers.
    :param instead: an argument, and the other one whose place it takes.
    """

    kind: type[BaseOperator]
    arguments: dict[str, Any]
    connection: str
    mapped: dict[str, list[Any]]
    instead: tuple[str, str] | None = None

    def writing_to(self, folder: Path) -> Task:
        """Give the same task with its files below a folder."""
        arguments, mapped = json.loads(json.dumps([self.arguments, self.mapped]).replace(OUTPUT, folder.as_uri()))
        return replace(self, arguments=arguments, mapped=mapped)

    def make(self, task_id: str = "task", **arguments: Any) -> BaseOperator:
        return self.kind(task_id=task_id, **{**self.arguments, **arguments})


OPERATORS = [
    Task(
        PostBulletinOperator,
        {"text": "New in the catalogue", "video_id": "sandbox-video-1"},
        "video_conn_id",
        {"text": ["one", "two"]},
    ),
    Task(
        ExportSubscriptionsOperator,
        {
            "destination": f"{OUTPUT}/subscriptions.jsonl",
            "mine": True,
            "part": ["id", "snippet"],
            "order": "alphabetical",
        },
        "video_conn_id",
        {"destination": [f"{OUTPUT}/one.csv", f"{OUTPUT}/two.jsonl"]},
    ),
    Task(
        CaptureHotThreadsOperator,
        {
            "destination": f"{OUTPUT}/hot_threads.txt",
            "nodes": ["sandbox-1", "sandbox-2"],
            "interval": "10ms",
            "snapshots": 2,
        },
        "cluster_conn_id",
        {"nodes": ["sandbox-1", "sandbox-2"]},
    ),
    Task(
        HotThreadsDigestOperator,
        {"destination": f"{OUTPUT}/digest.html", "source": REPORTS},
        "",
        {"source": [REPORTS, [f"{REPORTS}/*-cpu.txt"]]},
    ),
    Task(
        EnrichIsbnsOperator,
        {"destination": f"{OUTPUT}/books.jsonl", "isbns": ["978-0-14-044913-6", "none"]},
        "books_conn_id",
        {"isbns": [["9780140449136"], ["9780306406157", "none"]]},
        instead=("source", "isbns"),
    ),
]
SENSORS = [
    Task(
        SubscriptionSensor,
        {"mine": True, "for_channel_ids": ["UCsandbox-0001"], "poke_interval": 30},
        "video_conn_id",
        {"for_channel_ids": [None, None]},
    ),
    Task(
        ClusterCpuSensor,
        {"threshold": 80, "sustained_for": 1, "nodes": "sandbox-2", "require": "all"},
        "cluster_conn_id",
        {"threshold": [0, "0"]},
    ),
    Task(
        BookSensor,
        {"isbn": "978-0-14-044913-6", "exponential_backoff": True},
        "books_conn_id",
        {"isbn": ["9780140449136", "9780306406157"]},
    ),
]
# Operators that hand a wait to the triggerer when they are told to.
DEFERRING = [
    Task(
        CaptureHotThreadsOperator,
        {"destination": f"{OUTPUT}/hot_threads.txt", "nodes": ["sandbox-1"], "when_cpu_above": 80, "sustained_for": 60},
        "cluster_conn_id",
        {"nodes": ["sandbox-1", "sandbox-2"]},
    ),
    Task(
        EnrichIsbnsOperator,
        {"destination": f"{OUTPUT}/books.jsonl", "isbns": ["978-0-14-044913-6", "none"]},
        "books_conn_id",
        {"isbns": [["9780140449136"], ["9780306406157", "none"]]},
    ),
    Task(
        ExportSubscriptionsOperator,
        {"destination": f"{OUTPUT}/subscriptions.csv", "mine": True, "if_changed": True},
        "video_conn_id",
        {"destination": [f"{OUTPUT}/one.csv", f"{OUTPUT}/two.jsonl"]},
    ),
]
TASKS = [*OPERATORS, *SENSORS]


def name_of(task: Task) -> str:
    """Name a case of a test."""
    return task.kind.__name__
