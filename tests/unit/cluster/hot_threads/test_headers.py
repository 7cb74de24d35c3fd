"""What stands before the threads of a node: its header, and the line on the sampling."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.cluster.hot_threads.short_texts import SAMPLING, only_node, values

HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Elasticsearch 1, host missing": (
        "[n1][qT7xH2b0Qm6UdXo5cVnK1w][inet[/10.0.0.1:9300]]",
        {"name": "n1", "node_id": "qT7xH2b0Qm6UdXo5cVnK1w", "address": "10.0.0.1:9300"},
    ),
    "Elasticsearch 1, name missing": (
        "[qT7xH2b0Qm6UdXo5cVnK1w][es1][inet[es1.example/10.0.0.1:9300]]",
        {"node_id": "qT7xH2b0Qm6UdXo5cVnK1w", "host": "es1", "address": "10.0.0.1:9300"},
    ),
    "Elasticsearch 1, host only in the address": (
        "[n1][qT7xH2b0Qm6UdXo5cVnK1w][inet[es1.example/10.0.0.1:9300]]{data=true,master=false}",
        {
            "name": "n1",
            "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
            "host": "es1.example",
            "address": "10.0.0.1:9300",
            "attributes": {"data": "true", "master": "false"},
        },
    ),
    "Elasticsearch 1, brackets in the name": (
        "[a][b][qT7xH2b0Qm6UdXo5cVnK1w][es1][inet[/10.0.0.1:9300]]",
        {"name": "a][b", "node_id": "qT7xH2b0Qm6UdXo5cVnK1w", "host": "es1", "address": "10.0.0.1:9300"},
    ),
    "Elasticsearch 1, cut by hand to the name": ("[n1]", {"name": "n1"}),
    "Elasticsearch 2": (
        "{n1}{qT7xH2b0Qm6UdXo5cVnK1w}{10.0.0.1}{10.0.0.1:9300}{max_local=1}",
        {
            "name": "n1",
            "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
            "host": "10.0.0.1",
            "address": "10.0.0.1:9300",
            "attributes": {"max_local": "1"},
        },
    ),
    "Elasticsearch 2, name missing": (
        "{qT7xH2b0Qm6UdXo5cVnK1w}{10.0.0.1}{10.0.0.1:9300}",
        {"node_id": "qT7xH2b0Qm6UdXo5cVnK1w", "host": "10.0.0.1", "address": "10.0.0.1:9300"},
    ),
    "Elasticsearch 5 to 7": (
        "{n1}{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{es1}{[fe80::1]:9300}{a=x, y}{z, b=2=3}",
        {
            "name": "n1",
            "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
            "ephemeral_id": "Z3cR9pLkTgyW4vHs8uNeJA",
            "host": "es1",
            "address": "[fe80::1]:9300",
            "attributes": {"a": "x, y}{z", "b": "2=3"},
        },
    ),
    "Elasticsearch 7 with roles, no attributes": (
        "{n1}{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{es1}{10.0.0.1:9300}{cdhilmrstw}",
        {
            "name": "n1",
            "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
            "ephemeral_id": "Z3cR9pLkTgyW4vHs8uNeJA",
            "host": "es1",
            "address": "10.0.0.1:9300",
            "roles": "cdhilmrstw",
        },
    ),
    "Elasticsearch 9, no name, no external id, no roles": (
        "{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{es1}{10.0.0.1:9300}{9.2.1}{8000099-9033000}",
        {
            "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
            "ephemeral_id": "Z3cR9pLkTgyW4vHs8uNeJA",
            "host": "es1",
            "address": "10.0.0.1:9300",
            "version": "9.2.1",
            "index_versions": "8000099-9033000",
        },
    ),
    "a name with braces, commas and an equals sign": (
        "{a}{b=c, {d}{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{es1}{10.0.0.1:9300}{dimr}",
        {
            "name": "a}{b=c, {d",
            "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
            "ephemeral_id": "Z3cR9pLkTgyW4vHs8uNeJA",
            "host": "es1",
            "address": "10.0.0.1:9300",
            "roles": "dimr",
        },
    ),
    "a name of the length of an id": (
        "{elasticsearch-master-0}{qT7xH2b0Qm6UdXo5cVnK1w}{10.0.0.1}{10.0.0.1:9300}",
        {
            "name": "elasticsearch-master-0",
            "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
            "host": "10.0.0.1",
            "address": "10.0.0.1:9300",
        },
    ),
    "a hosted service that hides addresses": (
        "{0f3a}{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{x.x.x.x}{x.x.x.x:9300}{mr}{zone=us-east-1b, }",
        {
            "name": "0f3a",
            "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
            "ephemeral_id": "Z3cR9pLkTgyW4vHs8uNeJA",
            "host": "x.x.x.x",
            "address": "x.x.x.x:9300",
            "roles": "mr",
            "attributes": {"zone": "us-east-1b"},
        },
    ),
    "no ephemeral id, and an address of the port alone": (
        "{es-2}{qT7xH2b0Qm6UdXo5cVnK1w}{}{:9300}",
        {"name": "es-2", "node_id": "qT7xH2b0Qm6UdXo5cVnK1w", "address": ":9300"},
    ),
    "no ephemeral id beside a host": (
        "{es-2}{qT7xH2b0Qm6UdXo5cVnK1w}{}{es2}{:9300}{dimr}{a=b}",
        {
            "name": "es-2",
            "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
            "host": "es2",
            "address": ":9300",
            "roles": "dimr",
            "attributes": {"a": "b"},
        },
    ),
    "an empty host": (
        "{es-2}{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{}{:9300}",
        {
            "name": "es-2",
            "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
            "ephemeral_id": "Z3cR9pLkTgyW4vHs8uNeJA",
            "address": ":9300",
        },
    ),
    "cut by hand to name and id": (
        "{n1}{qT7xH2b0Qm6UdXo5cVnK1w}",
        {"name": "n1", "node_id": "qT7xH2b0Qm6UdXo5cVnK1w"},
    ),
    "cut by hand to name, id and attributes": (
        "{n1}{qT7xH2b0Qm6UdXo5cVnK1w}{a=b}",
        {"name": "n1", "node_id": "qT7xH2b0Qm6UdXo5cVnK1w", "attributes": {"a": "b"}},
    ),
}


@pytest.mark.parametrize(("header", "expected"), HEADERS.values(), ids=HEADERS.keys())
@pytest.mark.parametrize("mark", ["::: ", ":::", " ::: ", "# ::: "])
def test_header(mark: str, header: str, expected: dict[str, Any]) -> None:
    assert values(only_node(f"{mark}{header}\n{SAMPLING}\n")) == {
        "header": header,
        **expected,
        "timestamp_text": "2022-04-01T15:15:27.658Z",
        "interval": "500ms",
        "interval_seconds": 0.5,
        "busiest_threads": 3,
        "ignore_idle_threads": True,
    }


def test_header_without_a_line_on_the_sampling_as_before_elasticsearch_1_5() -> None:
    node = only_node("::: [n1][id1][es1][inet[/10.0.0.1:9300]]\n\n")
    assert (node.name, node.timestamp_text, node.threads) == ("n1", None, ())


def test_header_broken_into_lines() -> None:
    node = only_node(
        "::: {n1}{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{es1}{10.0.0.1:9300}{a=1,\nb=2,\n c=3}\n"
        " Hot threads at 2019-04-28T07:43:58Z, interval=1.5m,\nbusiestThreads=3,\nignoreIdleThreads=true:\n"
    )
    assert node.attributes == {"a": "1", "b": "2", "c": "3"}
    assert node.header
    assert node.header.endswith("{10.0.0.1:9300}{a=1, b=2, c=3}")
    assert (node.interval_seconds, node.ignore_idle_threads) == (90.0, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2019-04-28T07:43:58.123456789Z", datetime(2019, 4, 28, 7, 43, 58, 123456, tzinfo=timezone.utc)),
        ("2019-04-28T07:43:58Z", datetime(2019, 4, 28, 7, 43, 58, tzinfo=timezone.utc)),
        ("2019-04-28T07:43Z", datetime(2019, 4, 28, 7, 43, tzinfo=timezone.utc)),
    ],
)
def test_timestamp(text: str, expected: datetime) -> None:
    node = only_node(f"   Hot threads at {text}, interval=500ms:\n")
    assert (node.timestamp_text, node.timestamp) == (text, expected)


@pytest.mark.parametrize("text", ["2019-13-28T07:43:58Z", "yesterday"])
def test_timestamp_that_is_none(text: str) -> None:
    report = parse(f"   Hot threads at {text}, interval=500ms:\n")
    assert (report.nodes[0].timestamp_text, report.nodes[0].timestamp) == (text, None)
    assert [found.reason for found in report.unparsed] == ["a 'Hot threads at' line with a time of unknown form"]


def test_a_report_was_taken_when_its_first_node_was_sampled() -> None:
    times = ("22:10:05Z", "22:10:03Z", "yesterday")
    nodes = [f"::: [n{number}]\n   Hot threads at 2022-04-01T{time}:\n" for number, time in enumerate(times)]
    assert parse("".join(nodes)).taken == datetime(2022, 4, 1, 22, 10, 3, tzinfo=timezone.utc)
    assert parse(nodes[-1]).taken is None


def test_header_broken_into_more_lines_than_a_person_would() -> None:
    text = "::: {n1}{qT7xH2b0Qm6UdXo5cVnK1w}{a=1,\nb=2,\nc=3,\nd=4,\ne=5}\n" + SAMPLING
    report = parse(text)
    assert (report.nodes[0].name, report.nodes[0].attributes) == ("n1", {})
    assert [(found.line, found.text) for found in report.unparsed] == [
        (1, text.partition("\n")[0]),
        (2, "b=2,\nc=3,\nd=4,\ne=5}"),
    ]
    assert report.render() == text
