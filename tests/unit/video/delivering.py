"""A video platform that answers a bulletin's delivery, and sees what the task's record says meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Request, Response, Wait
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.storage.record import StateRecord
from airflow_provider_mediaops.video.arguments import Bulletin
from airflow_provider_mediaops.video.at_most_once import RECORD_KEY, Author, Delivery, fingerprint_of
from airflow_provider_mediaops.video.errors import VIDEO_RULES
from tests.unit.call_flows import FakeClock

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.auth import RefreshTokenAuth
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.video.models import Activity
    from tests.unit.task_state import KeptState

BASE = "https://video.example"
ACTIVITY = {"id": "act-1", "kind": "svc#activity", "snippet": {"description": "Hi"}, "more": [None]}
BULLETIN = Bulletin("Hi")
TASK = "dag/run/post/-1"
KEY = {"task": TASK}
FIRST = Author(task=TASK, attempt=1, max_tries=3, contents=fingerprint_of(BULLETIN, "video"))


def reply(body: object = None, status: int = 200) -> Response:
    return Response(status, {"content-type": "application/json"}, json.dumps(body or ACTIVITY).encode())


class Platform:
    """Answers a delivery's requests, and notes what the record says when each of them, or a pause, comes."""

    def __init__(self, store: KeptState, *replies: Response | BaseException) -> None:
        self.store = store
        self.replies = list(replies)
        self.seen: list[tuple[str, str | None]] = []

    @property
    def state(self) -> str | None:
        record = self.store.values.get(RECORD_KEY)
        return record and record["state"]

    def send(self, request: Request) -> Response:
        self.seen.append((request.path, self.state))
        answer = self.replies.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def sleep(self, wait: Wait) -> None:
        self.seen.append(("pause", self.state))


def begun(
    store: KeptState, by: Author = FIRST, *, told: list[str] | None = None, retention: Any = None, **rules: Any
) -> Delivery:
    """Begin a delivery whose record is in a task's state store; it has to be one that may post."""
    lines: list[str] = [] if told is None else told
    record = StateRecord(store, RECORD_KEY, retention)
    delivery = Delivery(record, KEY, by, lines.append, clock=FakeClock().clock, **rules)
    delivery.begin()
    assert not delivery.already_posted
    return delivery


def posting(delivery: Delivery, auth: RefreshTokenAuth | None = None) -> CallFlow[Activity]:
    client = Client((BASE,), VIDEO_RULES, retry=RetryPolicy(max_attempts=2), clock=FakeClock().clock)
    if auth:
        client.auth = auth
    return delivery.around(client.ask(BULLETIN.post("svc")))
