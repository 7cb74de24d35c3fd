"""
Post a bulletin at most once over tasks, runs and DAGs, by a journal.

A task does this around each request that posts:

1. Read the file of the key, and decide by it: :func:`~airflow_provider_mediaops.video.bulletin_journal.decide_by`. What
   another task has posted is returned. While another task's intent is younger than 15 minutes by the storage's clock,
   this task fails and can be retried. An older one, or that of an earlier try, is uncertain; so is one that is dated
   more than 15 minutes ahead, which would be young until then.
2. Write the intent with a random token, if the file is as it was read. If *another* has written since, start over.
3. Read the file. If it does not have our token, start over.
4. Send.
5. Write the activity. If *another* has taken the file over since, its intent is replaced, so that it finds the activity
   in step 3; if it has posted, the log warns that there are two. After a refusal, restore what step 1 found, unless
   *another* has taken the file over.

So two tasks never post by one key, but for one case: a process pauses within a request and carries it out later, and
*another* has posted in between. *Another* needs ``on_uncertain="retry"`` for that and an intent that is 15 minutes old;
or it is a later try of the same task, with ``on_uncertain="retry"``, or with ``post_again_on_clear`` after a clear; or
somebody has deleted the file. What follows depends on the request:

- Step 4 posts: nothing can be checked within it.
- The writes of steps 2 and 5 are refused, unless the store checks conditions for new files only (Google, Azure). There
  they replace the activity of the other, and step 2 goes on to post.
- After a refusal, so does the write that restores what step 1 found. The request that removes the intent carries no
  condition on any object store, and removes the activity of the other.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import DestinationInUseError, TemporaryError
from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.iso_times import read_iso_time
from airflow_provider_mediaops.video.at_most_once import AlreadyPosted, Intended, OnUncertain, Posted, RecordPlace
from airflow_provider_mediaops.video.bulletin_journal import (
    SERVICE,
    Author,
    Entry,
    Key,
    decide_by,
    file_name,
    read_entry,
    write_entry,
)
from airflow_provider_mediaops.video.recorded_delivery import RecordedDelivery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_provider_mediaops.http.exchange import Conversation
    from airflow_provider_mediaops.storage.record_file import RecordFile
    from airflow_provider_mediaops.storage.store_objects import Found
    from airflow_provider_mediaops.video.models import Activity

# How often a task starts over because another one has written the file meanwhile.
_MAX_ROUNDS = 5


class _PostedMeanwhileError(Exception):
    """Raised to end the conversation that posts: another task has posted."""

    def __init__(self, found: AlreadyPosted) -> None:
        super().__init__("the bulletin is posted")
        self.found = found


@dataclass(slots=True)
class JournalDelivery(RecordedDelivery):
    """
    The delivery of one try, and the entry that it keeps in a journal.

    :param file: the file of the key.
    :param key: the key.
    :param author: the task, and its try.
    :param place: the file, in the words of errors.
    :param rules: the rules of :func:`decide_by`.
    :param warn: logs a warning.
    :param clock: the source of time.
    :param posted_meanwhile: what another task has posted since this one began; None if this one has posted.
    """

    file: RecordFile
    key: Key
    author: Author
    place: RecordPlace
    rules: Mapping[str, Any]
    warn: Callable[[str], None]
    clock: Clock = field(default_factory=Clock)
    posted_meanwhile: AlreadyPosted | None = None
    _token: str = field(default_factory=lambda: secrets.token_hex(8))
    _before: bytes | None = None
    _warned: str = ""

    def look(self) -> AlreadyPosted | None:
        """
        Read the entry, and decide.

        :returns: what is posted; None if this task may post.
        :raises MediaOpsError: as :func:`decide_by` does.
        :raises TemporaryError: if the file cannot be read.
        """
        try:
            return self._decide(self.file.read())
        except OSError as error:
            raise _unsent(error) from error

    def around(self, posting: Conversation[Activity]) -> Conversation[Activity]:
        """
        Keep the entry around each request that posts.

        :param posting: posts the bulletin, and again only if it is certain that nothing was posted.
        :returns: the same conversation, which also writes the entry. It returns what another task has posted meanwhile,
            if one has, and :attr:`posted_meanwhile` says so.
        :raises MediaOpsError: as :meth:`look` does; nothing is sent then.
        """
        # The zero-argument form of super() does not work in a dataclass with slots.
        keeping = RecordedDelivery.around(self, posting)
        try:
            return (yield from keeping)
        except _PostedMeanwhileError as meanwhile:
            from airflow_provider_mediaops.video.models import Activity

            self.posted_meanwhile = meanwhile.found
            return Activity.model_validate(meanwhile.found.activity)

    def intend(self) -> None:
        """
        Write that the bulletin is about to be posted, and read it back (steps 1 to 3).

        :raises TemporaryError: if another task is about to post, or the file cannot be written.
        :raises MediaOpsError: as :func:`decide_by` does.
        """
        from airflow_provider_mediaops.storage.store_objects import ConflictError

        try:
            for _ in range(_MAX_ROUNDS):
                found = self.file.read()
                if posted := self._decide(found):
                    raise _PostedMeanwhileError(posted)
                if not self._is_ours(found):
                    self._before = found.content
                try:
                    self.file.write(self._content(Intended(self.author.this, self._now())), found)
                except ConflictError:
                    continue
                if self._is_ours(self.file.read()):
                    return
        except OSError as error:
            raise _unsent(error) from error
        raise DestinationInUseError(f"Nothing was sent: {self.place.record} keeps changing.", service=SERVICE)

    def withdraw(self) -> None:
        """Restore the entry that was there before, or log why that failed. What another task has written stays."""
        from airflow_provider_mediaops.storage.store_objects import ConflictError

        try:
            found = self.file.read()
            if not self._is_ours(found):
                return
            if self._before is None:
                self.file.remove(found)
            else:
                self.file.write(self._before, found)
        except ConflictError:
            return
        except OSError as error:
            self.warn(
                f"Nothing was posted, but that could not be written to the journal ({error}): another try or task may "
                "take the bulletin for uncertain."
            )

    def settle(self, activity: Activity) -> None:
        """Write that the bulletin is posted (step 5), or log why that failed."""
        from airflow_provider_mediaops.storage.store_objects import ConflictError

        content = self._content(Posted(self.author.this, activity.to_dict()))
        why: object = "it keeps changing"
        try:
            for _ in range(_MAX_ROUNDS):
                found = self.file.read()
                entry = read_entry(found.content, self.key)
                if isinstance(entry, Entry) and isinstance(entry.record, Posted):
                    if not self._is_ours(found):
                        self._warn_of_two(activity, entry)
                    # Else the reply to a write of ours was lost.
                    return
                try:
                    self.file.write(content, found)
                except ConflictError:
                    continue
                return
        except OSError as error:
            why = error
        self.warn(
            f"Bulletin {activity.id} was posted, but that could not be written to the journal ({why}): another try or "
            "task will take it for uncertain."
        )

    def _decide(self, found: Found) -> AlreadyPosted | None:
        if self._is_ours(found):
            # An intent of this delivery that could not be withdrawn.
            return None
        entry = read_entry(found.content, self.key)

        def age_seconds() -> float:
            age = self.file.age_seconds(found)
            return self._age_by_own_clock(entry) if age is None else age

        decision = decide_by(entry, self.author, self.place, age_seconds=age_seconds, **self.rules)
        if isinstance(decision, AlreadyPosted):
            return decision
        if decision.remark and decision.remark != self._warned:
            self._warned = decision.remark
            self.warn(decision.remark)
        return None

    def _age_by_own_clock(self, entry: object) -> float:
        written = read_iso_time(entry.at) if isinstance(entry, Entry) else None
        return (self.clock.now() - written).total_seconds() if written else float("inf")

    def _is_ours(self, found: Found) -> bool:
        entry = read_entry(found.content, self.key)
        return isinstance(entry, Entry) and entry.token == self._token

    def _content(self, record: Intended | Posted) -> bytes:
        return write_entry(Entry(self.author.task, self._token, self._now(), record), self.key)

    def _now(self) -> str:
        return self.clock.now().isoformat(timespec="seconds")

    def _warn_of_two(self, activity: Activity, entry: Entry) -> None:
        self.warn(
            f"Bulletin {activity.id} was posted, and {entry.task} has posted one by the same key: this task paused for "
            "so long that the other one took the bulletin over. Look at the channel, and delete one of them."
        )


def begin_in_journal(
    journal: str,
    key: Key,
    author: Author,
    *,
    warn: Callable[[str], None],
    on_uncertain: OnUncertain = "fail",
    post_again_on_clear: bool = False,
    clock: Clock | None = None,
) -> JournalDelivery | AlreadyPosted:
    """
    Read the entry of earlier tries and other tasks, and begin the delivery unless one of them has posted.

    :param journal: the folder of the journal, on any storage; missing folders are created.
    :param key: the key of the bulletin.
    :param author: the task, and its try.
    :param warn: logs a warning.
    :param on_uncertain: see :func:`decide_by`.
    :param post_again_on_clear: see :func:`decide_by`.
    :param clock: the source of time.
    :returns: the delivery, or the activity of an earlier one.
    :raises InvalidArgumentError: if the path can never name a folder.
    :raises PermanentError: if Airflow has no support for the path, or its store cannot hold the promise; and as
        :func:`decide_by` does.
    :raises TemporaryError: if another task is about to post, or the file cannot be read.
    """
    from airflow_provider_mediaops.storage.files import path_of
    from airflow_provider_mediaops.storage.path_checks import absolute, check_store
    from airflow_provider_mediaops.storage.record_file import record_file

    folder = path_of(absolute(journal, "journal", warn))
    check_store(folder, "journal")
    path = folder / file_name(key)
    try:
        file = record_file(path)
    except OSError as error:
        raise _unsent(error) from error
    place = RecordPlace(f"The record {path} of this bulletin", f"delete {path}, and clear the task")
    rules = {"on_uncertain": on_uncertain, "post_again_on_clear": post_again_on_clear}
    delivery = JournalDelivery(file, key, author, place, rules, warn, clock or Clock())
    return delivery.look() or delivery


def _unsent(error: OSError) -> TemporaryError:
    return TemporaryError(f"The bulletin was not sent: its journal cannot be used. {error}", service=SERVICE)
