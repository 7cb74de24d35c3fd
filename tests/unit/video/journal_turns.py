"""Tasks that post by one key of a journal, with their requests to the store and the platform in any order."""

from __future__ import annotations

import itertools
import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.http.runner import run
from airflow_provider_mediaops.video.at_most_once import Author, Delivery, folder_name, journal_record
from tests.unit.paced import Paced
from tests.unit.storage.attached import attached
from tests.unit.storage.fake_store import CreationOnly, FakeStore
from tests.unit.video.delivering import ACTIVITY, posting, reply
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Request, Response
    from airflow_provider_mediaops.storage.record import Record
    from airflow_provider_mediaops.video.at_most_once import AlreadyPosted

KEY = {"once_per": "2026-11-23", "connection": "video"}
START = 1_773_518_400.0
_names = itertools.count()


def refusing() -> Response:
    """Refuse a bulletin."""
    return reply(error(400, "bulletinTextRequired"), 400)


class Channel:
    """A channel, and a journal on a store in memory that checks conditions as S3 does."""

    def __init__(self, client: type[FakeStore] = FakeStore) -> None:
        #: Who has posted, in order.
        self.posts: list[str] = []
        self.warnings: list[str] = []
        self.now = START
        self.client = client
        self.objects: dict[str, Any] = {}

    def record_of(self, poster: Poster) -> Record:
        return journal_record(f"memory://{poster.store}@bucket/journal", KEY, self.warnings.append)

    def begin(self, poster: Poster) -> Delivery | AlreadyPosted:
        """Begin the delivery of a task."""
        clock = Clock(now=lambda: datetime.fromtimestamp(self.now, timezone.utc))
        record = self.record_of(poster)
        delivery = Delivery(record, KEY, poster.by, self.warnings.append, clock=clock, **poster.rules)
        delivery.begin()
        return delivery.already_posted or delivery

    def versions(self) -> dict[str, bytes]:
        """Return the files of the key's record."""
        folder = f"/bucket/journal/{folder_name(KEY)}/"
        return {name.removeprefix(folder): file.getvalue() for name, file in sorted(self.objects.items())}

    def damage(self, content: bytes = b"{") -> None:
        """Write a version that nobody understands."""
        name = f"/bucket/journal/{folder_name(KEY)}/{len(self.versions()) + 1:04}.json"
        FakeStore(objects=self.objects).pipe_file(name, content)

    def delete(self) -> None:
        """Delete the folder of the record."""
        self.objects.clear()

    def entry(self) -> Any:
        """Return the plain values of the newest version; None if there are none."""
        versions = self.versions()
        return json.loads(versions[max(versions)]) if versions else None

    @property
    def state(self) -> str | None:
        """What the newest version says."""
        entry = self.entry()
        return str(entry["state"]) if entry else None


def _paced(client: type[FakeStore], objects: dict[str, Any], turn: Callable[[], bool]) -> FakeStore:
    """Make the client of one task, which waits for its turn before each request."""

    class PacedClient(client):  # type: ignore[valid-type,misc]
        def ls(self, path: str, **options: Any) -> Any:
            turn()
            return super().ls(path, **options)

        def cat_file(self, path: str, **options: Any) -> Any:
            turn()
            return super().cat_file(path, **options)

        def _replace(self, path: str, value: bytes, **options: Any) -> None:
            lost = turn()
            super()._replace(path, value, **options)
            if lost:
                raise TimeoutError("the reply was lost")

    return PacedClient(objects=objects, conditional=not issubclass(client, CreationOnly))


class Poster(Paced):
    """
    One try of a task, in a thread that makes one request for each step the test allows.

    :param task: its task instance; None for one of its own.
    """

    def __init__(
        self,
        channel: Channel,
        name: str,
        *,
        task: str | None = None,
        number: int = 1,
        max_tries: int = 3,
        answer: Callable[[], Response] | None = None,
        **rules: Any,
    ) -> None:
        self.channel, self.name, self.rules = channel, name, rules
        task = task or f"dag/run/{name}/-1"
        self.by = Author(task=task, attempt=number, max_tries=max_tries, contents="contents")
        self.answer = answer or (lambda: reply({**ACTIVITY, "id": f"act-{name}"}))
        self.store = f"poster-{next(_names)}"
        self.returned: str | None = None
        #: Whether it has come to the point of no return: it sends next, or has sent.
        self.sending = False
        super().__init__()

    @property
    def failure(self) -> str:
        """The class of its error; empty if it succeeded."""
        return type(self.outcome).__name__ if self.outcome else ""

    def work(self) -> None:
        with attached(_paced(self.channel.client, self.channel.objects, self.turn), self.store):
            delivery = self.channel.begin(self)
            if isinstance(delivery, Delivery):
                self.returned = run(posting(delivery), self._send, lambda _: None).id
            else:
                self.returned = delivery.activity["id"]

    def turn(self) -> bool:
        """Wait for the next turn; return whether the reply of its request is lost."""
        fault = self.pause()
        self.channel.now += 0.1
        if fault == "refused":
            raise ConnectionError("the network is gone")
        return fault == "reply lost"

    def _send(self, request: Request) -> Response:
        assert request.method == "POST"
        self.sending = True
        lost = self.turn()
        answer = self.answer()
        if answer.status == 200:
            self.channel.posts.append(self.name)
        if lost:
            raise TransportError(Failure.BROKEN, "gone")
        return answer
