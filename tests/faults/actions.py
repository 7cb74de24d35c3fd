"""Everything that can meet a fault: each hook method, operator, sensor, trigger and notifier, in each of its forms."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier, PostBulletinNotifier
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.sensors.video import SubscriptionSensor
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
from tests.airflow_names import TaskDeferred
from tests.faults.made_up_time import NEVER_SECONDS, settle
from tests.faults.services import ISBNS
from tests.unit.sensor_forms import first_event, made_again

if TYPE_CHECKING:
    from tests.faults.behaviours import Fault, Slow

#: The columns of the table: what the work does with the service.
Kind = Literal["read", "write", "report", "listing", "books", "waiting", "watching", "digest"]
Form = Literal["sync", "async"]
_REPORT = Path(__file__).parents[1] / "data" / "hot_threads" / "opensearch-2.19.1-cpu.txt"
#: How the outcome of an action shows: it is raised, or shown on the connection page.
Shown = Literal["raised", "answered"]


@dataclass
class Desk:
    """
    Where an action works, and what it leaves with Airflow.

    :param rows: filled with what Airflow keeps: rendered fields, triggers, events and results.
    :param place: the address of its files, if that is another than the folder.
    """

    folder: Path
    rows: list[Any]
    place: str = ""

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self.place or self.folder}/{name}"

    def path_beside(self, name: str) -> str:
        """Return the path of a file that no outcome counts."""
        return f"{self.place or self.folder.parent}/{name}"

    def local_beside(self, name: str) -> Path:
        """Return a file beside the folder, for what a task only reads."""
        return self.folder.parent / name

    @property
    def context(self) -> Any:
        """The context of a task, the same at each try of it."""
        names = {"dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": -1, "try_number": 1}
        instance = SimpleNamespace(**names, max_tries=3, get_first_reschedule_date=lambda _: None)
        return {"ti": instance}


@dataclass(frozen=True)
class Action:
    """
    One thing that a user can call, in one of its forms.

    :param name: the public name; the method of a hook, or the class.
    :param form: in a worker or on an event loop.
    :param service: `video`, `cluster` or `books`.
    :param run: does it; returns what the user gets.
    :param reads_text: whether the reply that it needs is not JSON.
    :param files: the files that it leaves in the end.
    """

    name: str
    form: Form
    service: str
    kind: Kind
    run: Callable[[Desk], Any]
    shown: Shown = "raised"
    auth: str = ""
    reads_text: bool = False
    files: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name in the report of the tests."""
        return f"{self.name}{f'({self.auth})' if self.auth else ''}-{self.form}"

    @property
    def is_patient(self) -> bool:
        """Whether it waits out what is temporary."""
        return self.kind in ("waiting", "watching")

    def can_meet(self, fault: Fault) -> bool:
        """Return whether it can meet a fault at all."""
        if self.kind == "digest" or (fault.only_json and self.reads_text):
            # A digest asks no service.
            return False
        if self.is_patient and fault.once:
            # A wait outlasts more than one of them.
            return False
        is_refreshing = "refreshing" in fault.only and self.auth == "refresh_token"
        return not fault.only or self.kind in fault.only or is_refreshing

    @property
    def receipts(self) -> set[str]:
        """The files beside those, by which a retry knows that the work is done."""
        return {f".{name}.staging" for name in self.files}


_HOOKS: dict[str, Any] = {"video": VideoPlatformHook, "cluster": SearchClusterHook, "books": BookDatabaseHook}


def _call(service: str, method: str, *arguments: Any, **named: Any) -> Callable[[Desk], Any]:
    def call(_: Desk) -> Any:
        with _HOOKS[service]() as hook:
            outcome = getattr(hook, method)(*arguments, **named)
            return list(outcome) if inspect.isgenerator(outcome) else outcome

    return call


def _in_form(task: Callable[..., Any], form: Form) -> Callable[[Desk], Any]:
    """Run a task in a worker, or deferred, as Airflow does: its trigger goes through the database."""

    def run(desk: Desk) -> Any:
        made = task(desk, deferrable=form == "async")
        desk.rows.append({name: getattr(made, name) for name in made.template_fields})
        try:
            result = made.execute(desk.context)
        except TaskDeferred as deferred:
            trigger, method, given = deferred.trigger, deferred.method_name, deferred.kwargs or {}
            desk.rows.append(trigger.serialize())
            again = made_again(trigger)
            payload = settle(first_event(again))
            desk.rows.append(payload)
            result = task(desk, deferrable=True).resume_execution(method, {**given, "event": payload}, desk.context)
        desk.rows.append(result)
        return result

    return run


def _post(desk: Desk, deferrable: bool) -> Any:  # noqa: ARG001, FBT001
    return PostBulletinOperator(task_id="task", text="New")


def _post_by_journal(desk: Desk, deferrable: bool) -> Any:  # noqa: ARG001, FBT001
    return PostBulletinOperator(task_id="task", text="New", journal=desk.path_beside("journal"), once_per="day")


def _export(desk: Desk, deferrable: bool, **more: Any) -> Any:  # noqa: FBT001
    path = desk.path("subscriptions.jsonl")
    return ExportSubscriptionsOperator(task_id="task", destination=path, mine=True, deferrable=deferrable, **more)


def _export_changes(desk: Desk, deferrable: bool) -> Any:  # noqa: FBT001
    return _export(desk, deferrable, changes=desk.path("changes.jsonl"))


def _enrich(desk: Desk, deferrable: bool, **more: Any) -> Any:  # noqa: FBT001
    path = desk.path("books.jsonl")
    return EnrichIsbnsOperator(task_id="task", destination=path, isbns=list(ISBNS), deferrable=deferrable, **more)


def _enrich_bulk(desk: Desk, deferrable: bool) -> Any:  # noqa: FBT001
    return _enrich(desk, deferrable, bulk=True)


def _enrich_reusing(desk: Desk, deferrable: bool) -> Any:  # noqa: FBT001
    """Make a task whose first book is new, whose second is taken from an earlier dataset, and whose third is stale."""
    earlier = desk.local_beside("earlier.jsonl")
    if not earlier.exists():
        now = datetime.now(timezone.utc)
        rows = [_earlier_row(isbn, now - timedelta(days=days)) for isbn, days in zip(ISBNS[1:], (1, 100), strict=True)]
        earlier.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return _enrich(desk, deferrable, reuse=str(earlier), max_requests=100)


def _earlier_row(isbn13: str, fetched: datetime) -> dict[str, Any]:
    head = {"input": isbn13, "isbn13": isbn13, "status": "found", "error": None, "fetched_at": fetched.isoformat()}
    return {**head, "reused": False, "book": {"title": "As it was"}}


def _capture(desk: Desk, deferrable: bool, **more: Any) -> Any:  # noqa: FBT001
    path = desk.path("hot.txt")
    return CaptureHotThreadsOperator(task_id="task", destination=path, deferrable=deferrable, **_SHORT, **more)


def _capture_with_tasks(desk: Desk, deferrable: bool) -> Any:  # noqa: FBT001
    return _capture(desk, deferrable, running_tasks=True)


def _digest(desk: Desk, deferrable: bool) -> Any:  # noqa: ARG001, FBT001
    captures = desk.local_beside("captures")
    captures.mkdir(exist_ok=True)
    if not any(captures.iterdir()):
        shutil.copy(_REPORT, captures)
    return HotThreadsDigestOperator(task_id="task", source=str(captures), destination=desk.path("digest.html"))


def _capture_when_hot(desk: Desk, deferrable: bool) -> Any:  # noqa: FBT001
    return _capture(desk, deferrable, when_cpu_above=80, poll_interval=1)


def _sensor(cls: Any, **arguments: Any) -> Callable[..., Any]:
    def make(_: Desk, *, deferrable: bool) -> Any:
        return cls(task_id="task", poke_interval=1, deferrable=deferrable, **arguments)

    return make


def _notify(notifier: Callable[[Desk], Any], form: Form) -> Callable[[Desk], Any]:
    def run(desk: Desk) -> Any:
        made = notifier(desk)
        desk.rows.append({name: getattr(made, name) for name in made.template_fields})
        if form == "sync":
            made(desk.context)
        else:
            made.context = desk.context
            settle(_awaited(made))

    return run


async def _awaited(notifier: Any) -> None:
    await notifier


def _watch(desk: Desk) -> Any:
    made = HighCpuTrigger(threshold=80, sustained_for=0, poll_interval=1)
    desk.rows.append(made.serialize())
    payload = settle(first_event(made_again(made)))
    desk.rows.append(payload)
    return payload


def _check(service: str) -> Callable[[Desk], Any]:
    return lambda _: _HOOKS[service]().test_connection()


# The time limit of a report grows with the time that the cluster may take.
_SHORT: dict[str, Any] = {"interval": "10ms", "snapshots": 1, "timeout": "100ms", "master_timeout": "100ms"}
_BOTH: tuple[Form, Form] = ("sync", "async")
_METHODS: list[tuple[str, str, Kind, tuple[Any, ...], dict[str, Any], bool]] = [
    ("video", "post_bulletin", "write", ("New",), {}, False),
    ("video", "list_subscriptions", "read", (), {"mine": True}, False),
    ("video", "iter_subscription_pages", "listing", (), {"mine": True}, False),
    ("video", "iter_subscriptions", "listing", (), {"mine": True}, False),
    ("cluster", "hot_threads", "report", (), _SHORT, True),
    ("cluster", "hot_threads_report", "report", (), _SHORT, True),
    ("cluster", "cpu", "read", (), {}, False),
    ("books", "book", "read", (ISBNS[0],), {}, False),
    ("books", "lookup", "read", (ISBNS[0],), {}, False),
    ("books", "key_usage", "read", (), {}, False),
    ("books", "books", "books", (ISBNS,), {}, False),
]
_DIGEST = tuple(f"digest.{suffix}" for suffix in ("folded", "html", "json"))
_CAPTURED = tuple(f"hot.{suffix}" for suffix in ("folded", "html", "json", "txt"))
_SENSORS: dict[str, Callable[..., Any]] = {
    "SubscriptionSensor": _sensor(SubscriptionSensor, mine=True),
    "ClusterCpuSensor": _sensor(ClusterCpuSensor, threshold=80),
    "BookSensor": _sensor(BookSensor, isbn=ISBNS[0]),
}


def _bulletin_notifier(_: Desk) -> Any:
    return PostBulletinNotifier(text="New")


def _capture_notifier(desk: Desk) -> Any:
    return CaptureHotThreadsNotifier(destination=desk.path("hot.txt"), **_SHORT)


def _actions() -> list[Action]:
    made: list[Action] = []
    for service, method, kind, arguments, named, text in _METHODS:
        call = _call(service, method, *arguments, **named)
        made.append(Action(method, "sync", service, kind, call, reads_text=text))
    listed = _call("video", "list_subscriptions", channel_id="UC1")
    made.append(Action("list_subscriptions", "sync", "video", "read", listed, auth="api_key"))
    mine = _call("video", "list_subscriptions", mine=True)
    made.append(Action("list_subscriptions", "sync", "video", "read", mine, auth="refresh_token"))
    # The request that meets the fault is the one for a token, which may be sent again.
    post = _call("video", "post_bulletin", "New")
    made.append(Action("post_bulletin", "sync", "video", "read", post, auth="refresh_token"))
    for form in _BOTH:
        made += [
            Action(cls, form, service, kind, _in_form(task, form), files=files)
            for cls, service, kind, task, files in _tasks()
        ]
        names = {"SubscriptionSensor": "video", "ClusterCpuSensor": "cluster", "BookSensor": "books"}
        made += [Action(name, form, names[name], "waiting", _in_form(make, form)) for name, make in _SENSORS.items()]
        made.append(Action("PostBulletinNotifier", form, "video", "write", _notify(_bulletin_notifier, form)))
        capture = _notify(_capture_notifier, form)
        files = ("hot.json", "hot.txt")
        made.append(Action("CaptureHotThreadsNotifier", form, "cluster", "report", capture, files=files))
    made.append(Action("PostBulletinOperator", "sync", "video", "write", _in_form(_post, "sync")))
    by_journal = _in_form(_post_by_journal, "sync")
    made.append(Action("PostBulletinOperator with journal", "sync", "video", "write", by_journal))
    for name, task in (("", _capture), (" with running_tasks", _capture_with_tasks)):
        capture = _in_form(task, "sync")
        made.append(Action(f"CaptureHotThreadsOperator{name}", "sync", "cluster", "report", capture, files=_CAPTURED))
    digest = _in_form(_digest, "sync")
    made.append(Action("HotThreadsDigestOperator", "sync", "cluster", "digest", digest, files=_DIGEST))
    made.append(Action("HighCpuTrigger", "async", "cluster", "watching", _watch))
    made += [Action("test_connection", "sync", name, "read", _check(name), "answered") for name in _HOOKS]
    return made


def _tasks() -> list[tuple[str, str, Kind, Callable[..., Any], tuple[str, ...]]]:
    return [
        ("ExportSubscriptionsOperator", "video", "listing", _export, ("subscriptions.jsonl",)),
        (
            "ExportSubscriptionsOperator with changes",
            "video",
            "listing",
            _export_changes,
            ("subscriptions.jsonl", "changes.jsonl"),
        ),
        ("EnrichIsbnsOperator", "books", "books", _enrich, ("books.jsonl",)),
        ("EnrichIsbnsOperator with reuse", "books", "books", _enrich_reusing, ("books.jsonl",)),
        ("EnrichIsbnsOperator with bulk", "books", "books", _enrich_bulk, ("books.jsonl",)),
        ("CaptureHotThreadsOperator when hot", "cluster", "waiting", _capture_when_hot, _CAPTURED),
    ]


#: Every action of the matrix.
ACTIONS = _actions()


def connection(service: str, address: str, *, slow: Slow = "", auth: str = "", **more: Any) -> str:
    """
    Return a connection as an environment variable holds it.

    :param service: `video`, `cluster` or `books`.
    :param auth: the kind of authentication, if not the usual.
    """
    from tests.faults import canaries

    limits = (0.25 if slow == name else NEVER_SECONDS for name in ("connecting", "reading"))
    extra: dict[str, Any] = {"max_attempts": 1 if slow else 2, "timeout": "{}, {}".format(*limits)}
    extra |= {"headers": {"X-Api-Key": canaries.HEADER}}
    login = ""
    if service == "books":
        extra |= {"requests_per_second": 10_000, "rate_limit_store": "memory://"}
    if service == "cluster":
        login, extra = "reader", {**extra, "max_report_mb": 8}
    if auth:
        extra["auth"] = auth
    if auth == "refresh_token":
        login = "client"
        extra |= {"refresh_token": canaries.REFRESH_TOKEN, "token_url": f"{address}/token"}
    fields = {"conn_type": f"mediaops_{service}", "host": address, "login": login, "password": canaries.PASSWORD}
    return json.dumps({**fields, "extra": {**extra, **more}})
