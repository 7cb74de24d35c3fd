"""Write captures of hot threads to files, and log the hottest thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import read_path
from airflow_provider_mediaops.cluster.capture.plan import capture_paths
from airflow_provider_mediaops.cluster.capture.summary import hottest_sentence, summary_of
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.files import check_writable, write_whole
from airflow_provider_mediaops.storage.ownership import owner_of, refuse_shared_destination
from airflow_provider_mediaops.storage.paths import absolute, is_local, lasting, path_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.cluster.capture.plan import TakenFor


def own_destination(destination: object, context: Context, what: str, warn: Callable[[str], None]) -> str:
    """Return a rendered destination as any process can open it; refuse that of a task that is mapped beside."""
    path = absolute(read_path("destination", destination), "destination", warn)
    # The name without the suffix of a format: whatever the formats, it stands for the files of one task.
    stem = capture_paths(path, "txt")["txt"].removesuffix(".txt")
    owner = owner_of(context, {"map_index": getattr(context.get("ti"), "map_index", None)})
    refuse_shared_destination(stem, owner, what)
    return path


@dataclass(slots=True)
class CaptureFiles:
    """
    The files of one or several captures of a spike: some for each capture, and one page for all.

    Readers see each file whole or not at all. An older file of the same name is replaced. Until the page is written,
    the captures are kept compressed, so that a series takes hardly more memory than one capture. The log has the paths
    of the files, the hottest thread, and warnings about the capture. A destination that names no file, or an unknown
    format, is an InvalidArgumentError.
    """

    destination: str
    formats: str | Sequence[str]
    log: Any
    captures: int = 1
    taken_for: TakenFor | None = None
    _for_page: list[Capture] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._paths(1)

    @property
    def shows_statistics(self) -> bool:
        """Whether there is a file that shows the statistics of the nodes."""
        return not {"json", "html"}.isdisjoint(self._paths(1))

    def check(self) -> None:
        """Make sure that the files can be written, before there is anything to write; an OSError names the file."""
        paths = [path_of(path) for path in self._paths(1).values()]
        # The files of a store are written with the same permission.
        for path in paths if is_local(paths[0]) else paths[:1]:
            check_writable(path)

    def keep(self, capture: Capture, number: int) -> dict[str, Any]:
        """Write the files of a capture, its text first; return their ``paths`` by format, the time and the summary."""
        paths = {name: lasting(path) for name, path in self._paths(number).items()}
        own = {name: path for name, path in paths.items() if name != "html"}
        for name, path in own.items():
            write_whole(path_of(path), capture.content(name))
        self._log_capture(capture, own)
        taken = capture.taken and capture.taken.isoformat(timespec="milliseconds")
        kept = {"paths": paths, "taken": taken, **summary_of(capture)}
        if "html" in paths:
            capture.path = own.get("txt")
            capture.pack()
            self._for_page.append(capture)
        return kept

    def finish(self) -> None:
        """Write the page of all captures, if HTML was asked for."""
        if not self._for_page:
            return
        from airflow_provider_mediaops.cluster.page.document import page

        stats = self._for_page[0].stats
        title = f"Hot threads of {stats.cluster_name}" if stats and stats.cluster_name else "Hot threads"
        html = page(self._for_page, title=title, taken_for=self.taken_for)
        path = path_of(self._paths(1)["html"])
        write_whole(path, html.encode())
        self.log.info("Wrote the page of %s: %s", counted(len(self._for_page), "capture"), lasting(path))
        self._for_page.clear()

    def _paths(self, number: int) -> dict[str, str]:
        return capture_paths(self.destination, self.formats, number if self.captures > 1 else None)

    def _log_capture(self, capture: Capture, paths: Mapping[str, str]) -> None:
        for warning in capture.warnings():
            self.log.warning("%s", warning)
        where = _joined(paths) if paths else "for the page"
        nodes = counted(len(capture.report.nodes), "node")
        self.log.info("Captured the hot threads of %s: %s; %s", nodes, where, hottest_sentence(capture))


def _joined(paths: Mapping[str, str]) -> str:
    """Return the paths of a capture, which differ in their suffixes, as a shell abbreviates them."""
    stem = next(iter(paths.values())).rpartition(".")[0]
    return f"{stem}.{{{','.join(paths)}}}" if len(paths) > 1 else next(iter(paths.values()))
