"""The strip of a capture: its flame graph in a few pixels."""

from __future__ import annotations

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.plugin.strip import StripBar, strip_of
from airflow_provider_mediaops.plugin.summaries import summarize
from tests.unit.hot_threads_text import cpu, hostile, section, stack, thread


def of(*threads: str) -> tuple[StripBar, ...]:
    return strip_of(parse(section("n", *threads)))


def test_bars_are_as_wide_as_their_part_and_what_all_stacks_share_is_left_out() -> None:
    shared = ("java.lang.Thread.run(Thread.java:1)",)
    search = thread(
        "opensearch[n][search][T#1]",
        cpu(75.0),
        stack(6, "org.apache.lucene.A.a(A.java:1)", *shared),
        stack(4, "io.netty.B.b(B.java:1)", *shared),
    )
    write = thread("opensearch[n][write][T#1]", cpu(25.0), stack(10, "org.opensearch.C.c(C.java:1)", *shared))
    assert of(search, write) == (
        StripBar(0, 0.0, 75.0, "place"),
        StripBar(0, 75.0, 25.0, "place"),
        StripBar(1, 0.0, 45.0, "lucene"),
        StripBar(1, 45.0, 30.0, "netty"),
        StripBar(1, 75.0, 25.0, "server"),
    )


def test_nothing_hot_has_no_bars() -> None:
    assert of() == ()


def test_a_large_report_has_a_bounded_number_of_bars_within_the_strip() -> None:
    threads = [
        thread(
            f"opensearch[n][pool{number}][T#1]",
            cpu(1.0),
            stack(10, *(f"a.B{depth}.c{number}(D.java:1)" for depth in range(50))),
        )
        for number in range(200)
    ]
    bars = of(*threads)
    assert 0 < len(bars) <= 150
    assert all(0 <= bar.left <= 100 and bar.left + bar.width <= 100.1 for bar in bars)
    assert max(bar.level for bar in bars) < 6


def test_a_hostile_report_has_a_summary_fit_to_be_shown() -> None:
    summary = summarize(parse(hostile()))
    assert summary.strip
    assert summary.frame.isprintable()
