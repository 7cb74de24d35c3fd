"""The operators of the video platform."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from airflow_provider_mediaops.arguments import (
    path_text,
    read_choice,
    read_flag,
    read_identifier,
    read_path,
    refused,
    unsigned,
)
from airflow_provider_mediaops.exceptions import InvalidArgumentError, TemporaryError, UncertainDeliveryError
from airflow_provider_mediaops.operators.base import DatasetOperator, ServiceOperator
from airflow_provider_mediaops.operators.links import DatasetLink
from airflow_provider_mediaops.task_failure import ending_task, given_arguments, templated_arguments
from airflow_provider_mediaops.version_compat import AirflowSkipException, conf

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_provider_mediaops.hooks.video import VideoPlatformHook
    from airflow_provider_mediaops.lineage import TaskLineage
    from airflow_provider_mediaops.storage.dataset import Dataset
    from airflow_provider_mediaops.storage.formats import CsvFormulas
    from airflow_provider_mediaops.video.arguments import OnUncertain
    from airflow_provider_mediaops.video.at_most_once import Delivery
    from airflow_provider_mediaops.video.export import Export, ExportAttempt


OnUnchanged = Literal["success", "skip"]
ON_UNCHANGED: tuple[OnUnchanged, ...] = get_args(OnUnchanged)

_SUFFIX = ".jsonl"
_FILTER = ("channel_id", "ids", "mine", "part", "for_channel_ids", "order")


class PostBulletinOperator(ServiceOperator):
    """
    Post a bulletin to the channel of the connection's user, and return the activity.

    It is posted at most once for each task instance. A try records its intent in the task's state store before it
    posts, and the result afterwards. A later try then returns the same activity, or knows that the delivery is
    uncertain. Below Airflow 3.3, which has no such store, this holds within one try.

    With a ``journal``, the record is a file in that folder, on any Airflow; with ``once_per``, all tasks, runs and DAGs
    share it that use the same value and connection. See :mod:`airflow_provider_mediaops.video.at_most_once`.

    :param text: its message; may stand alone or with a video or playlist. A text that ends in ``.j2``, ``.jinja`` or
        ``.jinja2`` names a template file.
    :param video_id: a video to attach.
    :param playlist_id: a playlist to attach, instead of a video.
    :param on_uncertain: what to do if it is not known whether the bulletin was posted, because the reply was lost or is
        no activity, or an earlier attempt ended before it came: ``fail`` ends the task at once; ``retry`` lets the
        task's retries post it again, perhaps for the second time.
    :param post_again_on_clear: whether a task that somebody clears posts once more, whatever its earlier attempts did.
    :param journal: a folder on the local disk or an object store for the records, which all workers can write; missing
        folders are created.
    :param once_per: bulletins with the same value are posted once, for example ``{{ dag_run.run_after | ds }}``;
        None for the task instance.
    :param video_conn_id: the connection's id.
    :raises ValueError: for an argument that cannot be used: here, or, if it is templated, before anything is sent.
    """

    # Endings that no sentence has: Airflow reads every field that ends so from a file.
    template_ext: Sequence[str] = (".j2", ".jinja", ".jinja2")

    def __init__(
        self,
        *,
        text: str | None = None,
        video_id: str | None = None,
        playlist_id: str | None = None,
        on_uncertain: OnUncertain = "fail",
        post_again_on_clear: bool | str = False,
        journal: str | PurePath | ObjectStoragePath | None = None,
        once_per: str | None = None,
        video_conn_id: str = "mediaops_video_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.text = text
        self.video_id = video_id
        self.playlist_id = playlist_id
        self.on_uncertain = on_uncertain
        self.post_again_on_clear = post_again_on_clear
        self.journal = path_text(journal)
        self.once_per = once_per
        self.video_conn_id = video_conn_id
        self._kept_by = [name for name in ("journal", "once_per") if getattr(self, name) is not None]
        self._check_known()

    own_arguments = templated_arguments(__init__)
    template_fields: Sequence[str] = own_arguments

    def _check(self, given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
        from airflow_provider_mediaops.video.arguments import check_bulletin

        check_bulletin(given, is_unknown)

    def execute(self, context: Context) -> dict[str, Any]:
        """Post, unless an earlier try has posted; return the activity as the service sent it."""
        from airflow_provider_mediaops.hooks.video import VideoPlatformHook
        from airflow_provider_mediaops.video.arguments import ON_UNCERTAIN

        with ending_task(), VideoPlatformHook(self.video_conn_id).stopped_by(self.stop) as hook:
            posting = hook.posting(self.text, self.video_id, self.playlist_id, partial(self._begin, context))
            try:
                activity = hook.run(posting).to_dict()
            except UncertainDeliveryError as error:
                if read_choice("on_uncertain", self.on_uncertain, ON_UNCERTAIN) == "fail":
                    raise
                raise TemporaryError(f"on_uncertain='retry': {error}", service=error.service) from error
        self._note_in_events(context, activity)
        return activity

    def _lineage(self, outcome: Mapping[str, Any] | None) -> TaskLineage:
        from airflow_provider_mediaops.lineage import bulletin_lineage

        return bulletin_lineage(self.video_conn_id, outcome)

    def _begin(self, context: Context) -> Delivery | None:
        """Read the record of earlier tries, and begin the delivery unless one of them has posted."""
        from airflow_provider_mediaops.storage.ownership import task_of
        from airflow_provider_mediaops.storage.record import StateRecord
        from airflow_provider_mediaops.video.at_most_once import RECORD_KEY, begin_delivery

        self.video_conn_id = read_identifier("video_conn_id", self.video_conn_id)
        # There is none below Airflow 3.3 (AIP-103).
        store: Any = context.get("task_state_store")
        task, state = task_of(context), None
        author: dict[str, Any] = {"task": task or ""}
        if instance := context.get("ti"):
            author |= {"attempt": instance.try_number, "max_tries": instance.max_tries or 0}
        if store is not None and "journal" not in self._kept_by:
            from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined] # its stub file does not name it

            # The task can be cleared as long as its run is there, and the record goes with the run.
            state = StateRecord(store, RECORD_KEY, NEVER_EXPIRE)
        return begin_delivery(given_arguments(self), self._kept_by, task, author, self.log.warning, state=state)


class ExportSubscriptionsOperator(DatasetOperator):
    """
    Write all subscriptions of a channel, or those of a list, to a dataset.

    Exactly one of ``channel_id``, ``ids`` and ``mine`` selects the subscriptions. A list may also be one text with
    commas. Each subscription is in the dataset once, however often the service lists it: as it came in JSON lines, as
    columns in CSV and Parquet. The dataset appears whole when the last page is there; until then an older one stays.

    Each page is saved beside the destination before the next is requested. A retry, or a cleared task that had failed,
    resumes after the last page saved; a retry of one that had published returns the same summary. Another run, or other
    arguments, start anew. Two tasks cannot write one destination at the same time: mapped tasks need one each, for
    example with ``{{ ti.map_index }}`` in it.

    The summary holds ``path`` (absolute if it is local), ``rows``, ``pages``, ``duplicates`` (records that came again
    and were left out), ``restarts`` (how often the listing started over at its first page), ``complete`` (False if the
    service cut the listing short), ``resumed`` and ``bytes``; with ``if_changed`` also ``changed``; with ``changes``
    also its path, and the numbers of changes. The events of the task's outlets have what was written in their
    ``extra``; see the page "Assets and lineage".

    :param destination: the path of the dataset, on any object storage: a text, a ``pathlib.Path`` or an
        ``ObjectStoragePath``; missing folders are created.
    :param channel_id: the channel whose subscriptions are exported.
    :param ids: the identifiers of the subscriptions.
    :param mine: the authenticated user's own.
    :param part: the properties to include.
    :param for_channel_ids: keep only subscriptions to these channels.
    :param order: ``alphabetical``, the only order in which the service's pages do not shift; ``relevance``;
        ``unread``; None leaves it to the service.
    :param page_size: records a page, 1 to 50.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None goes by the suffix of the destination.
    :param csv_formulas: what to do with a text that a spreadsheet would take for a formula when it opens the CSV,
        because it begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break: ``keep`` it as data, or ``escape`` it
        with ``'``.
    :param if_changed: whether to leave the file as it is if an export with the same arguments has written it, and
        the ids and etags are the same; the summary then says ``changed: False``.
    :param require_complete: whether the task fails with an ``InvalidReplyError`` if the service cuts the listing short.
        A cleared task starts over at the first page then. Otherwise the log warns.
    :param changes: the path of a file of JSON lines, on the storage of the destination, that is published together
        with the dataset: what was added, removed and changed since the version that it replaces. See the page "Export
        subscriptions".
    :param on_unchanged: what to do if ``changes`` or ``if_changed`` find nothing new: ``success``; or ``skip`` the
        task, so that its assets have no event.
    :param deferrable: whether to work in the triggerer, which holds no worker slot. There the export also waits for the
        reset of a quota that is used up, and for as long as the service asks; a worker's attempt ends instead. The
        default is that of ``[operators] default_deferrable``.
    :param video_conn_id: the connection's id.
    :raises ValueError: for arguments that cannot be used: here, unless they are templated.
    """

    conn_id_field = "video_conn_id"
    trigger_class = "airflow_provider_mediaops.triggers.video:ExportSubscriptionsTrigger"
    operator_extra_links = (DatasetLink(),)
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(("ids", "part", "for_channel_ids"), "json")

    def __init__(
        self,
        *,
        destination: str | PurePath | ObjectStoragePath,
        channel_id: str | None = None,
        ids: str | Sequence[str] | None = None,
        mine: bool | str = False,
        part: str | Sequence[str] = ("id", "snippet", "contentDetails"),
        for_channel_ids: str | Sequence[str] | None = None,
        order: str | None = "alphabetical",
        page_size: int | str = 50,
        format: str | None = None,
        csv_formulas: CsvFormulas = "keep",
        if_changed: bool | str = False,
        require_complete: bool | str = False,
        changes: str | PurePath | ObjectStoragePath | None = None,
        on_unchanged: OnUnchanged = "success",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        video_conn_id: str = "mediaops_video_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.destination = path_text(destination)
        self.channel_id = channel_id
        self.ids = ids
        self.mine = mine
        self.part = part
        self.for_channel_ids = for_channel_ids
        self.order = order
        self.page_size = page_size
        self.format = format
        self.csv_formulas = csv_formulas
        self.if_changed = if_changed
        self.require_complete = require_complete
        self.changes = None if changes is None else path_text(changes)
        self.on_unchanged = on_unchanged
        self.deferrable = read_flag("deferrable", deferrable)
        self.video_conn_id = video_conn_id
        self._check_known()

    own_arguments = templated_arguments(__init__)
    template_fields: Sequence[str] = own_arguments

    def _check(self, given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
        _check_export(given, is_unknown)

    def _returned(self, context: Context, summary: dict[str, Any]) -> dict[str, Any]:
        """Return the summary of what is published, or skip the task if nothing has changed and it asks for that."""
        from airflow_provider_mediaops.video.changes import is_unchanged

        if read_choice("on_unchanged", self.on_unchanged, ON_UNCHANGED) == "skip" and is_unchanged(summary):
            raise AirflowSkipException(f"Nothing has changed in the {summary['rows']} subscriptions.")
        return super()._returned(context, summary)

    def _lineage(self, outcome: Mapping[str, Any] | None) -> TaskLineage:
        from airflow_provider_mediaops.lineage import export_lineage

        filters, changes = _filter_of(given_arguments(self)), self.changes
        return export_lineage(self.video_conn_id, str(self.destination), self.format, filters, outcome, changes=changes)

    def _items(self, hook: VideoPlatformHook, attempt: ExportAttempt) -> Generator[Any, None, None]:
        yield from hook.stream(attempt.pages(hook.service.client))

    def _before_deferral(self, work: Export, dataset: Dataset) -> tuple[Export, dict[str, Any]]:
        from airflow_provider_mediaops.storage.files import check_writable
        from airflow_provider_mediaops.storage.paths import path_of

        if work.changes:
            check_writable(path_of(work.changes))
        return work, {}

    def _read_work(self, context: Context) -> Export:
        from airflow_provider_mediaops.storage.ownership import owner_of
        from airflow_provider_mediaops.storage.paths import absolute
        from airflow_provider_mediaops.video.arguments import SubscriptionQuery
        from airflow_provider_mediaops.video.export import Export

        self.video_conn_id = read_identifier("video_conn_id", self.video_conn_id)
        self.destination = absolute(read_path("destination", self.destination), "destination", self.log.warning)
        if self.changes is not None:
            self.changes = absolute(read_path("changes", self.changes), "changes", self.log.warning)
        given = given_arguments(self)
        values = _check_export(given, lambda *_: False)
        query = asdict(SubscriptionQuery(**_filter_of(given), max_results=values["page_size"]))
        written = {"format": self.format, "csv_formulas": values["csv_formulas"]}
        # What determines the content.
        parameters = {**query, **written, "connection": self.video_conn_id}
        return Export(
            owner=asdict(owner_of(context, parameters)),
            destination=str(self.destination),
            query=query,
            **written,
            if_changed=values["if_changed"],
            require_complete=values["require_complete"],
            changes=self.changes,
        )


def _check_export(given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> dict[str, Any]:
    """Check the arguments that are known; return the values of those that were read, by name."""
    from airflow_provider_mediaops.storage.formats import CSV_FORMULAS, format_of
    from airflow_provider_mediaops.video.arguments import SubscriptionQuery, read_page_size

    readers: dict[str, Callable[[str, object], object]] = {
        "video_conn_id": read_identifier,
        "destination": read_path,
        "csv_formulas": partial(read_choice, choices=CSV_FORMULAS),
        "on_unchanged": partial(read_choice, choices=ON_UNCHANGED),
        "if_changed": read_flag,
        "require_complete": read_flag,
        "page_size": partial(read_page_size, minimum=1),
    }
    values = {name: read(name, given[name]) for name, read in readers.items() if not is_unknown(given[name])}
    _check_changes(given, values, is_unknown)
    SubscriptionQuery.check(_filter_of(given), is_unknown)
    destination, format = given["destination"], given["format"]
    if not is_unknown(format) and (format is not None or not is_unknown(destination)):
        format_of(destination, format)
    return values


def _check_changes(given: Mapping[str, Any], values: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
    from airflow_provider_mediaops.storage.paths import is_same_file

    changes = given["changes"]
    known = not is_unknown(given["on_unchanged"], changes, given["if_changed"])
    if known and values["on_unchanged"] == "skip" and changes is None and not values["if_changed"]:
        raise InvalidArgumentError(
            "on_unchanged='skip' needs changes or if_changed=True: without them it is not known whether something has "
            "changed."
        )
    if changes is None or is_unknown(changes):
        return
    path = read_path("changes", changes)
    if "destination" in values:
        if not path.lower().endswith(_SUFFIX):
            raise refused("changes", path, f"ends in {_SUFFIX}: changes are written as JSON lines")
        if is_same_file(path, values["destination"]):
            raise InvalidArgumentError(
                f"changes and destination are one file, {unsigned(path)!r}: give changes a path of its own."
            )


def _filter_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that select the subscriptions, without those that are left out."""
    return {name: value for name in _FILTER if (value := given[name]) is not None}
