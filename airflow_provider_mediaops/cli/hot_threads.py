"""``hot-threads``: summarize and compare reports of hot threads, and write pages, stacks and JSON of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import read_path
from airflow_provider_mediaops.cli.report_summary import summary_of
from airflow_provider_mediaops.cli.terminal import STANDARD_INPUT, STANDARD_OUTPUT, Result
from airflow_provider_mediaops.cluster.capture.model import Capture, reports_of
from airflow_provider_mediaops.cluster.capture.reading import MAX_REPORT_BYTES, NoReportError, read_reports
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.cli.terminal import Terminal

_FORMATS = ("html", "folded", "json")


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """Summarize reports, or write what was asked for. A file that is not a report is a problem."""
    for file in options.files:
        read_path("FILE", file)
    if options.digest is not None:
        from airflow_provider_mediaops.cli.digest import run as run_digest

        return run_digest(options, terminal)
    if options.since is not None or options.until is not None:
        raise InvalidArgumentError("--since and --until are the period of a digest: give --digest, too.")
    if options.kinds and options.folded is None:
        raise InvalidArgumentError("--kinds is about folded stacks: give --folded, too.")
    targets = _targets(options)
    read: list[tuple[Capture, int]] = []
    problem = False
    for file in options.files:
        try:
            read += _reports_in(file, terminal)
        except (NoReportError, OSError) as error:
            reason = str(getattr(error, "strerror", None) or error).removeprefix(f"{file} ")
            terminal.say(f"hot-threads: {_name(file)}: {reason}", "bad")
            problem = True
    captures = [capture for capture, _ in read]
    text = ""
    for format, path in targets if captures else ():
        content = _content_as(format, captures, kinds_first=options.kinds)
        if path == STANDARD_OUTPUT:
            text = content
        else:
            from airflow_provider_mediaops.storage.files import write_whole
            from airflow_provider_mediaops.storage.paths import path_of

            write_whole(path_of(path), content.encode())
            terminal.say(f"Wrote {path}.")
    is_shown = captures and STANDARD_OUTPUT not in (path for _, path in targets)
    return Result(parts=summary_of(read) if is_shown else (), text=text, problem=problem)


def _targets(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the formats that were asked for, and the file to write for each."""
    targets = [(name, path) for name in _FORMATS if (path := getattr(options, name)) is not None]
    to_output = [f"--{name}" for name, path in targets if path == STANDARD_OUTPUT]
    if options.output == "json":
        targets.append(("json", STANDARD_OUTPUT))
        to_output.append("--output")
    if len(to_output) > 1:
        raise InvalidArgumentError(f"{' and '.join(to_output)} cannot both go to the standard output: name a file.")
    written = [path for _, path in targets if path != STANDARD_OUTPUT]
    for number, path in enumerate(written):
        from airflow_provider_mediaops.storage.paths import is_same_file

        for other in (*options.files, *written[:number]):
            if other != STANDARD_INPUT and is_same_file(other, path):
                raise InvalidArgumentError(f"{path} is given twice and would be replaced: choose another file.")
    return targets


def _reports_in(file: str, terminal: Terminal) -> list[tuple[Capture, int]]:
    """Read the reports of a file, each with its first line; their texts are compressed."""
    found = read_reports(_bytes_of(file, terminal))
    for number, (capture, _) in enumerate(found, 1):
        capture.path = _name(file) if len(found) == 1 else f"{_name(file)}, capture {number} of {len(found)}"
        capture.pack()
    return found


def _name(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else file


def _bytes_of(file: str, terminal: Terminal) -> bytes:
    # One byte more than a report may have shows that there are more.
    most = MAX_REPORT_BYTES + 1
    if file == STANDARD_INPUT:
        return terminal.input_bytes().read(most)
    if "://" not in file:
        with Path(file).open("rb") as local:
            return local.read(most)
    from airflow_provider_mediaops.storage.errors import naming_path
    from airflow_provider_mediaops.storage.paths import check_store, path_of

    path = path_of(file)
    check_store(path, "FILE")
    with naming_path(path, "read"), path.open("rb") as remote:
        data: bytes = remote.read(most)
        return data


def _content_as(format: str, captures: Sequence[Capture], *, kinds_first: bool) -> str:
    if format == "html":
        from airflow_provider_mediaops.cluster.page.document import page

        is_one = len(captures) == 1
        return page(
            captures, title=f"Hot threads of {captures[0].path}" if is_one else f"{len(captures)} hot-threads reports"
        )
    if format == "folded":
        from airflow_provider_mediaops.cluster.folded import folded, measures

        kinds = measures(reports_of(captures))
        return folded(reports_of(captures), kinds, kinds_first=kinds_first)
    # As a capture writes it; several in a list.
    written = [Capture(capture.text).content("json").decode() for capture in captures]
    return written[0] if len(written) == 1 else f"[{','.join(written)}]"
