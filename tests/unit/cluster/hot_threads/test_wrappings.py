"""Hot-threads texts in the wrapping in which people have them: logs, JSON, web pages, broken lines."""

from __future__ import annotations

import base64
import gzip
import html
import json
import textwrap
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_provider_mediaops.cluster.hot_threads import parse, wrapping

RECORDED = Path(__file__).parents[3] / "data" / "hot_threads"
PLAIN = (RECORDED / "opensearch-3.8.0-cpu.txt").read_text("utf-8")
LINES = PLAIN.splitlines(keepends=True)
BEGIN = datetime(2026, 11, 30, 23, 59, 59, 999_000, tzinfo=timezone.utc)
LOGGER = "[DEBUG][o.e.c.c.LagDetector      ] [master-1] hot threads from node [{data-1}{k3J9qLxWQYu0b1Zt5Vn7Rg}]"


def moments(number: int) -> datetime:
    """Return the times of lines: the seconds, the day and the month change between them."""
    return BEGIN + timedelta(milliseconds=7 * number)


def prefixed(prefix: Callable[[int], str]) -> str:
    return "".join(prefix(number) + line for number, line in enumerate(LINES))


def nanoseconds(number: int) -> str:
    """Return a fraction as Go writes it, without zeros at its end."""
    return f"{moments(number):%Y-%m-%dT%H:%M:%S.%f}".rstrip("0").rstrip(".") + "Z"


def chunked(text: str = PLAIN, *, size: int = 300, node: str = "data-1") -> list[str]:
    """Return the lines of Elasticsearch's log that hold a text."""
    data = base64.b64encode(gzip.compress(text.encode())).decode()
    before = f"[2026-11-20T10:15:31,%03d]{LOGGER.replace('data-1', node)}"
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    lines = [f"{before % number} [part {number}]: {part}\n" for number, part in enumerate(parts, 1)]
    end = f"split into {len(parts)} parts on preceding log lines; for details see https://docs.example/logging)"
    return [*lines, f"{before % len(parts)} (gzip compressed, base64-encoded, and {end}\n"]


def docker_log() -> str:
    records = ({"log": line, "stream": "stdout", "time": nanoseconds(number)} for number, line in enumerate(LINES))
    return "".join(json.dumps(record) + "\n" for record in records)


def log_events() -> str:
    """Return the answer of a log service: one record a line, on several lines each."""
    events = [{"timestamp": number, "message": line.rstrip("\n")} for number, line in enumerate(LINES)]
    return json.dumps({"events": events, "nextToken": "f/1"}, indent=2)


def wrapped_at(width: int) -> str:
    """Break lines as a terminal does."""
    return "".join(
        "\n".join(line[start : start + width] for start in range(0, len(line), width)) + "\n"
        for line in PLAIN.rstrip("\n").split("\n")
    )


#: By the name that the report gives them.
WRAPPED: dict[str, dict[str, str]] = {
    "a prefix before each line": {
        "kubectl logs --timestamps": prefixed(lambda number: f"{nanoseconds(number)} "),
        "kubectl logs --prefix": prefixed(lambda _: "[pod/es-data-0/elasticsearch] "),
        "the container runtime": prefixed(lambda number: f"{nanoseconds(number)} stdout F "),
        "docker compose": prefixed(lambda _: "es-data-1  | "),
        "docker compose in colours": prefixed(lambda _: "\x1b[36mes-data-1  |\x1b[0m "),
        "journald": prefixed(lambda number: f"{moments(number):%b %e %H:%M:%S} host7 elasticsearch[1234]: "),
        "a weekday": prefixed(lambda number: f"{moments(number):%a %b %e %H:%M:%S} es: "),
        "the log of a task": prefixed(
            lambda number: f"[{moments(number):%Y-%m-%dT%H:%M:%S.%f%z}] {{logging_mixin.py:188}} INFO - "
        ),
        "numbers of lines": prefixed(lambda number: f"{number + 1:6d}\t"),
        "grep -n": prefixed(lambda number: f"report.txt:{number + 1}:"),
        "the log of the server": prefixed(lambda number: f"[{moments(number):%Y-%m-%dT%H:%M:%S},001]{LOGGER} "),
        "Windows line ends": prefixed(lambda number: f"{nanoseconds(number)} ").replace("\n", "\r\n"),
        "lines of others": "2026-01-01T00:00:00Z begin\n" + prefixed(lambda number: f"{nanoseconds(number)} "),
    },
    "records in JSON": {
        "Docker's log": docker_log(),
        "a log service": log_events(),
        "lines with a prefix in records": docker_log().replace('{"log": "', '{"log": "[main] '),
    },
    "an escaped text": {
        "a JSON string": json.dumps(PLAIN),
        "a value in JSON": json.dumps({"took": 5, "hot_threads": PLAIN, "x": "'"}),
        "a record of a log": f'{{"level":"INFO"}}\n{json.dumps({"msg": "slow", "body": PLAIN})}\n{{"level":"INFO"}}\n',
        "JSON in JSON": json.dumps({"body": json.dumps({"hot_threads": PLAIN})}),
        "a Python text": repr(PLAIN),
        "Python bytes": repr(PLAIN.encode()),
        "without its quotes": json.dumps(PLAIN)[1:-1],
        "cut off": json.dumps({"hot_threads": PLAIN})[:-3],
        "a list in Python": repr(PLAIN.splitlines()),
    },
    "Elasticsearch's compressed log": {
        "in parts": "".join(chunked()),
        "between other lines": "[2026-11-20T10:15:30,000][INFO ] started\n".join(chunked()),
        "of two nodes at once": "".join(
            line for pair in zip(chunked(), chunked(PLAIN, node="data-2"), strict=True) for line in pair
        ),
        "in one line": f"[2026-11-20T10:15:31,000]{LOGGER} (gzip compressed and base64-encoded; for details see "
        f"https://docs.example/logging): {base64.b64encode(gzip.compress(PLAIN.encode())).decode()}\n",
        "in JSON": "".join(json.dumps({"message": line.rstrip()}) + "\n" for line in chunked()),
    },
    "signs and tags of a web page": {
        "escaped": html.escape(PLAIN),
        "escaped twice": html.escape(html.escape(PLAIN)),
        "a page": f"<html><body><p>See:</p><pre><code>{html.escape(PLAIN)}</code></pre></body></html>",
        "line ends as tags": html.escape(PLAIN).replace("\n", "<br/>"),
    },
    "typographic quotes and blanks": {
        "quotes": PLAIN.replace("thread '", "thread ‘").replace("'\n", "’\n"),  # noqa: RUF001
        "blanks": PLAIN.replace("Hot threads at", "Hot\xa0threads\xa0at"),
    },
    "lines broken by a terminal": {f"{width} columns": wrapped_at(width) for width in (80, 100, 132)},
    "lines broken at blanks": {
        "a mail": "\n".join(textwrap.fill(line, 72, break_long_words=False, break_on_hyphens=False) for line in LINES),
        "a quoted mail": "".join(
            f"> {line}\n" for line in textwrap.wrap(PLAIN, 78, break_long_words=False, break_on_hyphens=False)
        ),
        "a web form": textwrap.fill(PLAIN, 100, break_long_words=False, break_on_hyphens=False),
        "all on one line": " ".join(PLAIN.split()),
    },
}


def figures(text: str) -> list[object]:
    """Return all that is read of a text but how it was laid out."""
    return [
        (node.name, node.node_id, node.timestamp_text, thread.name, thread.amount, group.snapshots, group.frames)
        for node in parse(text).nodes
        for thread in node.threads
        for group in thread.groups
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [pytest.param(name, text, id=kind) for name, kinds in WRAPPED.items() for kind, text in kinds.items()],
)
def test_wrapped_text_is_read_as_the_plain_one_and_comes_back_whole(name: str, text: str) -> None:
    report = parse(text)
    times = 2 if "data-2" in text else 1

    assert figures(text) == figures(PLAIN) * times
    assert name in report.wrappings
    assert report.render() == text
    assert len(report.captures()) == times


@pytest.mark.parametrize("text", [PLAIN, PLAIN.replace("\n", "\r\n"), "\n".join(line.strip() for line in LINES)])
def test_plain_text_has_no_wrapping(text: str) -> None:
    report = parse(text)

    assert (report.wrappings, report.unparsed, report.render()) == ((), (), text)
    assert figures(text) == figures(PLAIN)


def with_other_sign(line: str) -> str:
    """Return a line of a compressed log with one sign changed."""
    place = line.index("]: ") + 40
    return f"{line[:place]}{'B' if line[place] == 'A' else 'A'}{line[place + 1 :]}"


FEW, MANY = chunked(), chunked(PLAIN * 20)
HALF = len(MANY) // 2


@pytest.mark.parametrize(
    ("lines", "is_begun"),
    [
        pytest.param(FEW[1:], False, id="the first part is missing"),
        # What is before the gap is read.
        pytest.param([FEW[0], *FEW[2:]], True, id="the second part is missing"),
        pytest.param(FEW[:-3], True, id="cut"),
        pytest.param([*MANY[:HALF], with_other_sign(MANY[HALF]), *MANY[HALF + 1 :]], True, id="damaged"),
    ],
)
def test_compressed_log_is_read_up_to_the_damage_and_the_rest_is_named(lines: list[str], *, is_begun: bool) -> None:
    text = "".join(lines)

    report = parse(text)

    assert report.render() == text
    assert report.nodes[0].name == (parse(PLAIN).nodes[0].name if is_begun else None)
    assert "not a line of a hot-threads report" in {piece.reason for piece in report.unparsed}
    assert report.read_percent < 90


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"message": PLAIN, "event": {"original": PLAIN}}) + "\n",
        "".join(json.dumps({"log": line, "message": line}) + "\n" for line in PLAIN.splitlines()),
    ],
    ids=["report", "lines"],
)
def test_what_a_logger_keeps_under_two_names_counts_once(text: str) -> None:
    assert figures(text) == figures(PLAIN)
    assert len(parse(text).captures()) == 1


def test_half_of_a_sign_in_an_escaped_text_is_replaced() -> None:
    text = json.dumps({"message": PLAIN}).replace("[search]", "[sea\\ud800rch]")
    assert "\\ud800" in text
    parse(text).plain_text().encode()
    assert len(parse(text).nodes[0].threads) == len(parse(PLAIN).nodes[0].threads)


def test_compressed_log_that_is_no_report_stays_as_it_is() -> None:
    text = "".join(chunked("a dump of something else\n" * 9)) + PLAIN
    report = parse(text)

    assert report.wrappings == ()
    assert figures(text) == figures(PLAIN)


def test_compressed_log_that_grows_beyond_all_bounds_is_not_decompressed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapping, "_MOST_INFLATED", 1 << 16)
    text = "".join(chunked(PLAIN + "x" * (1 << 20)))

    # The line of the last part, which is not read whole, stays.
    assert len(PLAIN) < len(parse(text).plain_text()) < (1 << 16) + 300


def test_report_in_a_log_of_others_is_read_and_the_others_are_named() -> None:
    other = "2026-11-30T10:00:00.1Z [INFO] something else\n"
    text = other * 50 + prefixed(lambda number: f"{nanoseconds(number)} ") + other * 50
    report = parse(text)

    assert figures(text) == figures(PLAIN)
    assert {piece.reason for piece in report.unparsed} == {"not a line of a hot-threads report"}
    assert report.read_percent < 90


def test_wrapping_that_would_make_nothing_more_readable_stays() -> None:
    page = PLAIN + "<p>what is this?</p>\n"
    assert (parse(page).wrappings, parse(page).render()) == ((), page)

    # A thread may have any name.
    text = PLAIN.replace("[search]", "[a &amp; b \\n Hot threads at 2026]") + "?\n"

    assert parse(text).wrappings == ()
    assert parse(text).render() == text


def test_broken_lines_of_a_node_and_a_thread_are_joined() -> None:
    text = (
        "::: {n1}{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{es1}{10.0.0.1:9300}{a=1,\nb=2,\n c=3}\n"
        " Hot threads at 2019-04-28T07:43:58Z, interval=1.5m,\nbusiestThreads=3,\n> ignoreIdleThreads=true:\n"
        "12.5% (62.5ms\r\nout of 500ms) cpu usage\nby thread 'two\nlines'\n  unique snapshot\n    a.B.c(B.java:1)\n"
    )

    report = parse(text)

    (node,) = report.nodes
    assert node.attributes == {"a": "1", "b": "2", "c": "3"}
    assert node.header
    assert node.header.endswith("{10.0.0.1:9300}{a=1, b=2, c=3}")
    assert (node.interval_seconds, node.ignore_idle_threads) == (90.0, True)
    assert [(thread.name, thread.percent) for thread in node.threads] == [("two lines", 12.5)]
    assert report.wrappings == ("lines broken at blanks",)
    assert (report.unparsed, report.render()) == ((), text)


def test_text_with_several_captures_is_cut_where_a_node_comes_again() -> None:
    section = LINES[0] + LINES[1] + "".join(LINES[2:40])
    other = section.replace("{node-", "{other-", 1) if "{node-" in section else section.replace(":::", "::: {x}", 1)
    texts = [
        "Fri Nov 20 10:15:30 UTC 2026\n" + section,
        section + other + "what?\n",
        section.replace("}\n", "}{?}\n", 1),
    ]

    report = parse("".join(texts))
    captures = report.captures()

    assert [capture.plain_text() for capture in captures] == texts
    assert [capture.nodes for capture in captures] == [parse(text).nodes for text in texts]
    assert sum((capture.unparsed for capture in captures), ()) == report.unparsed
    assert [len(capture.unparsed) for capture in captures] == [len(parse(text).unparsed) for text in texts]


def test_pieces_without_a_header_are_one_capture() -> None:
    piece = "   5.0% (25ms out of 500ms) cpu usage by thread 'opensearch[NODE][search][T#1]'\n     unique snapshot\n"
    report = parse("".join(piece.replace("NODE", node) for node in ("a", "b", "a")))

    assert [node.name for node in report.nodes] == ["a", "b", "a"]
    assert report.captures() == (report,)


@pytest.mark.parametrize(
    ("file", "wrappings", "captures", "cpu"),
    [
        ("F01_same_node_several_times", (), 3, [98.4, 40.6, 97.0, 40.6, 12.0, 40.6]),
        ("F07_chunked_log", ("Elasticsearch's compressed log",), 1, [97.1, 40.6]),
        ("F07c_plain_log_same_line", ("a prefix before each line",), 1, [97.1, 40.6]),
        ("F13_html_escaped", ("signs and tags of a web page",), 1, [97.1, 40.6]),
        ("F14_python_repr", ("an escaped text",), 1, [97.1, 40.6]),
        ("F15_line_prefix", ("a prefix before each line",), 1, [97.1, 40.6]),
        ("F16_wrapped_thread_line", ("lines broken at blanks",), 1, [100.0]),
    ],
)
def test_text_that_people_have_is_read(
    shared_data: Path, file: str, wrappings: tuple[str, ...], captures: int, cpu: list[float]
) -> None:
    text = (shared_data / "field" / "cluster" / f"{file}.txt").read_bytes().decode()
    report = parse(text)

    assert (report.wrappings, len(report.captures())) == (wrappings, captures)
    threads = [thread for node in report.nodes for thread in node.threads]
    assert [thread.cpu_percent for thread in threads] == cpu
    assert all(len(group.frames) == group.elements for thread in threads for group in thread.groups)
    assert report.render() == text
