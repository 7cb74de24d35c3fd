"""A video platform at the other end of the transport, and the trigger that exports its subscriptions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_mediaops.http.exchange import Request, Response
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.triggers.base import value_of
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from airflow_provider_mediaops.video.export import SUBSCRIPTIONS
from tests.unit.sensor_forms import first_event, made_again
from tests.unit.video_platform import error
from tests.unit.virtual_time import START, in_virtual_time

OWNER = Owner("dag/today/export/-1", "digest")


def refusal(status: int, reason: str, **headers: str) -> Response:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, fields, json.dumps(error(status, reason)).encode())


SPENT = refusal(403, "quotaExceeded")


@dataclass
class Platform:
    """
    A video platform at the other end of the transport.

    :param replies: what it answers, in order; a function is called for its reply.
    """

    replies: list[Response | Callable[[], Response]] = field(default_factory=list)
    asked: list[tuple[float, str | None]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    open: int = 0

    async def answer(self, request: Request) -> Response:
        sent = dict(request.params)
        self.asked.append((asyncio.get_running_loop().time() - START, sent.get("pageToken")))
        self.tokens.append(request.headers.get("Authorization", ""))
        # A reply takes a while, in which the trigger can be cancelled.
        await asyncio.sleep(1)
        assert self.replies, f"it is asked for more than was expected: {sent}"
        answer = self.replies.pop(0)
        return answer if isinstance(answer, Response) else answer()

    @property
    def pages(self) -> list[str | None]:
        """The page token of each request."""
        return [token for _, token in self.asked]


def trigger(folder: Path, name: str = "subs.jsonl", **fields: Any) -> ExportSubscriptionsTrigger:
    query = SubscriptionQuery(mine=True, order="alphabetical", max_results=50)
    usual = {"owner": asdict(OWNER), "destination": f"{folder}/{name}", "query": asdict(query)}
    made = ExportSubscriptionsTrigger(conn_id="video_1", work={**usual, **fields})
    again = made_again(made)
    assert isinstance(again, ExportSubscriptionsTrigger)
    return again


def exported(made: ExportSubscriptionsTrigger) -> Any:
    return value_of(in_virtual_time(first_event(made)))


def dataset(folder: Path, name: str = "subs.jsonl") -> Dataset:
    return Dataset(f"{folder}/{name}", view=SUBSCRIPTIONS)


def ids(folder: Path) -> list[str]:
    return [json.loads(line)["id"] for line in (folder / "subs.jsonl").read_text(encoding="utf-8").splitlines()]


def is_free(folder: Path) -> bool:
    """Return whether nobody has a file of the destination open."""
    return not [file for file in psutil.Process().open_files() if file.path.startswith(f"{folder}/")]
