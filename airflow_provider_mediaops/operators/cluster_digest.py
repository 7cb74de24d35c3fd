"""The operator that makes a digest of captures of hot threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import is_path, ordered, path_text, read_path, read_texts
from airflow_provider_mediaops.operators.base import ServiceOperator
from airflow_provider_mediaops.task_failure import ending_task, templated_arguments

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_provider_mediaops.cluster.digest.attempt import DigestPlan
    from airflow_provider_mediaops.lineage import TaskLineage


class HotThreadsDigestOperator(ServiceOperator):
    """
    Make one page of many captures of hot threads: what recurs, when, in which thread pools, and what is new.

    The captures are the files of :class:`~airflow_provider_mediaops.operators.cluster.CaptureHotThreadsOperator`, or
    texts from anywhere, of any version of Elasticsearch and OpenSearch. When and why a capture was taken is read from
    its ``.json`` file; without one, the report or the time of the file says when. Captures at spikes, those of a
    schedule, and those of unknown reason are never summed up together.

    Beside the page are the same figures in JSON, and the stacks for flame-graph tools. A damaged file is named and left
    out. If there is no capture of that time, the task fails.

    A digest that was killed or stopped is made anew by the next attempt. Memory does not grow with the number of
    captures, but for the list of their names.

    The result holds the ``path`` of the page, the ``paths`` by format, a ``headline`` that can be posted, the numbers
    of captures, and the most recurrent frames; see :class:`~airflow_provider_mediaops.results.HotThreadsDigest`.

    :param source: the captures: a folder, which is searched with all below it; a pattern with ``*``, ``?`` or ``[…]``;
        a file; or a list of these. On the local disk or any object store (``s3://conn_id@bucket/reports/``).
    :param destination: the path of the page; the JSON file and the folded stacks have their own suffixes in the place
        of ``.html``.
    :param since: the beginning of the period: a ``datetime``, or an ISO text such as ``{{ data_interval_start }}``,
        in UTC without a time zone. The period of the same length before is compared with it. None for all captures.
    :param until: its end, which is not part of it; None for now if there is a beginning, else for no end.
    :raises InvalidArgumentError: for an argument that cannot be used: here, or, if it is templated, when the task runs.
    """

    def __init__(
        self,
        *,
        source: str | PurePath | ObjectStoragePath | Sequence[str | PurePath | ObjectStoragePath],
        destination: str | PurePath | ObjectStoragePath,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        source = ordered(source)
        self.source = [path_text(each) for each in source] if isinstance(source, (list, tuple)) else path_text(source)
        self.destination = path_text(destination)
        self.since = since
        self.until = until
        self._check_known()

    own_arguments = templated_arguments(__init__)
    template_fields: Sequence[str] = own_arguments

    def _check(self, given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
        from airflow_provider_mediaops.cluster.capture.plan import capture_paths
        from airflow_provider_mediaops.cluster.digest.period import check_sources, read_period

        known = {name: value for name, value in given.items() if not is_unknown(value)}
        read_period(known.get("since"), known.get("until"))
        if "source" in known:
            check_sources(_sources(known["source"]))
        if "destination" in known:
            capture_paths(read_path("destination", self.destination), "html")

    def execute(self, context: Context) -> dict[str, Any]:
        """Read the captures, write the files, and return the summary."""
        from airflow_provider_mediaops.cluster.digest.attempt import make_digest

        with ending_task():
            log, warn = self.log.info, self.log.warning
            result = make_digest(self._plan(context), log=log, warn=warn, check_stop=self.stop.check)
        self.log.info("%s", result["headline"])
        self._note_in_events(context, result)
        return result

    def _plan(self, context: Context) -> DigestPlan:
        """Read the rendered arguments; refuse the destination of a task that is mapped beside."""
        from datetime import datetime, timezone

        from airflow_provider_mediaops.cluster.capture.files import own_destination
        from airflow_provider_mediaops.cluster.digest.attempt import DigestPlan
        from airflow_provider_mediaops.cluster.digest.period import read_period
        from airflow_provider_mediaops.storage.paths import absolute

        period = read_period(self.since, self.until, datetime.now(timezone.utc))
        sources = tuple(absolute(source, "source", self.log.warning) for source in _sources(self.source))
        self.destination = own_destination(self.destination, context, "digest", self.log.warning)
        return DigestPlan(sources, self.destination, period)

    def _lineage(self, outcome: Mapping[str, Any] | None) -> TaskLineage:
        from airflow_provider_mediaops.lineage import digest_lineage

        return digest_lineage(_sources(self.source), str(self.destination), outcome)


def _sources(source: object) -> tuple[str, ...]:
    """Read the sources: one path, or a list of them."""
    if isinstance(source, str) or is_path(source):
        # A comma may stand in a path.
        return (read_path("source", source),)
    source = ordered(source)
    entries = list(map(path_text, source)) if isinstance(source, (list, tuple)) else source
    texts = read_texts("source", entries, if_empty="Give a folder, a pattern or a file.")
    return tuple(read_path("source", path) for path in texts)
