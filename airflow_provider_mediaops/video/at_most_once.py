"""
Post a bulletin at most once.

The platform has no idempotency key, so it cannot distinguish a repeated post from a new one. Whoever posts therefore
keeps a *record* where it outlives the worker (:mod:`airflow_provider_mediaops.storage.record`): before each post an
entry that the bulletin is *intended*, after it one that it is *posted*, with the activity. A refusal takes the intent
back, because nothing was posted. Whoever finds an intent without a result cannot know whether there is a bulletin: the
delivery is *uncertain*.

A record in files is shared by all tasks that mean the same bulletin. Each entry replaces the version that its writer
has read, or is not written; then the writer reads again and decides anew. So two of them post the same bulletin in one
case only: one pauses right at the post and carries it out later, when its intent counts as uncertain.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.arguments import read_choice, read_flag, read_identifier, read_iso_time, read_path
from airflow_provider_mediaops.exceptions import (
    DestinationInUseError,
    DestinationReplacedError,
    InvalidArgumentError,
    MediaOpsError,
    PermanentError,
    TaskStoppedError,
    TemporaryError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.http.exchange import Blocking, Clock, Emit, NotCarriedOut, Request, observed
from airflow_provider_mediaops.video.arguments import ON_UNCERTAIN, Bulletin, read_once_per
from airflow_provider_mediaops.video.models import Activity

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow, Step
    from airflow_provider_mediaops.storage.record import Record, Version
    from airflow_provider_mediaops.video.arguments import OnUncertain

#: The key under which a task's state store keeps the record.
RECORD_KEY = "mediaops_bulletin"
#: Another task's intent is uncertain after this time: no post takes so long.
UNCERTAIN_AFTER_SECONDS = 900
#: Which tasks mean the same bulletin: ``once_per`` and ``connection``, or ``task``.
Key = dict[str, str]
_SERVICE = "video platform"
# How often somebody starts over because another one has written the record meanwhile.
_MAX_ROUNDS = 5
# The characters of a key that the name of its folder shows, and how many of them.
_NOT_SHOWN = re.compile(r"[^A-Za-z0-9_+.-]+")
_SHOWN_LENGTH = 60


class Author(BaseModel):
    """Who posts what: one try of a task, or one call of a notifier."""

    model_config = ConfigDict(frozen=True, strict=True)

    # Errors and logs quote it. A task instance is named by three ids of at most 250 characters, and a number.
    task: str = Field(max_length=1_000)  # DAG, run, task and map index
    attempt: int = 1  # from 1
    # The last try that the task may have. Airflow raises it when the task is cleared, and not for a retry.
    max_tries: int = 0
    contents: str  # the fingerprint of the bulletin and its connection; see :func:`fingerprint_of`


class Entry(BaseModel):
    """A version of a record."""

    model_config = ConfigDict(frozen=True, strict=True)

    version: Literal[1] = 1
    state: Literal["intended", "posted"]
    key: Key  # of the bulletin
    by: Author  # who wrote it
    token: str  # of the delivery that wrote it; random
    at: str = Field(max_length=64)  # in ISO 8601
    activity: dict[str, Any] | None = None  # as the service returned it; None if the bulletin is only intended


@dataclass(frozen=True, slots=True)
class AlreadyPosted:
    """A bulletin that another try, or another task, has posted; ``changed`` if with other contents than this one's."""

    activity: dict[str, Any]
    author: str
    changed: bool

    def __str__(self) -> str:
        other = ", with another text, video, playlist or connection" if self.changed else ""
        return f"{self.author} has posted bulletin {self.activity.get('id')}{other}; nothing is posted."


def fingerprint_of(bulletin: Bulletin, conn_id: str) -> str:
    """Return a fingerprint that identifies a bulletin and its connection without holding the text."""
    contents = json.dumps([bulletin.resource(""), conn_id], sort_keys=True)
    return hashlib.sha256(contents.encode()).hexdigest()


def folder_name(key: Key) -> str:
    """Return the name of the folder of a key's record: a readable part of the key, and a digest."""
    shown = _NOT_SHOWN.sub("-", next(iter(key.values())))[:_SHOWN_LENGTH].strip("-.")
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return f"{shown}-{digest}" if shown else digest


def read_entry(value: object, key: Key) -> Entry | None:
    """Read an entry of the record of a key; None if another version of the provider wrote it, or somebody else."""
    try:
        entry = Entry.model_validate(value)
        if entry.state == "posted":
            # What cannot be returned as an activity is none.
            Activity.model_validate(entry.activity)
    except ValidationError:
        return None
    return entry if entry.key == key else None


def journal_record(journal: str, key: Key, warn: Callable[[str], None]) -> Record:
    """Return the record of a key in a journal: a folder on any storage, which is created if it is missing."""
    from airflow_provider_mediaops.storage.paths import absolute, check_store, path_of
    from airflow_provider_mediaops.storage.record import FileRecord

    folder = path_of(absolute(journal, "journal", warn))
    check_store(folder, "journal")
    try:
        return FileRecord(folder / folder_name(key))
    except OSError as error:
        raise _unsent(error) from error


@dataclass(slots=True)
class Delivery:
    """The delivery of one bulletin, and its record."""

    record: Record
    key: Key
    by: Author
    warn: Callable[[str], None]
    on_uncertain: OnUncertain = "fail"  # for an intent without a result: ``retry`` posts
    # Whether a task that was cleared posts in any case. A clear says nothing about what another task has posted.
    post_again_on_clear: bool = False
    clock: Clock = field(default_factory=Clock)
    already_posted: AlreadyPosted | None = None  # what another one has posted, so that this one posts nothing
    _token: str = field(default_factory=lambda: secrets.token_hex(8))
    # The version that is replaced next, and the value to which a refusal returns.
    _version: Version | None = None
    _before: Any = None

    def begin(self) -> None:
        """Read the record, and decide: :attr:`already_posted`, or this delivery may post, or it raises."""
        try:
            self._read_and_decide()
        except UncertainDeliveryError:
            metrics.count("video.posts.uncertain")
            raise
        except OSError as error:
            raise _unsent(error) from error

    def around(self, posting: CallFlow[Activity]) -> CallFlow[Activity]:
        """
        Write the record around each request of a call flow that posts; nothing is sent unless the intent is written.

        The flow emits :class:`NotCarriedOut` after each request that has certainly posted nothing. If another one has
        posted meanwhile, the result is that activity, and :attr:`already_posted` says so.
        """
        intended = False

        def keep_record(step: Step) -> CallFlow[Step]:
            nonlocal intended
            if isinstance(step, Request) and not step.idempotent:
                try:
                    yield Blocking(self.intend)
                except MediaOpsError:
                    # It may be written although that failed.
                    yield Blocking(self.withdraw)
                    raise
                intended = True
            elif isinstance(step, Emit) and isinstance(step.item, NotCarriedOut):
                intended = False
                yield Blocking(self.withdraw)
            return step

        try:
            activity = yield from observed(posting, keep_record)
        except _PostedMeanwhileError as meanwhile:
            return Activity.model_validate(meanwhile.activity)
        except TaskStoppedError as stopped:
            # Without a reply, what was sent is uncertain.
            if intended and not stopped.sent:
                yield Blocking(self.withdraw)
            raise
        yield Blocking(partial(self.settle, activity))
        return activity

    def intend(self) -> None:
        """Write that the bulletin is about to be posted, if the record is as it was read."""
        try:
            for _ in range(_MAX_ROUNDS):
                if self._version is None:
                    self._read_and_decide()
                    if self.already_posted:
                        raise _PostedMeanwhileError(self.already_posted.activity)
                if self._version and self._replace(self._version, self._entry("intended")):
                    return
        except OSError as error:
            raise _unsent(error) from error
        raise DestinationInUseError(f"Nothing was sent: {self.record.name} keeps changing.", service=_SERVICE)

    def withdraw(self) -> None:
        """Return to the value before the intent, or log why that failed. What another one has written stays."""
        try:
            found = self.record.read()
            self._version = found if self._is_ours(found) else None
            if self._version:
                self._replace(self._version, self._before)
        except OSError as error:
            self._version = None
            self.warn(
                f"Nothing was posted, but that could not be written down ({error}): another try or task may take the "
                "bulletin for uncertain."
            )

    def settle(self, activity: Activity) -> None:
        """Write that the bulletin is posted, or log why that failed."""
        posted = self._entry("posted", activity.to_dict())
        why: object = "the record keeps changing"
        try:
            for _ in range(_MAX_ROUNDS):
                # An intent of another one is replaced, so that it finds the activity.
                if self._version and self._replace(self._version, posted):
                    return
                self._version = self.record.read()
                entry = read_entry(self._version.value, self.key)
                if entry and self.post_again_on_clear and self._is_cleared_since(entry):
                    # The task was cleared meanwhile, and what it posts since is another bulletin.
                    return
                if entry and entry.state == "posted":
                    if not self._is_ours(self._version):
                        self._warn_of_two(activity, entry)
                    # Else the reply to a write of ours was lost.
                    return
        except OSError as error:
            why = error
        self.warn(
            f"Bulletin {activity.id} was posted, but that could not be written down ({why}): another try or task will "
            "take it for uncertain."
        )

    def _read_and_decide(self) -> None:
        self._version = self.record.read()
        if self._is_ours(self._version):
            # An intent of this delivery that could not be withdrawn.
            return
        self._before = self._version.value
        if self._before is not None:
            self.decide(read_entry(self._before, self.key))

    def _replace(self, version: Version, value: Any) -> bool:
        """Replace a version; return False if another one has, so that the record has to be read again."""
        self._version = None
        try:
            self._version = self.record.replace(value, version)
        except DestinationReplacedError:
            return False
        return True

    def decide(self, found: Entry | None) -> None:
        """Decide by the newest entry; None if it cannot be read."""
        if found is None:
            self._decide_uncertain(
                f"{self.record.name} cannot be read: another version wrote it, or somebody changed it."
            )
            return
        is_other = found.by.task != self.by.task
        author = f"Try {found.by.attempt} of {found.by.task}" if is_other else f"Try {found.by.attempt}"
        # The number of another task's tries says nothing about this one.
        cleared = not is_other and self.by.max_tries > found.by.max_tries
        if cleared and self.post_again_on_clear:
            self.warn("The task was cleared, and post_again_on_clear is set: its bulletin is posted again.")
        elif found.state == "posted":
            changed = found.by.contents != self.by.contents
            if changed and cleared:
                raise self._other_contents(found)
            self.already_posted = AlreadyPosted(found.activity or {}, author, changed)
        else:
            if is_other:
                self._refuse_while_young(found)
            whose = author if is_other else f"{author} of this task"
            self._decide_uncertain(f"{whose} was about to post its bulletin at {found.at} and left no result.")

    def _decide_uncertain(self, reason: str) -> None:
        if self.on_uncertain == "retry":
            self.warn(f"{reason} on_uncertain='retry': it is posted, perhaps for the second time.")
            return
        raise UncertainDeliveryError(
            f"{reason} It may or may not be posted, and is not posted again by itself. Look at the channel: if it is "
            f"there, mark the task as success; if not, {self.record.removal}, and clear the task. A notifier runs no "
            "second time: post its bulletin by hand.",
            service=_SERVICE,
        )

    def _refuse_while_young(self, found: Entry) -> None:
        """Raise while another task may still be posting."""
        written = read_iso_time(found.at)
        age = (self.clock.now() - written).total_seconds() if written else UNCERTAIN_AFTER_SECONDS
        # If it is dated in the future, a clock was wrong. It must not be young until that date.
        if abs(age) >= UNCERTAIN_AFTER_SECONDS:
            return
        raise DestinationInUseError(
            f"Nothing was sent: {found.by.task}, try {found.by.attempt}, has been posting this bulletin since "
            f"{found.at}. If it leaves no result, the bulletin counts as uncertain "
            f"{UNCERTAIN_AFTER_SECONDS // 60} minutes after that. {self.record.name} says so.",
            service=_SERVICE,
            retry_after=min(UNCERTAIN_AFTER_SECONDS - age, UNCERTAIN_AFTER_SECONDS),
        )

    def _other_contents(self, found: Entry) -> PermanentError:
        return PermanentError(
            f"Try {found.by.attempt} of this task posted bulletin {(found.activity or {}).get('id')}. The task was "
            "cleared, and its text, video, playlist or connection is another one now, so nothing was posted. To post "
            f"it, {self.record.removal}, and clear the task, or set post_again_on_clear; if the earlier one will do, "
            "mark the task as success.",
            service=_SERVICE,
        )

    def _warn_of_two(self, activity: Activity, other: Entry) -> None:
        self.warn(
            f"Bulletin {activity.id} was posted, and {other.by.task} has posted one by the same key: this task paused "
            "for so long that the other one took the bulletin over. Look at the channel, and delete one of them."
        )

    def _is_cleared_since(self, entry: Entry) -> bool:
        return entry.by.task == self.by.task and entry.by.max_tries > self.by.max_tries

    def _entry(self, state: Literal["intended", "posted"], activity: dict[str, Any] | None = None) -> dict[str, Any]:
        at = self.clock.now().isoformat(timespec="seconds")
        entry = Entry(state=state, key=self.key, by=self.by, token=self._token, at=at, activity=activity)
        return entry.model_dump()

    def _is_ours(self, version: Version) -> bool:
        entry = read_entry(version.value, self.key)
        return entry is not None and entry.token == self._token


def begin_delivery(
    given: Mapping[str, Any],
    kept_by: Collection[str],
    task: str | None,
    author: Mapping[str, Any],
    warn: Callable[[str], None],
    *,
    state: Record | None = None,
) -> Delivery | None:
    """
    Read the rendered arguments of a task or a notifier, and begin the delivery of its bulletin.

    A journal takes the place of the record in a task's state store: nobody could trust two that disagree. Without a
    place for a record, there is no delivery.

    ``kept_by`` has those of ``journal`` and ``once_per`` that are given: a template that gives nothing does not turn it
    off. Without ``once_per``, the bulletin is kept by the task instance. ``author`` has the fields of :class:`Author`,
    without the contents.
    """
    conn_id = read_identifier("video_conn_id", given["video_conn_id"])
    bulletin = Bulletin(given["text"], given["video_id"], given["playlist_id"])
    journal = read_path("journal", given["journal"]) if "journal" in kept_by else None
    once_per = read_once_per("once_per", given["once_per"]) if "once_per" in kept_by else None
    on_uncertain = cast("OnUncertain", read_choice("on_uncertain", given.get("on_uncertain", "fail"), ON_UNCERTAIN))
    post_again = read_flag("post_again_on_clear", given.get("post_again_on_clear", False))
    if journal and once_per is None and task is None:
        raise InvalidArgumentError("journal needs once_per where there is no task instance that it can be kept by.")
    # Two connections are two channels.
    shared = {"once_per": once_per, "connection": conn_id} if journal and once_per else None
    key = shared or {"task": task or ""}
    record = journal_record(journal, key, warn) if journal else state
    if record is None:
        return None
    by = Author(contents=fingerprint_of(bulletin, conn_id), **author)
    delivery = Delivery(record, key, by, warn, on_uncertain, post_again)
    delivery.begin()
    return delivery


class _PostedMeanwhileError(Exception):
    """Ends the call flow that posts: another one has posted."""

    def __init__(self, activity: dict[str, Any]) -> None:
        super().__init__("the bulletin is posted")
        self.activity = activity


def _unsent(error: OSError) -> TemporaryError:
    return TemporaryError(f"The bulletin was not sent: its record cannot be used. {error}", service=_SERVICE)
