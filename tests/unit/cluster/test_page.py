"""The page as a file: what it says, that it stays bounded, and that nothing in it but its own scripts can run."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from hashlib import sha256
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.folded import Measure
from airflow_provider_mediaops.cluster.models import NodeCpu
from airflow_provider_mediaops.cluster.page import assets as page_assets
from airflow_provider_mediaops.cluster.page.document import MOST_TEXT, page
from airflow_provider_mediaops.cluster.text import difference, duration, excerpt, figure, listed, readable
from tests.unit.cluster.made_pages import BUSY, TAKEN, Document, attacked, capture, made, words_of
from tests.unit.cluster.task_values import TASKS
from tests.unit.hot_threads_text import cpu, hostile, section, stack, thread, unique

RECORDED = Path(__file__).parents[2] / "data" / "hot_threads"


def flame(document: Document) -> dict[str, Any]:
    (data,) = [data for tag, data in document.texts if tag == "script" and data.startswith('{"labels"')]
    read: dict[str, Any] = json.loads(data)
    return read


class TestContent:
    @pytest.mark.parametrize(
        ("source", "words"), [("os", "its machine"), ("process", "its process"), ("cgroup", "its container's limit")]
    )
    def test_the_measure_of_the_cpu_stands_beside_it(self, source: Any, words: str) -> None:
        nodes = [NodeCpu("id_of_n1", "n1", percent=97.0, source=source)]
        assert f"n1 97 % {words} 96.1 %" in made(capture(BUSY, taken=TAKEN, cpu=nodes)).text()

    def test_page_of_one_capture(self) -> None:
        nodes = [NodeCpu("id_of_n1", "n1", percent=97.0, source="os", load_average={"1m": 7.25}), NodeCpu("x", "n2")]
        shown = made(
            capture(BUSY, taken=TAKEN, cpu=nodes, path="s3://b/x.txt", remarks=("Late.",)), title="Spike"
        ).text()
        assert "Hottest thread pool: search with 96.1 %, 1 thread on n1." in shown
        assert "Hottest top frame at work: C.top with 96.1 %." in shown
        assert "2026-03-14 20:00:05 UTC" in shown
        assert "cpu over 500ms, the 3 busiest threads of each node, without threads known to be idle" in shown
        assert "n1 97 % its machine, load 7.2 96.1 % 1 n2 unknown no section 0" in shown
        assert "a.b.C.top" in shown
        assert "Late." in shown
        assert "Also in s3://b/x.txt." in shown
        assert "What changed" not in shown

    def test_cpu_that_nobody_read_has_no_column(self) -> None:
        assert "Node's CPU" not in made(capture(BUSY)).text()
        shown = made(capture(BUSY), capture(BUSY, cpu=[NodeCpu("id_of_n1", "n1", percent=50.0)])).text()
        assert "Node's CPU, 2 · 20:00:00" in shown
        assert "Node's CPU, 1" not in shown

    def test_only_what_was_used_is_drawn(self) -> None:
        idle = thread("idle", "0.0% (0s out of 500ms) cpu usage", unique("a.B.idle(B.java:1)"))
        data = flame(made(capture(section("n1", idle, thread("busy", cpu(9.0), unique("a.B.c(B.java:1)"))))))
        assert data["unit"] == "percent"
        assert data["names"] == ["n1", "busy", "a.B.c"]
        assert data["stacks"] == [[[9.0, 0, 1, 1, 2]]]

    def test_several_captures(self) -> None:
        later = section(
            "n1",
            thread("opensearch[n1][search][T#1]", cpu(20.0), unique("a.b.C.top(C.java:1)")),
            thread("opensearch[n1][write][T#1]", cpu(30.0), unique("a.b.C.new(C.java:1)")),
            at="2026-03-14T20:00:10.000Z",
        )
        document = made(capture(BUSY), capture(later), capture(later))
        shown = document.text()
        assert "3: 2026-03-14 20:00:00 UTC to 2026-03-14 20:00:10 UTC" in shown
        changes = shown[shown.index("What changed") :]
        assert "search 96.1 % 20.0 % 20.0 % −76.1 points" in changes  # noqa: RUF001
        assert "a.b.C.new – 30.0 % 30.0 % +30.0 points new" in changes  # noqa: RUF001
        assert "Capture 3 · 20:00:10, " in changes
        assert "write 30.0 % – −30.0 points gone" in made(capture(later), capture(BUSY)).text()  # noqa: RUF001
        assert flame(document)["labels"] == ["1 · 20:00:00", "2 · 20:00:10", "3 · 20:00:10"]

    def test_a_capture_at_no_known_time(self) -> None:
        text = thread("t", cpu(10.0), unique("a.B.c(B.java:1)"))
        assert "at an unknown time" in made(capture(text)).text()
        assert flame(made(capture(text), capture(text)))["labels"] == ["capture 1", "capture 2"]

    def test_lines_that_were_not_understood_are_told(self) -> None:
        document = made(
            capture(BUSY + "   what is this\n" * 3 + "".join(f"   {n} what\n   \n{BUSY}" for n in range(30)))
        )
        assert "not a line of a hot-threads report: what is this" in document.text()
        assert "10 more." in document.text("li")

    def test_a_node_that_cannot_measure(self) -> None:
        text = "::: {n1}{id}{e}{h}{10.0.0.1:9300}\n   hot threads is not supported on FreeBSD\n"
        shown = made(capture(text)).text()
        assert "No thread was hot." in shown
        assert "n1: hot threads is not supported on FreeBSD" in shown
        assert "There is no stack to draw." in shown

    def test_threads_that_wait_are_not_called_hot(self) -> None:
        waiting = thread("t", cpu(50.0), unique("jdk.internal.misc.Unsafe.park(Native Method)"))
        working = thread("s", cpu(10.0), unique("a.B.work(B.java:1)"))
        assert "In every snapshot its threads were waiting." in made(capture(section("n1", waiting))).text()
        both = made(capture(section("n1", waiting, working))).text()
        assert "Hottest top frame at work: B.work with 10.0 %." in both
        assert "jdk.internal.misc.Unsafe.park a wait 50.0 %" in both

    def test_other_measures_say_what_they_are(self) -> None:
        memory = section("n1", thread("t", "1.5mb memory allocated", unique("a.B.c(B.java:1)")))
        assert "Memory that the threads allocated" in made(capture(memory)).text()
        assert "1.5 MB" in made(capture(memory)).text()
        waits = (RECORDED / "opensearch-2.19.1-wait.txt").read_text(encoding="utf-8")
        assert "This server prints no figures above zero for “wait”" in made(capture(waits)).text()
        assert "Most threads are in the pool search" in made(capture(waits)).text()

    def test_threads_that_the_figures_leave_out_are_told(self) -> None:
        text = section(
            "n1",
            thread("t", cpu(50.0)),
            thread("s", "NaN% (0s out of 500ms) cpu usage"),
            thread("r", "1kb memory allocated"),
        )
        shown = made(capture(text)).text()
        assert "1 thread without a figure count 1 each." in shown
        assert "1 thread of another kind than “cpu” are in the raw text only." in shown

    def test_other_and_idle_time_are_shown_and_are_no_cpu(self) -> None:
        usages = ("100.0% [cpu=40.0%, other=60.0%]", "0.5% [cpu=0.5%, idle=99.5%]")
        threads = [thread(f"t{n}", f"{usage} (500ms out of 500ms) cpu usage") for n, usage in enumerate(usages)]
        shown = made(capture(section("n1", *threads, thread("hot", cpu(60.0))))).text()
        assert "Hottest thread: hot with 60.0 %" in shown
        assert "40.0 % other 60.0 %" in shown
        assert "0.5 % idle 99.5 %" in shown

    def test_text_that_is_no_report_does_not_say_that_nothing_was_hot(self) -> None:
        words = made(capture("hello world")).text()
        assert "No thread was hot" not in words
        assert "understood" in words

    def test_the_text_is_there_as_it_came(self) -> None:
        text = (RECORDED / "opensearch-2.19.1-cpu.txt").read_text(encoding="utf-8")
        document = made(capture(text))
        assert next(data for tag, data in document.texts if tag == "pre" and data) == f"\n{text}"

    def test_no_capture_is_no_page(self) -> None:
        with pytest.raises(ValueError, match="one capture or more"):
            page([], title="x")


SCRIPT = "org.opensearch.painless.PainlessScript$Script.execute(doc['a'].value:7)"
MERGE = "org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run(ConcurrentMergeScheduler.java:1)"
SEARCH = "opensearch[n1][search][T#1]"


def merge_thread(index: str) -> str:
    return thread(f"opensearch[n1][[{index}][3]: Lucene Merge Thread #7]", cpu(20.0), unique(MERGE))


def words(*texts: str) -> str:
    return words_of(page(list(map(capture, texts)), title="Hot threads"))


class TestKindsOfWork:
    TEXT = section("n1", thread(SEARCH, cpu(60.0), stack(10, SCRIPT)), merge_thread("logs"))

    def test_page_says_share_kind_place_and_next_step_in_its_head(self) -> None:
        head = words(self.TEXT).partition("What is hot")[0]
        assert (
            "75 % of the CPU of these threads: Script run for each document , in 1 thread on n1. "
            "GET _tasks?detailed&actions=*search shows the queries that run; compute the value when indexing."
        ) in head

    def test_page_has_a_row_for_each_kind_with_the_frame_that_told_it(self) -> None:
        table = words(self.TEXT).partition("By kind of work, across nodes")[2].partition("By thread")[0]
        script, _, merge = table.partition("Merging segments: logs, shard 3")
        assert "Script run for each document 75.0 % 1 n1 org.opensearch.painless. PainlessScript$Script." in script
        assert merge.startswith(" from one snapshot 25.0 % 1 n1")

    def test_page_of_several_captures_sums_their_kinds(self) -> None:
        other = section("n2", thread("opensearch[n2][search][T#1]", cpu(20.0), stack(10, SCRIPT)))
        sentence = "80 % of the CPU of these threads: Script run for each document , in 2 threads on n1 and n2."
        assert sentence in words(self.TEXT, other)

    def test_page_says_of_waiting_threads_what_they_wait_in(self) -> None:
        usage = "50.0% (250ms out of 500ms) wait usage"
        assert "100 % of the waiting: Script run" in words(section("n1", thread(SEARCH, usage, stack(10, SCRIPT))))
        nothing = usage.replace("50.0%", "0.0%")
        assert "100 % of these threads: Script" in words(section("n1", thread(SEARCH, nothing, stack(10, SCRIPT))))

    def test_page_of_a_report_in_which_nothing_was_hot_names_no_kind(self) -> None:
        shown = words(section("n1"))
        assert "By kind of work, across nodes Kind of work Share of report Threads Nodes Told by" in shown
        assert " of the CPU of these threads:" not in shown


class TestStructure:
    @pytest.mark.parametrize("path", sorted(RECORDED.glob("*.txt")), ids=lambda path: path.stem)
    def test_recorded_reports(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        document = made(capture(text), capture(text))
        headings = [int(tag[1]) for tag, _ in document.elements if re.fullmatch("h[1-6]", tag)]
        assert headings[0] == 1
        assert headings.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(headings))
        assert document.of("html") == [{"lang": "en"}]
        ids = [attributes["id"] for _, attributes in document.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert {attributes.get("scope") for attributes in document.of("th")} <= {"row", "col"}
        assert document.of("th")

    def test_nothing_is_taken_from_elsewhere(self) -> None:
        document = made(capture(BUSY))
        assert not {"link", "img", "iframe", "object", "embed", "base", "a"} & {tag for tag, _ in document.elements}
        for _, attributes in document.elements:
            assert not {"src", "href", "style", "action", "srcset"} & set(attributes)
            assert not [name for name in attributes if name.startswith("on")]

    def test_the_policy_stands_before_what_it_holds(self) -> None:
        document = made(capture(BUSY))
        tags = [tag for tag, _ in document.elements]
        (policy,) = [meta for meta in document.of("meta") if meta.get("http-equiv")]
        assert policy["content"] == page_assets.policy(page_assets.scripts(with_flame_graph=True), page_assets.style())
        assert tags[: tags.index("style")].count("meta") >= 2
        assert document.elements[3][1].get("http-equiv") == "Content-Security-Policy"


class TestHostileText:
    def test_no_element_is_made_of_it(self) -> None:
        plain, hostile_one = made(*[capture(BUSY, running_tasks=TASKS)] * 3), Document(attacked())
        own = {tag for tag, _ in plain.elements} | {"span", "li", "code", "ul"}
        assert {tag for tag, _ in hostile_one.elements} <= own
        scripts = page_assets.scripts(with_flame_graph=True)
        executable = [a for a in hostile_one.of("script") if a.get("type") != "application/json"]
        assert len(executable) == len(scripts)
        for _, attributes in hostile_one.elements:
            assert not [name for name in attributes if name.startswith("on") or name in {"src", "href", "style"}]

    def test_the_scripts_are_the_own_ones_to_the_last_character(self) -> None:
        texts = [data for tag, data in Document(attacked()).texts if tag == "script" and data]
        assert [text for text in texts if not text.startswith('{"labels"')] == list(
            page_assets.scripts(with_flame_graph=True)
        )

    def test_data_for_the_script_cannot_end_its_element(self) -> None:
        html = page([capture(hostile())], title="x")
        data = html[html.index('id="flame-data">') :].partition(">")[2].partition("</script>")[0]
        assert not set("<>&\u2028\u2029") & set(data)
        names = json.loads(data)["names"]
        assert "node </script><img src=x onerror=window.ran=1>" in names

    def test_signs_that_cannot_be_seen_are_written_by_their_number(self) -> None:
        html = page([capture(hostile())], title="\x00\u202e\ud800")
        assert not {"\x00", "\x1b", "\x7f", "\u202e", "\u2028", "\ufeff", "\ud800"} & set(html)
        assert r"\x00\u202e\ud800" in Document(html).text("title")
        assert r"\udcff\udcfe\udcc3" in html


class TestBounds:
    @pytest.mark.long
    def test_a_long_text_is_cut_at_a_line_and_told(self) -> None:
        text = BUSY * (MOST_TEXT // len(BUSY) + 10)
        document = made(capture(text, path="/reports/x.txt"))
        (shown,) = [data for tag, data in document.texts if tag == "pre" and data.startswith("\n:::")]
        assert 0 < MOST_TEXT - len(shown) < 200
        assert text.startswith(shown[1:])
        assert shown.endswith("\n")
        left_out = f"{len(text) - len(shown) + 1:,}"
        assert f"no room for the last {left_out} characters. The whole text is in /reports/x.txt." in document.text()

    def test_a_line_longer_than_the_room(self) -> None:
        assert len(page([capture("x" * 3 * MOST_TEXT)], title="x")) < 2 * MOST_TEXT

    @pytest.mark.long
    def test_the_smallest_stacks_give_way(self) -> None:
        frames = [f"org.example{'x' * 180}.Class{number}.run(C.java:1)" for number in range(6_000)]
        threads = [thread(f"t{n}", cpu(1.0 + n % 7), unique(frame)) for n, frame in enumerate(frames)]
        document = made(capture(section("n1", *threads)))
        data = flame(document)
        (stacks,) = data["stacks"]
        kept = {stack[0] for stack in stacks}
        assert 3_000 < len(stacks) < 6_000
        assert max(kept) == 7.0
        assert min(kept) > 1.0
        assert f"no room for the {6_000 - len(stacks)} smallest stacks" in document.text()

    def test_a_stack_without_end_is_cut_in_its_middle(self) -> None:
        frames = [f"a.B.m{number}(B.java:1)" for number in range(5_000)]
        data = flame(made(capture(section("n1", thread("t", cpu(9.0), unique(*frames))))))
        ((_, *path),) = data["stacks"][0]
        names = [data["names"][position] for position in path[3:]]
        assert len(names) == 401
        assert (names[0], names[200], names[-1]) == ("a.B.m4999", "… 4600 frames left out …", "a.B.m0")

    def test_a_name_without_end_is_cut(self) -> None:
        long = "a" * 100_000
        html = page([capture(section("n1", thread(long, cpu(9.0), unique(f"{long}.b.C.d(C.java:1)"))))], title=long)
        before_the_text = html.partition('<section aria-labelledby="raw">')[0]
        assert "a" * 299 + "…" in before_the_text
        assert "a" * 300 not in before_the_text

    def test_tables_end_and_say_so(self) -> None:
        threads = [
            thread(f"opensearch[n1][pool{n}x][T#1]", cpu(1.0 + n), unique(f"a.B.m{n}(B.java:1)")) for n in range(40)
        ]
        nodes = [NodeCpu(f"id{n}", f"node-{n}", percent=1.0) for n in range(130)]
        shown = made(capture(section("n1", *threads), cpu=nodes)).text()
        assert shown.count("25 more rows are left out here.") == 3
        assert "31 more rows are left out here." in shown
        first = [shown.index(f"pool{n}x {1 + n}.0 %") for n in (39, 38, 30, 25)]
        assert first == sorted(first)


PERCENT, BYTES, THREADS = Measure("cpu", "percent"), Measure("mem", "bytes"), Measure("wait", "threads")


@pytest.mark.parametrize(
    ("amount", "measure", "written"),
    [
        (96.149, PERCENT, "96.1 %"),
        (0.44, THREADS, "0.4 threads"),
        (0, BYTES, "0 B"),
        (1023, BYTES, "1023 B"),
        (1536, BYTES, "1.5 kB"),
        (3 << 20, BYTES, "3.0 MB"),
        (5 << 30, BYTES, "5.0 GB"),
        (7 << 50, BYTES, "7168.0 TB"),
    ],
)
def test_figures(amount: float, measure: Measure, written: str) -> None:
    assert figure(amount, measure) == written


@pytest.mark.parametrize(
    ("amount", "written"),
    [(12.34, "+12.3 points"), (-0.1, "−0.1 points"), (0.04, "±0.0 points"), (-0.04, "±0.0 points")],  # noqa: RUF001
)
def test_differences_have_a_sign(amount: float, written: str) -> None:
    assert difference(amount, PERCENT) == written


def test_names_of_things() -> None:
    assert [listed(tuple("abcde"[:number])) for number in (1, 2, 5)] == ["a", "a and b", "a, b, c and 2 more"]
    assert readable("größe 検索 a\tb\u200b") == r"größe 検索 a\tb\u200b"


@pytest.mark.parametrize(
    ("text", "most", "shown", "left_out"),
    [
        ("ab\ncd\n", 6, "ab\ncd\n", 0),
        ("ab\ncd\n", 5, "ab\n", 3),
        ("abcdef", 4, "abcd", 2),
        ("a\r\nb\rc\td\x00", 99, "a\nb\\rc\td\\x00", 0),
    ],
)
def test_the_beginning_of_a_text(text: str, most: int, shown: str, left_out: int) -> None:
    assert excerpt(text, most) == (shown, left_out)


@pytest.mark.parametrize(
    ("milliseconds", "written"),
    [(None, "unknown"), (0.0, "0 ms"), (1.44, "1.4 ms"), (463.6, "464 ms"), (4_200.0, "4.2 s"), (1.1e10, "3,055.6 h")],
)
def test_durations(milliseconds: float | None, written: str) -> None:
    assert duration(milliseconds) == written


VENDOR = files("airflow_provider_mediaops.cluster") / "page" / "static" / "vendor"
LINES = re.findall(
    r"^\| (\S+) \S+ \| `\S+` \| `(\S+)` \| ([0-9]+) \| `([0-9a-f]{64})` \|$",
    (VENDOR / "README.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_files_are_those_that_were_published_one_after_the_other() -> None:
    left = {path.name: path.read_bytes() for path in VENDOR.iterdir() if path.name != "README.md"}
    for _, file, size, digest in LINES:
        part, left[file] = left[file][: int(size)], left[file][int(size) :]
        assert (len(part), sha256(part).hexdigest()) == (int(size), digest)
    assert set(left.values()) == {b""}


def test_scripts_are_small_and_cannot_end_their_element() -> None:
    scripts = page_assets.scripts(with_flame_graph=True)
    assert sum(map(len, scripts)) < 300_000
    for script in scripts:
        assert not re.search("</script|<!--|\r", script, re.IGNORECASE)


def test_all_licences_are_in_the_page() -> None:
    texts = page_assets.licenses().values()
    assert set(texts) == {
        path.read_text(encoding="utf-8") for path in VENDOR.iterdir() if path.name.startswith("LICENSE")
    }


def test_the_policy_allows_these_scripts_and_styles_only() -> None:
    scripts = page_assets.scripts(with_flame_graph=True)
    directives = {
        name: values
        for name, *values in (part.split() for part in page_assets.policy(scripts, page_assets.style()).split(";"))
    }
    digests = [b64decode(value.removeprefix("'sha256-").removesuffix("'")) for value in directives["script-src"]]
    assert digests == [sha256(script.encode()).digest() for script in scripts]
    styles = [b64decode(value.removeprefix("'sha256-").removesuffix("'")) for value in directives["style-src"]]
    assert styles[0] == sha256(page_assets.style().encode()).digest()
    assert len(styles) == 2  # and that of the library
    assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == ["'none'"]
    assert "unsafe" not in page_assets.policy(scripts, page_assets.style())


def test_a_page_without_a_graph_allows_less() -> None:
    scripts = page_assets.scripts(with_flame_graph=False)
    assert len(scripts) == 1
    assert page_assets.policy(scripts, page_assets.style()).count("sha256-") == 2
