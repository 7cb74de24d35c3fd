"""What stands before the threads of a node: its header, and the line on the sampling."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.cluster.hot_threads.short_texts import SAMPLING, only_node, values

ID = "qT7xH2b0Qm6UdXo5cVnK1w"
ADDRESS = "10.0.0.1:9300"
NAMED = {"name": "n1", "node_id": ID}
WHOLE = {**NAMED, "ephemeral_id": "Z3cR9pLkTgyW4vHs8uNeJA", "host": "es1", "address": ADDRESS}

#: What the slots in braces hold, in their order; one without a name is empty.
IN_BRACES: dict[str, dict[str, Any]] = {
    "Elasticsearch 2": NAMED | {"host": "10.0.0.1", "address": ADDRESS, "attributes": {"max_local": "1"}},
    "Elasticsearch 2, name missing": {"node_id": ID, "host": "10.0.0.1", "address": ADDRESS},
    "Elasticsearch 5 to 7": WHOLE | {"address": "[fe80::1]:9300", "attributes": {"a": "x, y}{z", "b": "2=3"}},
    "Elasticsearch 7 with roles, no attributes": WHOLE | {"roles": "cdhilmrstw"},
    "Elasticsearch 9, no external id, no roles": WHOLE | {"version": "9.2.1", "index_versions": "8000099-9033000"},
    "Elasticsearch 9": {
        **NAMED,
        "ephemeral_id": WHOLE["ephemeral_id"],
        "external_id": "ext-1",
        "host": "es9",
        "address": ADDRESS,
        "roles": "hs",
        "version": "9.1.0",
        "index_versions": "8000-9033",
        "attributes": {"zone": "a"},
    },
    "a name with braces, commas and an equals sign": WHOLE | {"name": "a}{b=c, {d", "roles": "dimr"},
    "a name of the length of an id": NAMED | {"name": "elasticsearch-master-0", "host": "::1", "address": ADDRESS},
    "no ephemeral id, and an address of the port alone": NAMED | {"": "", "address": ":9300"},
    "no ephemeral id beside a host": NAMED | {"": "", "host": "es2", "address": ":9300", "attributes": {"a": "b"}},
    "an empty host": NAMED | {"ephemeral_id": WHOLE["ephemeral_id"], "": "", "address": ":9300"},
    "cut by hand to name and id": NAMED,
    "cut by hand to name, id and attributes": NAMED | {"attributes": {"a": "b"}},
    "no name": {name: value for name, value in WHOLE.items() if name != "name"},
}
HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Elasticsearch 1, host missing": (f"[n1][{ID}][inet[/{ADDRESS}]]", NAMED | {"address": ADDRESS}),
    "Elasticsearch 1, name missing": (
        f"[{ID}][es1][inet[es1.example/{ADDRESS}]]",
        {"node_id": ID, "host": "es1", "address": ADDRESS},
    ),
    "Elasticsearch 1, host only in the address": (
        f"[n1][{ID}][inet[es1.example/{ADDRESS}]]{{data=true,master=false}}",
        NAMED | {"host": "es1.example", "address": ADDRESS, "attributes": {"data": "true", "master": "false"}},
    ),
    "Elasticsearch 1, brackets in the name": (
        f"[a][b][{ID}][es1][inet[/{ADDRESS}]]",
        {"name": "a][b", "node_id": ID, "host": "es1", "address": ADDRESS},
    ),
    "Elasticsearch 1, cut by hand to the name": ("[n1]", {"name": "n1"}),
    "a hosted service that hides addresses": (
        f"{{0f3a}}{{{ID}}}{{{WHOLE['ephemeral_id']}}}{{x.x.x.x}}{{x.x.x.x:9300}}{{mr}}{{zone=us-east-1b, }}",
        WHOLE
        | {"name": "0f3a", "host": "x.x.x.x", "address": "x.x.x.x:9300"}
        | {"roles": "mr", "attributes": {"zone": "us-east-1b"}},
    ),
}


def in_braces(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a header, and what it says."""
    slots = [
        ", ".join("=".join(pair) for pair in value.items()) if name == "attributes" else value
        for name, value in values.items()
    ]
    return "".join(f"{{{slot}}}" for slot in slots), {name: value for name, value in values.items() if name}


HEADERS |= {name: in_braces(values) for name, values in IN_BRACES.items()}


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
