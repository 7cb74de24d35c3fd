"""Tasks that post by one key of a journal, with their requests to the store and the platform in any order."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.http.drivers import run
from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.storage.files import path_of
from airflow_provider_mediaops.storage.record_file import record_file
from airflow_provider_mediaops.video.at_most_once import AlreadyPosted, RecordPlace, Try
from airflow_provider_mediaops.video.bulletin_journal import Author, file_name, read_entry
from airflow_provider_mediaops.video.journal_delivery import JournalDelivery, begin_in_journal
from tests.unit.storage.fake_store import CreationOnly, FakeStore
from tests.unit.storage.places import owner
from tests.unit.storage.turns import Actor, PacedStore, World
from tests.unit.video.delivering import ACTIVITY, posting, reply
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.http.exchange import Request, Response
    from airflow_provider_mediaops.storage.record_file import RecordFile
    from airflow_provider_mediaops.storage.store_objects import Found
    from airflow_provider_mediaops.video.bulletin_journal import Entry

KEY = {"once_per": "2026-11-23", "connection": "video"}


def refusing() -> Response:
    """Refuse a bulletin."""
    return reply(error(400, "bulletinTextRequired"), 400)


@dataclass
class Channel(World):
    """
    A channel, and the store of the journal.

    :param posts: who has posted, in order.
    :param warnings: what the logs warn of.
    :param journal: the folder of the journal in the store.
    """

    rows: int = 0
    posts: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    journal: str = "bucket/journal"

    def begin(self, poster: Poster) -> JournalDelivery | AlreadyPosted:
        """Begin the delivery of a task."""
        folder = f"memory://{poster.name}@{self.journal}"
        return begin_in_journal(
            folder, KEY, poster.author, warn=self.warnings.append, clock=self.time(), **poster.rules
        )

    def time(self) -> Clock:
        return Clock(now=lambda: datetime.fromtimestamp(self.now, timezone.utc))

    def record(self) -> bytes | None:
        """Return the content of the key's file."""
        file = self.objects.get(f"/{self.journal}/{file_name(KEY)}")
        return file and bytes(file.getvalue())

    def damage(self) -> None:
        """Write a file of the key that nobody understands."""
        FakeStore(objects=self.objects, clock=self.clock).pipe_file(f"/{self.journal}/{file_name(KEY)}", b"{")

    def delete(self) -> None:
        """Delete the key's file, as a person does."""
        del self.objects[f"/{self.journal}/{file_name(KEY)}"]

    def pass_time(self, seconds: float) -> None:
        """Let the file become older."""
        self.now += seconds

    def entry(self) -> Entry:
        """Return the entry of the key."""
        entry: Any = read_entry(self.record(), KEY)
        return entry  # type: ignore[no-any-return]


@dataclass
class CreationChannel(Channel):
    """A channel whose store checks conditions of creation alone."""

    conditional: bool = False

    def client_of(self, name: str, turn: Callable[[], bool]) -> Any:
        return _PacedCreation(self, name, turn)


class _PacedCreation(PacedStore, CreationOnly):
    """A client of that store, which waits for its turn before each request."""

    def _replace(self, path: str, value: bytes, **options: Any) -> None:
        self._write(path, lambda: CreationOnly._replace(self, path, value, **options))


@dataclass
class DiskChannel(Channel):
    """
    A channel whose journal is on the local disk.

    :param folder: the folder of the journal.
    """

    folder: Path | None = None
    written: float = 0.0

    def begin(self, poster: Poster) -> JournalDelivery | AlreadyPosted:
        file = _PacedFile(self, record_file(self._path()), poster.turn)
        place = RecordPlace("The record", "delete it")
        rules = {"on_uncertain": "fail", "post_again_on_clear": False, **poster.rules}
        delivery = JournalDelivery(file, KEY, poster.author, place, rules, self.warnings.append, self.time())
        return delivery.look() or delivery

    def record(self) -> bytes | None:
        return record_file(self._path()).read().content

    def damage(self) -> None:
        file = Path(self._path().path)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"{")

    def delete(self) -> None:
        Path(self._path().path).unlink()

    def _path(self) -> ObjectStoragePath:
        return path_of(f"{self.folder}/{file_name(KEY)}")


def channel_of(kind: str, folder: Path) -> Channel:
    """
    Return a channel with an empty journal.

    :param kind: ``disk``, ``store`` or ``store that checks creation``.
    :param folder: the folder of one on the disk.
    """
    kinds = {"store": Channel, "store that checks creation": CreationChannel}
    return DiskChannel(folder=folder) if kind == "disk" else kinds[kind]()


class _PacedFile:
    """A record on the disk, which waits for its turn before each call; its age is that of the test's clock."""

    def __init__(self, channel: DiskChannel, file: RecordFile, turn: Callable[[], bool]) -> None:
        self._channel, self._file, self._turn = channel, file, turn

    def read(self) -> Found:
        self._turn()
        return self._file.read()

    def write(self, content: bytes, replaces: Found) -> None:
        lost = self._turn()
        self._file.write(content, replaces)
        self._channel.written = self._channel.now
        if lost:
            raise TimeoutError("the reply was lost")

    def remove(self, found: Found) -> None:
        self._turn()
        self._file.remove(found)

    def age_seconds(self, found: Found) -> float | None:
        self._turn()
        return None if found.content is None else self._channel.now - self._channel.written


class Poster(Actor):
    """
    One try of a task, in a thread that makes one request for each step the test allows.

    :param channel: the channel.
    :param name: its name, for the history.
    :param task: its task instance; None for one of its own.
    :param number: the number of the try.
    :param max_tries: the number of the last one.
    :param answer: answers its post.
    :param rules: the rules of the decision.
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
        self.channel = channel
        self.author = Author(task or f"dag/run/{name}/-1", Try(number, max_tries, "contents"))
        self.rules = rules
        self.answer = answer or (lambda: reply({**ACTIVITY, "id": f"act-{name}"}))
        self.returned: str | None = None
        #: Whether it has come to the point of no return: it sends next, or has sent.
        self.sending = False
        super().__init__(channel, name, owner(name))

    @property
    def turn(self) -> Callable[[], bool]:
        """Waits for the next turn."""
        return self._turn

    @property
    def failure(self) -> str:
        """The class of its error; empty if it succeeded."""
        return type(self.outcome).__name__ if self.outcome else ""

    def _work(self, path: ObjectStoragePath) -> None:
        del path  # the channel knows where its journal is
        delivery = self.channel.begin(self)
        if isinstance(delivery, AlreadyPosted):
            self.returned = delivery.activity["id"]
            return
        self.returned = run(posting(delivery), self._send, lambda _: None).id

    def _send(self, request: Request) -> Response:
        assert request.method == "POST"
        self.sending = True
        lost = self._turn()
        answer = self.answer()
        if answer.status == 200:
            self.channel.posts.append(self.name)
        if lost:
            raise TransportError(Failure.BROKEN, "gone")
        return answer
