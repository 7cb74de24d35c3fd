"""
The journal of bulletins: the key of a bulletin, the entry in its file, and what a task does by it.

A journal is a folder with a file for each key. The *key* says which tasks mean the same bulletin: those with the same
``once_per`` and connection or, without ``once_per``, the tries of one task instance. The entry is the state
(``intended`` or ``posted``), the task and its try, the time, a digest of the contents and, once it is posted, the
activity.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import DestinationInUseError, InvalidArgumentError
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.video.at_most_once import (
    AlreadyPosted,
    Intended,
    OnUncertain,
    Post,
    Posted,
    RecordPlace,
    Try,
    Unreadable,
    decide,
    read_record,
    write_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_VERSION = 1
# The characters of a key that the name of its file shows, and how many of them.
_NOT_SHOWN = re.compile(r"[^A-Za-z0-9_+.-]+")
_SHOWN_LENGTH = 60
# Errors and logs quote both. A task instance is named by three ids of at most 250 characters, and a number.
_LONGEST_TASK, _LONGEST_TIME = 1_000, 64
#: The service in the errors of a journal.
SERVICE = "bulletin journal"

#: Which bulletin a file is about: ``once_per`` and ``connection``, or ``task``.
Key = dict[str, str]


@dataclass(frozen=True, slots=True)
class Author:
    """
    Who posts.

    :param task: the task instance: DAG, run, task and map index.
    :param this: its try.
    """

    task: str
    this: Try


@dataclass(frozen=True, slots=True)
class Entry:
    """
    The content of a file of the journal.

    :param task: the task instance that wrote it.
    :param token: the random token of its delivery.
    :param at: the time, in ISO 8601.
    :param record: what it wrote.
    """

    task: str
    token: str
    at: str
    record: Intended | Posted


def key_of(once_per: str | None, conn_id: str, task: str | None) -> Key:
    """
    Return the key of a bulletin.

    :param once_per: bulletins with the same value are posted once; None for the task instance.
    :param conn_id: the connection; two of them are two channels.
    :param task: the task instance; None outside of a task.
    :raises InvalidArgumentError: if there is no key.
    """
    if once_per is not None:
        return {"once_per": once_per, "connection": conn_id}
    if task is None:
        raise InvalidArgumentError("journal needs once_per where there is no task instance that it can be kept by.")
    return {"task": task}


def file_name(key: Key) -> str:
    """
    Return the name of a key's file: what can be read of the key, and a digest.

    :param key: the key.
    """
    shown = _NOT_SHOWN.sub("-", next(iter(key.values())))[:_SHOWN_LENGTH].strip("-.")
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return f"{shown}-{digest}.json" if shown else f"{digest}.json"


def write_entry(entry: Entry, key: Key) -> bytes:
    """
    Return the content of a file.

    :param entry: what it says.
    :param key: the key of the file.
    """
    from airflow_provider_mediaops.storage.formats import json_line

    fields = {"version": _VERSION, "key": key, "task": entry.task, "token": entry.token, "at": entry.at}
    return json_line({**fields, **write_record(entry.record)}) + b"\n"


def read_entry(content: bytes | None, key: Key) -> Entry | Unreadable | None:
    """
    Parse the content of a file.

    :param content: the content; None if there is no file.
    :param key: the key of the file; that of another one, under this name, is not understood.
    :returns: the entry; None if there is none.
    """
    from airflow_provider_mediaops.video.models import Activity

    if content is None:
        return None
    try:
        value = parse_json(content)
        record = read_record(value)
        if isinstance(record, Posted):
            # What cannot be returned as an activity is none.
            Activity.model_validate(record.activity)
    except ValueError:
        return Unreadable()
    match value:
        case {"version": version, "key": found, "task": str(task), "token": str(token), "at": str(at)}:
            is_short = len(task) <= _LONGEST_TASK and len(at) <= _LONGEST_TIME
            if version == _VERSION and found == key and is_short and isinstance(record, (Intended, Posted)):
                return Entry(task, token, at, record)
    return Unreadable()


def decide_by(
    entry: Entry | Unreadable | None,
    author: Author,
    place: RecordPlace,
    *,
    age_seconds: Callable[[], float],
    on_uncertain: OnUncertain = "fail",
    post_again_on_clear: bool = False,
) -> Post | AlreadyPosted:
    """
    Decide what a task does, by the entry of the earlier ones.

    ``post_again_on_clear`` is about what the task instance itself has posted: a clear of this task says nothing about
    what another one has posted.

    :param entry: the entry.
    :param author: the task, and its try.
    :param place: the file, in the words of errors.
    :param age_seconds: returns the time since the entry was written; negative if it is dated ahead of the clock. Asked
        only if another task intends to post.
    :param on_uncertain: what to do with an intent without a result: ``fail``, or ``retry``, which posts.
    :param post_again_on_clear: whether a task posts in any case if it was cleared since.
    :returns: the decision.
    :raises DestinationInUseError: if another task is about to post.
    :raises UncertainDeliveryError: if the bulletin may have been posted, and ``on_uncertain`` is ``fail``.
    :raises PermanentError: if a cleared task has other contents now than those it has posted.
    """
    from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS

    other = entry.task if isinstance(entry, Entry) and entry.task != author.task else ""
    record = entry.record if isinstance(entry, Entry) else entry
    # If it is dated in the future, a clock was wrong. It must not be fresh until that date.
    if other and isinstance(record, Intended) and abs(age := age_seconds()) < STALE_AFTER_SECONDS:
        raise DestinationInUseError(
            f"Nothing was sent: {other}, try {record.by.number}, is posting this bulletin since {record.at}. If it "
            f"leaves no result, the bulletin counts as uncertain {STALE_AFTER_SECONDS / 60:.0f} minutes after that. "
            f"{place.record} says so.",
            service=SERVICE,
            retry_after=min(STALE_AFTER_SECONDS - age, STALE_AFTER_SECONDS),
        )
    return decide(
        record,
        author.this,
        on_uncertain=on_uncertain,
        post_again_on_clear=post_again_on_clear,
        other_task=other,
        place=place,
    )
