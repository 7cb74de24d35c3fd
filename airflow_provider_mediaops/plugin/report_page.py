"""Make the page of a task instance's captures from their texts, alone or after an earlier capture of the same task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.capture.plan import TakenFor
from airflow_provider_mediaops.cluster.capture.reading import read_head
from airflow_provider_mediaops.cluster.page.document import page
from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
from airflow_provider_mediaops.plugin.reading import NoFileError, find_file, report_in
from airflow_provider_mediaops.plugin.rendered_fields import NothingToShowError, is_capture, read_fields
from airflow_provider_mediaops.report_urls import NOT_MAPPED

if TYPE_CHECKING:
    from airflow_provider_mediaops.plugin.reading import CaptureFile
    from airflow_provider_mediaops.plugin.rendered_fields import CaptureFields
    from airflow_provider_mediaops.plugin.task_instances import TaskInstanceFacts

#: The most bytes of text that are read for a page.
MAX_PAGE_BYTES = 12_000_000
#: The most bytes of a JSON file that are read. Tasks stand at its beginning.
MAX_START_BYTES = 4_000_000

# The clocks of the cluster and of Airflow may differ by this much.
_SLACK = timedelta(minutes=5)
_NOT_STARTED = (None, "scheduled", "queued")
_STATES = {
    "running": "The task is running. Its report appears here once it is captured.",
    "deferred": "The task waits in the triggerer. Its report appears here once it is captured.",
    "up_for_retry": "The task failed, and will be tried again.",
    "up_for_reschedule": "The task waits.",
    "restarting": "The task is restarting.",
    "skipped": "The task was skipped: no node ran hot within its wait_timeout, or a task before it decided so.",
    "failed": "The task failed. Its log says why.",
    "upstream_failed": "The task was not started: one before it failed.",
}


@dataclass(frozen=True, slots=True)
class FoundCaptures:
    """The captures of a task instance, at least one, and sentences about captures and tasks that cannot be read."""

    captures: list[Capture]
    missing: list[str]


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The earlier run that the reader has chosen, with its capture, or a notice why that cannot be shown."""

    run_id: str
    capture: Capture | None = None
    notice: str = ""


def fields_of(facts: TaskInstanceFacts) -> CaptureFields:
    """Read the rendered template fields of a task instance; raise NothingToShowError if there are none of a capture."""
    if facts.fields is None:
        if facts.state in _NOT_STARTED:
            raise NothingToShowError("The task has not started.")
        raise NothingToShowError(
            "Airflow has no rendered template fields of this task instance, from which this page learns where its "
            "files are. It keeps those of the last runs; [core] num_dag_runs_to_retain_rendered_fields says of how "
            "many (older versions: max_num_rendered_ti_fields_per_task). The files themselves are where they were."
        )
    if not is_capture(facts.fields):
        raise NothingToShowError("This task captures no hot threads: it is not a CaptureHotThreadsOperator.")
    return read_fields(facts.fields)


def state_in_words(facts: TaskInstanceFacts) -> list[str]:
    """Return a sentence about the state of a task that captures, if it explains why there is no report."""
    return [_STATES[facts.state]] if facts.state in _STATES and is_capture(facts.fields) else []


def read_captures(fields: CaptureFields) -> FoundCaptures:
    """
    Read the captures of a task instance. May block.

    :raises NothingToShowError: if there is none, or one cannot be read or is not a report.
    """
    max_bytes = MAX_PAGE_BYTES
    found: list[Capture] = []
    missing: list[str] = []
    for number, path in enumerate(fields.texts):
        try:
            file = find_file(path)
        except NoFileError as error:
            # Without the error: its traceback leads here, to all that was read.
            missing.append(error.sentence)
            continue
        text = file.read(max_bytes=max_bytes)
        max_bytes = max(1, max_bytes - file.size)
        capture = Capture(text, taken=report_in(text, file.name).taken, path=file.name)
        try:
            capture.running_tasks = _read_tasks(fields, number, file)
        except NothingToShowError as error:
            missing.append(f"The tasks that ran meanwhile are not shown: {error.sentence}")
        if capture.taken is None and file.modified is not None:
            capture.taken = datetime.fromtimestamp(file.modified, timezone.utc)
        capture.pack()
        found.append(capture)
    if not found:
        raise NothingToShowError(missing[0])
    return FoundCaptures(found, list(dict.fromkeys(missing)))


def _read_tasks(fields: CaptureFields, number: int, text: CaptureFile) -> RunningTasks | None:
    """Read the tasks that ran meanwhile, from the JSON file beside a text; None if nobody asked for them."""
    if not fields.has_tasks:
        return None
    if not fields.documents:
        raise NothingToShowError(
            "they are in the JSON file of a capture, and this task writes none. Add json to formats."
        )
    file = find_file(fields.documents[number])
    # A capture's text is written before its JSON file.
    if text.modified is not None and file.modified is not None and file.modified < text.modified:
        raise NothingToShowError(f"{file.name} is older than the text beside it, hence of another capture.")
    max_bytes = min(MAX_START_BYTES, MAX_PAGE_BYTES // len(fields.documents))
    head = read_head(file.read(max_bytes=max_bytes, is_whole=False))
    tasks = head.get("running_tasks", "none")
    if tasks is None:
        raise NothingToShowError(f"{file.name} says more about tasks than this page reads. Open the .html beside it.")
    try:
        return RunningTasks.from_dict(tasks)
    except ValueError as error:
        raise NothingToShowError(f"{file.name} holds no tasks.") from error


def read_earlier(earlier: TaskInstanceFacts) -> Capture:
    """
    Read the first capture of an earlier run. May block.

    :raises NothingToShowError: if there is none, or it is that of another run.
    """
    capture = read_captures(read_fields(earlier.fields or {})).captures[0]
    if strange := origin_remark(capture.taken, earlier):
        raise NothingToShowError(strange)
    remark = f"This capture is that of the earlier run {earlier.key.run_id}, for comparison."
    return replace(capture, remarks=(remark,))


def report_page(
    facts: TaskInstanceFacts,
    fields: CaptureFields,
    found: FoundCaptures,
    others: list[TaskInstanceFacts],
    earlier: EarlierRun | None,
    *,
    list_url: str,
) -> str:
    """
    Make the page of the captures of a task instance, after that of an earlier run if one is chosen.

    ``others`` are the last other instances of the task, newest first.
    """
    strange = origin_remark(found.captures[0].taken, facts)
    notices = [strange, _replaced_remark(facts, others), *found.missing, earlier.notice if earlier else ""]
    before = earlier.capture if earlier else None
    key = facts.key
    values = {
        "list_url": list_url,
        "notices": list(filter(None, notices)),
        "choices": comparable(facts, others),
        "chosen": earlier.run_id if earlier and before else "",
    }
    return page(
        [before, *found.captures] if before else found.captures,
        title=f"Hot threads of {fields.cluster}" if fields.cluster else "Hot threads",
        taken_for=TakenFor(
            dag_id=key.dag_id,
            run_id=key.run_id,
            task_id=key.task_id,
            try_number=None if strange else facts.try_number,
            map_index=None if key.map_index == NOT_MAPPED else key.map_index,
        ),
        in_airflow=values,
    )


def origin_remark(taken: datetime | None, facts: TaskInstanceFacts) -> str:
    """Return a remark on a capture that cannot be that of a task instance, because it was taken outside of its time."""
    if taken is None:
        return ""
    if facts.ended is not None and taken > facts.ended + _SLACK:
        return (
            f"This capture was taken at {_utc(taken)}, after this task had ended at {_utc(facts.ended)}: another task "
            "or run has written to the same destination since. Put the run into the destination to keep both."
        )
    if facts.started is not None and taken < facts.started - _SLACK:
        return (
            f"This capture was taken at {_utc(taken)}, before the last try of this task began at "
            f"{_utc(facts.started)}: it is that of an earlier try or run with the same destination."
        )
    return ""


def _replaced_remark(facts: TaskInstanceFacts, others: Iterable[TaskInstanceFacts]) -> str:
    """Return a remark on a later instance of a task, of its newest ones first, that has written to the same files."""
    texts = _texts_of(facts)
    for other in others:
        if facts.ended and other.ended and other.ended > facts.ended and texts & _texts_of(other):
            return (
                f"The run {other.key.run_id} has written to the same destination since: what is there now is its "
                "capture, not that of this run. Put the run into the destination to keep both."
            )
    return ""


def comparable(facts: TaskInstanceFacts, others: Iterable[TaskInstanceFacts]) -> list[TaskInstanceFacts]:
    """Return the earlier instances of a task, of its newest ones first, whose files no later one has replaced."""
    found: list[TaskInstanceFacts] = []
    written = set(_texts_of(facts))
    for other in others:
        texts = _texts_of(other)
        is_earlier = facts.started and other.ended and other.ended <= facts.started
        if is_earlier and texts and written.isdisjoint(texts):
            found.append(other)
        written |= texts
    return found


def _texts_of(facts: TaskInstanceFacts) -> frozenset[str]:
    try:
        return frozenset(read_fields(facts.fields).texts if is_capture(facts.fields) else ())
    except NothingToShowError:
        return frozenset()


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
