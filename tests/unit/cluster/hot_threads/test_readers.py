"""What the grammar reads of a regular line, and what is made of an odd one, are the same values."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.hot_threads.grammar import read_sampling, read_usage, sampling_of, usage_of
from airflow_provider_mediaops.cluster.hot_threads.headers import header_of, read_header
from airflow_provider_mediaops.cluster.hot_threads.parts import NODE, THREAD, read_node, read_thread

SAMPLING = "Hot threads at 2022-04-01T15:15:27.658Z, interval=500ms, busiestThreads=3, ignoreIdleThreads=true:"
ID = st.from_regex(r"[A-Za-z0-9_-]{20,22}", fullmatch=True)
# Words that are or resemble a slot of a header, to be put together in any number and order.
SLOT = st.one_of(
    ID,
    st.sampled_from(["n1", "10.0.0.1:9300", "[fe80::1]:9300", "fe80::1", "es-master-0", "dimr", "9.1.0", "8000-9033"]),
    st.sampled_from(["a=b", "a=b, c=d", "a=", "=", "a", "MASTER_AND_DATA_NODE", "9.1.0-SNAPSHOT", "a b", "x:1"]),
    st.text(st.sampled_from("aZ09-_.:=, []{}"), min_size=1, max_size=24),
)
TIME = st.from_regex(r"-?[0-9]{1,4}(\.[0-9])?(nanos|micros|ms|s|m|h|d)?", fullmatch=True)
SHARE = st.from_regex(r"-?[0-9]{1,3}\.[0-9]|NaN|-?Infinity", fullmatch=True)
NAME = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20)


SLOTS = st.tuples(
    *[st.just("n1") | SLOT, ID, st.none() | ID, st.none() | SLOT, SLOT, st.just("10.0.0.1:9300")],
    *[st.none() | st.just("dimr"), st.none() | st.just("9.1.0"), st.none() | st.just("8000-9033")],
    *[st.none() | st.just("a=b, c=d=e,f")],
).map(lambda slots: [slot for slot in slots if slot is not None])


@given(SLOTS | st.lists(SLOT, min_size=2, max_size=9))
@example(["n1", *["qT7xH2b0Qm6UdXo5cVnK1w"] * 2, "ext", "es1", "10.0.0.1:9300", "dimr", "9.1.0", "8000-9033", "a=b"])
@example(["n1", "qT7xH2b0Qm6UdXo5cVnK1w", "es1", "10.0.0.1:9300"])
@example(["n1", "qT7xH2b0Qm6UdXo5cVnK1w"])
def test_header_in_braces(slots: list[str]) -> None:
    check_header("".join(f"{{{slot}}}" for slot in slots))


@given(st.just("n1") | SLOT, ID, st.none() | SLOT, SLOT, st.sampled_from(["", "{a=b}"]))
@example("n1", "qT7xH2b0Qm6UdXo5cVnK1w", "es1", "es1", "{a=b}")
def test_header_in_brackets(name: str, node_id: str, host: str | None, inet: str, attributes: str) -> None:
    host_slot = "" if host is None else f"[{host}]"
    check_header(f"[{name}][{node_id}]{host_slot}[inet[{inet}/10.0.0.1:9300]]{attributes}")


def no_remark(*_: object) -> None:
    """Ignore lines that are not understood."""


def check_header(header: str) -> None:
    """Check that the grammar and the readers of odd lines agree; some headers only the readers can read."""
    text = f"::: {header}\n{SAMPLING}"
    values, reason = read_header(header)
    part = NODE.match(text)
    if part:
        found = {name: value for name, value in header_of(part).items() if value}
        assert (found, None) == (values, reason)
        assert read_node(part[0], no_remark) == header_of(part) | sampling_of(part) | {"failure": None}
    else:
        assert read_node(text, no_remark).get("name") == values.get("name")


@pytest.mark.parametrize(
    "header",
    [
        "{n1}{qT7xH2b0Qm6UdXo5cVnK1w}{qT7xH2b0Qm6UdXo5cVnK1w}{ext}{es1}{10.0.0.1:9300}{dimr}{9.1.0}{8000-9033}{a=b}",
        "{n1}{qT7xH2b0Qm6UdXo5cVnK1w}{es1}{10.0.0.1:9300}",
        "[n1][qT7xH2b0Qm6UdXo5cVnK1w][es1][inet[es1/10.0.0.1:9300]]{a=b}",
        "[n1][qT7xH2b0Qm6UdXo5cVnK1w][inet[/10.0.0.1:9300]]",
    ],
)
def test_a_regular_header_is_the_grammar_s(header: str) -> None:
    assert NODE.match(f"::: {header}\n{SAMPLING}")
    check_header(header)


@given(TIME, st.integers(0, 10**10), st.sampled_from(["true", "false"]), st.datetimes().map(datetime.isoformat))
@example("500ms", 3, "true", "2024-02-29T00:00:00")
def test_sampling(interval: str, threads: int, idle: str, moment: str) -> None:
    line = f"Hot threads at {moment}Z, interval={interval}, busiestThreads={threads}, ignoreIdleThreads={idle}:"
    part = NODE.match(f"::: [n1][qT7xH2b0Qm6UdXo5cVnK1w][inet[/10.0.0.1:9300]]\n{line}")
    assert part
    # The readers of odd lines know the 29th of February, and a number of threads beyond any.
    if part["interval"] or not ("-02-29T" in moment or threads == 10**10):
        assert (sampling_of(part), None) == read_sampling(line)


PARTS_OF_SHARE = st.just("") | st.builds("[cpu={}%, {}={}%] ".format, SHARE, st.sampled_from(["other", "idle"]), SHARE)


@given(SHARE, PARTS_OF_SHARE, TIME, TIME, NAME)
def test_thread(share: str, parts: str, time: str, out_of: str, name: str) -> None:
    check_thread(f"{share}% {parts}({time} out of {out_of}) block usage by thread '{name}'")


@given(st.integers(0, 10**9), st.sampled_from(["b", "kb", "mb", "tb"]), NAME)
def test_thread_by_memory(size: int, unit: str, name: str) -> None:
    check_thread(f"{size / 10:.1f}{unit} memory allocated by thread '{name}'")


def check_thread(line: str) -> None:
    part = THREAD.match(line)
    assert part
    usage = usage_of(part, "n1")
    assert (usage, None) == read_usage(line, "n1")
    assert usage == read_thread(line.replace(" by thread", "  by thread", 1), "n1", no_remark)
