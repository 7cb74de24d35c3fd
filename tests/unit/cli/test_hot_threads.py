"""The command `hot-threads`: a summary in words, pages, stacks and JSON, digests, and what is not a report."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_mediaops.cluster.capture import reading
from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.folded import folded, measures
from airflow_provider_mediaops.cluster.hot_threads import parse
from tests.unit.cli.commands import command
from tests.unit.cluster.digest.captured_days import write_two_weeks
from tests.unit.hot_threads_text import cpu, section, stack, thread

STACK = (
    "     10/10 snapshots sharing following 2 elements\n       app//org.x.Search.score(Search.java:1)\n"
    "       java.base@21/java.lang.Thread.run(Thread.java:2)\n"
)
FIRST = section(
    "node-1",
    thread("opensearch[node-1][search][T#1]", cpu(80.0), STACK),
    thread("opensearch[node-1][write][T#2]", cpu(5.5), STACK),
)
LATER = section("node-1", thread("opensearch[node-1][search][T#1]", cpu(20.0), STACK), at="2026-03-14T20:05:00.000Z")


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file."""

    def written(name: str, text: str) -> Path:
        file = tmp_path / name
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        return file

    return written


@pytest.fixture
def first(write: Write) -> Path:
    return write("first.txt", FIRST)


@pytest.fixture
def later(write: Write) -> Path:
    return write("later.txt", LATER)


def test_several_are_compared_in_their_order(first: Path, later: Path) -> None:
    ended = command("hot-threads", first, later)

    assert ended.code == 0
    assert ended.output.splitlines()[0].startswith(f"1: {first}: ")
    assert ended.row("search", "write")[:2] == [
        ["search", "80.0 %", "20.0 %", "−60.0 points"],  # noqa: RUF001 - the sign
        ["write", "5.5 %", "-", "−5.5 points", "gone"],  # noqa: RUF001
    ]
    assert "Changes: thread pools" in ended.output
    assert "1 · 20:00:00  2 · 20:05:00" in ended.output
    # Numbers stand on the right.
    lines = [line for line in ended.output.splitlines() if line.startswith(("search  ", "write  "))]
    assert [line.index(" %") for line in lines[:2]] == [lines[0].index(" %")] * 2
    backwards = command("hot-threads", later, first)
    assert backwards.row("search")[0] == ["search", "20.0 %", "80.0 %", "+60.0 points"]


def test_names_of_nodes_are_shown_whole(write: Write) -> None:
    ended = command("hot-threads", write("dots.txt", FIRST.replace("{node-1}", "{es-1.prod.example.com}")))

    assert ended.output.partition("By node")[2].split()[5:7] == ["es-1.prod.example.com", "85.5"]


def test_a_page_of_all_is_written_beside_the_summary(
    first: Path, later: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path begins in the current folder; Airflow 3.1 takes it for one in the root folder."""
    monkeypatch.chdir(tmp_path)

    ended = command("hot-threads", first.name, later.name, "--html", "new/page.html")

    assert (ended.code, ended.messages) == (0, "Wrote new/page.html.\n")
    assert ended.output.startswith("1: first.txt: ")
    html = (tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    assert "<title>2 hot-threads reports</title>" in html
    assert "What changed" in html


def test_stacks_and_json_are_those_of_a_capture_and_nothing_else(first: Path, later: Path, tmp_path: Path) -> None:
    stacks, data = tmp_path / "out.folded", tmp_path / "out.json"

    command("hot-threads", first, "--folded", stacks, "--json", data)
    several = json.loads(command("hot-threads", first, later, "--json", "-").output)

    reports = [parse(FIRST)]
    assert stacks.read_text() == folded(reports, measures(reports))
    assert command("hot-threads", first, "--folded", "-").output == stacks.read_text()
    assert data.read_bytes() == Capture(FIRST).content("json")
    assert [report["nodes"][0]["threads"][0]["percent"] for report in several] == [80.0, 20.0]
    assert command("hot-threads", first, later, "--output", "json").document == several


def test_the_standard_input_is_a_report(first: Path) -> None:
    ended = command("hot-threads", "-", stdin=FIRST.encode())

    assert ended.code == 0
    assert ended.output == command("hot-threads", first).output.replace(str(first), "standard input")


NO_REPORT = "it holds no report of hot threads, which a capture keeps in its .txt file; it begins with: "


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        ("::: {n}".encode("utf-16"), "it is UTF-16; save it as UTF-8"),
        (b"\x1f\x8b\x08", "it is compressed with gzip; unpack it first"),
        (b"PK\x03\x04", "it is a ZIP archive; unpack it first"),
        (b'{"nodes": []}', NO_REPORT + '{"nodes": []}'),
        (b"\n[10:15:31][DEBUG] no\n", f"{NO_REPORT}[10:15:31][DEBUG] no"),
        (b"\x7fELF\x00", rf"{NO_REPORT}\x7fELF\x00"),
        (
            b'{\n "error": "no permissions for [x]",\n "status": 403\n}',
            NO_REPORT + '{ "error": "no permissions for [x]", "status": 403 }',
        ),
    ],
)
def test_file_that_is_no_report_is_reported_in_words(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)

    ended = command("hot-threads", file)

    assert (ended.code, ended.output) == (1, "")
    assert ended.messages.startswith(f"hot-threads: {file}: {said}")


def test_missing_file_and_folder_are_reported_in_words_and_the_others_summarized(first: Path, tmp_path: Path) -> None:
    ended = command("hot-threads", tmp_path / "none.txt", first, tmp_path)

    assert (ended.code, ended.output) == (1, command("hot-threads", first).output)
    assert ended.messages.splitlines() == [
        f"hot-threads: {tmp_path}/none.txt: No such file or directory",
        f"hot-threads: {tmp_path}: Is a directory",
    ]


def test_a_file_that_is_too_large_is_no_report(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_REPORT_BYTES", 1 << 20)
    large = write("large.txt", "::: {n}\n" + "\0" * (1 << 20))

    assert "it is larger than 1 MB, which no report is" in command("hot-threads", large).messages


def test_a_report_of_another_store(first: Path) -> None:
    """Paths are those of tasks."""
    ended = command("hot-threads", first.as_uri())

    assert ended.code == 0
    assert ended.output.startswith(f"{first.as_uri()}: 1 node")
    missing = command("hot-threads", f"{first.as_uri()}.none")
    said = f"hot-threads: {first.as_uri()}.none: cannot be read: No such file or directory\n"
    assert (missing.code, missing.messages) == (1, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FIRST + "what is this?\n", "1 piece not understood, [1-9] % of the text: line "),
        (FIRST + "and so on\n" * 40, r"Hottest kind of work in what was read, [4-7]\d % of the text: "),
        (section("node-1"), "No thread was hot."),
    ],
)
def test_what_a_report_lacks_is_a_warning(write: Write, first: Path, text: str, said: str) -> None:
    ended = command("hot-threads", write("report.txt", text))

    assert ended.code == 0
    assert re.search(said, ended.output)
    assert not re.search(said, command("hot-threads", first).output)


def test_other_kinds_are_left_out_and_said(first: Path, write: Write) -> None:
    block = write("block.txt", section("node-1", thread("t", "3.0% (15ms out of 500ms) block usage", STACK)))

    assert "Left out: 1 thread of another kind of sampling" in command("hot-threads", first, block).output


def test_long_tables_are_cut(write: Write) -> None:
    text = "".join(section(f"node-{number}", thread("t", cpu(9.0), STACK)) for number in range(40))

    ended = command("hot-threads", write("report.txt", text))

    assert len(ended.output.splitlines()) < 60
    # Threads and nodes; there is one pool and one top frame.
    assert ended.output.splitlines().count("and 25 more") == 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--html", "-", "--json", "-"], "--html and --json cannot both go to the standard output"),
        (["--html", "-", "--output", "json"], "--html and --output cannot both go to the standard output"),
        (["--html", "same", "--folded", "same"], "same is given twice and would be replaced"),
        (["--html", "first.txt"], "first.txt is given twice and would be replaced"),
        (["--kinds"], "--kinds is about folded stacks: give --folded, too."),
        (["--digest", "x.html", "--html", "y.html"], "leave out --html, --folded, --json and -."),
        (["-", "--digest", "x.html"], "leave out --html, --folded, --json and -."),
        (["--digest", "-"], "leave out --html, --folded, --json and -."),
        (["/", "--digest", "x.html"], "is a whole disk or store"),
        (["--since", "2026-11-16"], "give --digest, too"),
        (["--digest", "x.html", "--since", "soon"], "since is a datetime"),
    ],
)
def test_wrong_use_is_refused(first: Path, more: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(first.parent)

    ended = command("hot-threads", first, *more)

    assert (ended.code, ended.output) == (2, "")
    assert said in ended.messages
    assert [file.name for file in first.parent.iterdir()] == [first.name]
    assert first.read_text() == FIRST


@pytest.mark.long
def test_memory_holds_one_report_at_a_time(write: Write) -> None:
    """Twenty reports take as much memory as two."""
    names = (f"opensearch[node-1][search][T#{number}]" for number in range(200))
    text = section("node-1", *(thread(name, cpu(9.0), STACK) for name in names))
    files = [write(f"{number}.txt", text) for number in range(20)]

    def peak(*given: Path) -> int:
        tracemalloc.start()
        try:
            assert command("hot-threads", *given).code == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(files[0])
    assert peak(*files) < 2 * peak(*files[:2])


def test_kinds_of_work_are_in_the_summary_and_begin_folded_stacks_if_asked(write: Write) -> None:
    frame = "org.opensearch.painless.PainlessScript$Script.execute(a:7)"
    file = write("hot.txt", section("n1", thread("opensearch[n1][search][T#1]", cpu(80.0), stack(10, frame))))

    assert "Hottest kind of work: Script run for each document." in command("hot-threads", file).output
    folded = command("hot-threads", file, "--folded", "-", "--kinds").output
    assert folded.startswith("Script run for each document;n1;search;")
    assert command("hot-threads", file, "--folded", "-").output.startswith("n1;search;")


def test_file_with_several_captures_of_one_node_is_compared_as_so_many_files(write: Write) -> None:
    file = write("all.log", f"Mon Mar 16\n{FIRST}what is this?\n{LATER}and this?\n")

    ended = command("hot-threads", file)
    lines = ended.output.splitlines()

    assert [line for line in lines if "taken" in line] == [
        f"1: {file}, capture 1 of 2: 1 node, 2 threads, taken 2026-03-14 20:00:00 UTC, over 500ms",
        f"2: {file}, capture 2 of 2: 1 node, 1 thread, taken 2026-03-14 20:05:00 UTC, over 500ms",
    ]
    first, second = (line for line in lines if "not understood" in line)
    assert f"line {FIRST.count(chr(10)) + 2}, " in first
    assert f"line {(FIRST + LATER).count(chr(10)) + 3}, " in second
    assert ended.row("search")[0] == ["search", "80.0 %", "20.0 %", "−60.0 points"]  # noqa: RUF001 - the sign


def test_text_out_of_a_log_says_what_was_taken_off(write: Write, tmp_path: Path) -> None:
    lines = FIRST.splitlines(keepends=True)
    text = "".join(f"2026-03-14T20:00:0{number % 10}Z {line}" for number, line in enumerate(lines))
    page = tmp_path / "page.html"

    ended = command("hot-threads", write("pod.log", text), "--html", page)

    assert "\n  Taken off before the text was read: a prefix before each line.\n" in ended.output
    assert "Taken off before the text was read: a prefix before each line." in page.read_text()
    assert "2 threads" in ended.output


def test_threads_without_a_figure_are_explained(write: Write) -> None:
    seen, plain = (
        command("hot-threads", write("report.txt", section("n", thread("es[n][search][T#1]", use, STACK)))).output
        for use in ("0.0% (0s out of 500ms) wait usage", cpu(80.0))
    )

    assert "Seen: the number of threads, each of which counts 1" in seen
    assert "Seen" not in plain


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    write_two_weeks(tmp_path / "reports", every=timedelta(hours=6))
    return tmp_path / "reports"


def test_a_folder_becomes_a_page(captures: Path, tmp_path: Path) -> None:
    page = tmp_path / "week.html"
    ended = command("hot-threads", "--digest", page, "--since", "2026-11-16", "--until", "2026-11-23", captures)

    assert ended.code == 1  # two files are damaged
    assert "cut.txt: it holds no report" in ended.messages
    headline = "Hot threads, 2026-11-16 to 2026-11-23: Sorting.compare in 28 of 28 scheduled"
    assert ended.output.startswith(headline)
    assert headline not in ended.messages
    (row,) = (line.split() for line in ended.output.splitlines() if "org.opensearch.search.sort" in line)
    assert row[:5] == ["scheduled", "org.opensearch.search.sort.Sorting.compare", "28", "of", "28"]
    assert {path.name for path in tmp_path.glob("week.*")} == {"week.html", "week.json", "week.folded"}


def test_programs_get_the_result_of_a_task(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(captures)
    ended = command("hot-threads", "--digest", "all.html", "spikes", "-o", "json")
    assert (ended.code, ended.document["series"]["spike"]) == (0, 3)
    assert ended.document["path"] == str(captures / "all.html")
