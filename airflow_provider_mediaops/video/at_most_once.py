"""
Post a bulletin at most once: the record that a try keeps around the post, and what a later try does by it.

The platform has no idempotency key, so it cannot distinguish a repeated post from a new one. A try therefore keeps a
*record* where it outlives the worker. Before each post it writes that the bulletin is *intended*, and after it that it
is *posted*, with the activity. After a refusal it deletes the intent, because nothing was posted. A later try that
finds an intent without a result cannot know whether there is a bulletin: the delivery is *uncertain*.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from airflow_provider_mediaops.exceptions import PermanentError, TemporaryError, UncertainDeliveryError
from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.video.recorded_delivery import RecordedDelivery

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from airflow_provider_mediaops.video.arguments import Bulletin
    from airflow_provider_mediaops.video.models import Activity

#: The key under which a task's record is kept.
RECORD_KEY = "mediaops_bulletin"
#: What happens if it is not known whether a bulletin was posted: the task fails, or its next try posts again.
OnUncertain = Literal["fail", "retry"]
_SERVICE = "video platform"


class Store(Protocol):
    """A store of JSON values that the tries of a task share, such as Airflow's task state store."""

    def get(self, key: str, /) -> Any:
        """Return a value; None if there is none."""
        ...

    def set(self, key: str, value: Any, /, *, retention: timedelta | None = None) -> None:
        """Store a value for a time; None leaves the time to the store."""
        ...

    def delete(self, key: str, /) -> None:
        """Delete a value, if there is one."""
        ...


@dataclass(frozen=True, slots=True)
class Try:
    """
    One try of a task, and the contents that it posts.

    :param number: the number of the try, from 1.
    :param max_tries: the number of the last try that the task may have. Airflow raises it when the task is cleared, and
        not for a retry.
    :param contents: the digest of the bulletin and its connection; see :func:`digest_of`.
    """

    number: int
    max_tries: int
    contents: str


@dataclass(frozen=True, slots=True)
class Intended:
    """
    The record of a try that was about to post.

    :param by: the try.
    :param at: the time, in ISO 8601.
    """

    by: Try
    at: str


@dataclass(frozen=True, slots=True)
class Posted:
    """
    The record of a try that has posted.

    :param by: the try.
    :param activity: the activity that the service returned.
    """

    by: Try
    activity: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that this version cannot read: another version wrote it, or somebody changed it."""


Record = Intended | Posted | Unreadable


@dataclass(frozen=True, slots=True)
class Post:
    """
    The decision to post.

    :param remark: the reason, if the log needs it.
    """

    remark: str = ""


@dataclass(frozen=True, slots=True)
class AlreadyPosted:
    """
    The decision to post nothing, because an earlier try has posted.

    :param activity: the activity that the service returned then.
    :param by: the number of the try that posted it.
    :param changed: whether it was posted with other contents, or over another connection, than this try has.
    :param task: the task instance of that try (DAG, run, task and map index); empty if it is this task's.
    """

    activity: dict[str, Any]
    by: int
    changed: bool
    task: str = ""

    @property
    def author(self) -> str:
        """The try that posted it, for the log."""
        return f"Try {self.by} of {self.task}" if self.task else f"Try {self.by}"


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """
    Where a record is kept, in the words of errors.

    :param record: the record, as the start of a sentence.
    :param remedy: how to have the bulletin posted after all, as a part of a sentence.
    """

    record: str
    remedy: str


_TASK_STATE = RecordPlace(
    "The record of this task's bulletin",
    f"delete {RECORD_KEY} from the task's state store (tab Storage, Task State Store), and clear the task",
)


def digest_of(bulletin: Bulletin, conn_id: str) -> str:
    """
    Return a digest that identifies a bulletin without holding its text.

    :param bulletin: the bulletin.
    :param conn_id: the connection over which it is posted.
    :returns: a digest of both.
    """
    contents = json.dumps([bulletin.resource(""), conn_id], sort_keys=True)
    return hashlib.sha256(contents.encode()).hexdigest()


def write_record(record: Intended | Posted) -> dict[str, Any]:
    """
    Return a record as the plain values that a store keeps.

    :param record: the record.
    :returns: the values, for :func:`read_record`.
    """
    by = {"try": record.by.number, "max_tries": record.by.max_tries, "contents": record.by.contents}
    if isinstance(record, Intended):
        return {"state": "intended", **by, "at": record.at}
    return {"state": "posted", **by, "activity": record.activity}


def read_record(value: Any) -> Record | None:
    """
    Parse the record that a store keeps.

    :param value: the result of :func:`write_record`, of this version or another.
    :returns: the record; None if there is none.
    """
    match value:
        case None:
            return None
        case {"state": "intended", "try": int(number), "max_tries": int(most), "contents": str(contents), "at": at}:
            return Intended(Try(number, most, contents), str(at))
        case {
            "state": "posted",
            "try": int(number),
            "max_tries": int(most),
            "contents": str(contents),
            "activity": dict(activity),
        }:
            return Posted(Try(number, most, contents), activity)
        case _:
            return Unreadable()


def decide(
    record: Record | None,
    this: Try,
    *,
    on_uncertain: OnUncertain = "fail",
    post_again_on_clear: bool = False,
    other_task: str = "",
    place: RecordPlace = _TASK_STATE,
) -> Post | AlreadyPosted:
    """
    Decide what a try does, by the record of the earlier ones.

    :param record: the record.
    :param this: the try.
    :param on_uncertain: what to do with an intent without a result: ``fail``, or ``retry``, which posts.
    :param post_again_on_clear: whether a task posts in any case if it was cleared since the record was written.
    :param other_task: the task instance that wrote the record; empty if it is this try's own.
    :param place: where the record is kept.
    :returns: the decision.
    :raises UncertainDeliveryError: if the bulletin may have been posted, and ``on_uncertain`` is ``fail``.
    :raises PermanentError: if a cleared task has other contents now than those it has posted.
    """
    if record is None:
        return Post()
    # The number of another task's tries says nothing about this one.
    cleared = not isinstance(record, Unreadable) and not other_task and this.max_tries > record.by.max_tries
    if cleared and post_again_on_clear:
        return Post("The task was cleared, and post_again_on_clear is set: its bulletin is posted again.")
    if isinstance(record, Posted):
        changed = record.by.contents != this.contents
        if changed and cleared:
            raise _other_contents(record, place)
        return AlreadyPosted(record.activity, record.by.number, changed, other_task)
    found = _found(record, other_task or "this task", place)
    if on_uncertain == "retry":
        return Post(f"{found} on_uncertain='retry': it is posted, perhaps for the second time.")
    raise UncertainDeliveryError(
        f"{found} It may or may not be posted, and is not posted again by itself. Look at the channel: if it is there, "
        f"mark the task as success; if not, {place.remedy}.",
        service=_SERVICE,
    )


def _found(record: Intended | Unreadable, task: str, place: RecordPlace) -> str:
    if isinstance(record, Unreadable):
        return f"{place.record} cannot be read: another version wrote it, or somebody changed it."
    return f"Try {record.by.number} of {task} was about to post its bulletin at {record.at} and left no result."


def _other_contents(record: Posted, place: RecordPlace) -> PermanentError:
    return PermanentError(
        f"Try {record.by.number} of this task posted bulletin {record.activity.get('id')}. The task was cleared, and "
        "its text, video, playlist or connection is another one now, so nothing was posted. To post it, "
        f"{place.remedy}, or set post_again_on_clear; if the earlier one will do, mark the task as success.",
        service=_SERVICE,
    )


@dataclass(frozen=True, slots=True)
class Delivery(RecordedDelivery):
    """
    The delivery of one try, and the record that it keeps in the task's state store.

    :param store: the store of the record.
    :param this: the try.
    :param retention: the time for which the record is kept.
    :param warn: logs a warning.
    :param clock: the source of time.
    :param before: the record that this try found; it is restored after a refusal.
    """

    store: Store
    this: Try
    retention: timedelta | None
    warn: Callable[[str], None]
    clock: Clock = field(default_factory=Clock)
    before: Any = None

    def intend(self) -> None:
        """Write that the bulletin is about to be posted, or raise a TemporaryError."""
        try:
            self._keep(Intended(self.this, self.clock.now().isoformat(timespec="seconds")))
        except Exception as error:
            raise _unsent("that it is about to be posted could not be written to", error) from error

    def withdraw(self) -> None:
        """Restore the record that was there before, or log why that failed."""
        try:
            if self.before is None:
                self.store.delete(RECORD_KEY)
            else:
                self.store.set(RECORD_KEY, self.before, retention=self.retention)
        except Exception as error:  # noqa: BLE001 what the service said matters more
            self.warn(
                "Nothing was posted, but that could not be written to the task's state store "
                f"({type(error).__name__}): another try of this task may take the bulletin for uncertain."
            )

    def settle(self, activity: Activity) -> None:
        """Write that the bulletin is posted, or log why that failed."""
        try:
            self._keep(Posted(self.this, activity.to_dict()))
        except Exception as error:  # noqa: BLE001 it is posted, whether that can be written down or not
            self.warn(
                f"Bulletin {activity.id} was posted, but that could not be written to the task's state store "
                f"({type(error).__name__}): another try of this task will take it for uncertain."
            )

    def _keep(self, record: Intended | Posted) -> None:
        self.store.set(RECORD_KEY, write_record(record), retention=self.retention)


def begin(
    store: Store,
    this: Try,
    *,
    warn: Callable[[str], None],
    on_uncertain: OnUncertain = "fail",
    post_again_on_clear: bool = False,
    retention: timedelta | None = None,
    clock: Clock | None = None,
) -> Delivery | AlreadyPosted:
    """
    Read the record of earlier tries, and begin the delivery unless one of them has posted.

    :param store: the store of the record.
    :param this: the try.
    :param warn: logs a warning.
    :param on_uncertain: see :func:`decide`.
    :param post_again_on_clear: see :func:`decide`.
    :param retention: the time for which the record is kept; None leaves it to the store.
    :param clock: the source of time.
    :returns: the delivery, or the activity of an earlier one.
    :raises UncertainDeliveryError: as :func:`decide` does.
    :raises PermanentError: as :func:`decide` does.
    :raises TemporaryError: if the store cannot be read.
    """
    try:
        before = store.get(RECORD_KEY)
    except Exception as error:
        raise _unsent("whether an earlier try has posted it could not be read from", error) from error
    decision = decide(read_record(before), this, on_uncertain=on_uncertain, post_again_on_clear=post_again_on_clear)
    if isinstance(decision, AlreadyPosted):
        return decision
    if decision.remark:
        warn(decision.remark)
    return Delivery(store, this, retention=retention, warn=warn, clock=clock or Clock(), before=before)


def _unsent(what: str, error: Exception) -> TemporaryError:
    return TemporaryError(
        f"The bulletin was not sent: {what} the task's state store ({type(error).__name__}). "
        "Check that the worker reaches Airflow's API server, and whether Airflow has given up this try.",
        service=_SERVICE,
    )
