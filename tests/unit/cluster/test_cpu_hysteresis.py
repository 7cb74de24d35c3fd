"""Each spike told once, until it is over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch, Hysteresis
from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats

if TYPE_CHECKING:
    from collections.abc import Mapping


def stats(**cpu: float | None) -> NodeStats:
    return NodeStats(tuple(NodeCpu(f"id_{name}", name=name, percent=percent) for name, percent in cpu.items()))


def told(hysteresis: Hysteresis, *readings: Mapping[str, float | None] | None) -> list[str]:
    """Add readings, ten seconds from one to the next; give the names of the nodes that each tells of."""
    found = []
    for number, reading in enumerate(readings):
        nodes = hysteresis.add(None if reading is None else stats(**reading), 10.0 * number)
        found.append(" ".join(node.name or "" for node in nodes))
    return found


def watching(clear_below: float = 85, sustained_for: float = 0, **watch: Any) -> Hysteresis:
    return Hysteresis(CpuWatch(85, sustained_for=sustained_for, **watch), clear_below)


HOT, COOL, BOTH = {"a": 90.0}, {"a": 5.0}, {"a": 90.0, "b": 95.0}

#: By what happens: the watch, the readings, and the nodes that each reading tells of.
SPIKES: dict[str, tuple[dict[str, Any], list[Any], list[str]]] = {
    "a spike is told once": ({}, [COOL, HOT, {"a": 95}, {"a": 99}], ["", "a", "", ""]),
    "a node that cooled down can run hot again": ({}, [HOT, {"a": 84}, HOT], ["a", "", "a"]),
    "a hot node has to fall below where it clears": (
        {"clear_below": 70},
        [HOT, {"a": 70}, HOT, {"a": 69.9}, {"a": 84}, HOT],
        ["a", "", "", "", "", "a"],
    ),
    "another node has a spike of its own": (
        {},
        [{"a": 90, "b": 5}, BOTH, {"a": 5, "b": 90}, BOTH],
        ["a", "b", "", "a"],
    ),
    "nodes that run hot together are told together the hottest first": ({}, [BOTH], ["b a"]),
    "a figure that is unknown clears nothing": ({}, [HOT, {"a": None}, HOT], ["a", "", ""]),
    "a node that is not in the reading clears nothing": ({}, [HOT, {"b": 5}, HOT], ["a", "", ""]),
    "a reading that failed clears nothing": ({}, [HOT, None, HOT], ["a", "", ""]),
    "a streak goes on while another spike is told": (
        {"sustained_for": 20},
        [{"a": 90, "b": 5}, *[BOTH] * 4],
        ["", "", "a", "b", ""],
    ),
    "a streak after a spike has to be long enough again": (
        {"sustained_for": 20},
        [*[HOT] * 3, COOL, *[HOT] * 3],
        ["", "", "a", "", "", "", "a"],
    ),
    "a failed reading breaks no streak": ({"sustained_for": 20}, [HOT, None, HOT], ["", "", "a"]),
    "and makes none": ({"sustained_for": 20}, [HOT, None, None, HOT], ["", "", "", ""]),
    "all nodes have a spike together however long it lasts": (
        {"require": "all", "sustained_for": 20},
        [*[BOTH] * 8],
        ["", "", "b a", *[""] * 5],
    ),
    "a spike of all nodes is over when one of them cools down": (
        {"require": "all", "clear_below": 50},
        [{"a": 90, "b": 5}, BOTH, {"a": 60, "b": 60}, BOTH, {"a": None}, BOTH, {"a": 49}, BOTH],
        ["", "b a", "", "", "", "", "", "b a"],
    ),
}


@pytest.mark.parametrize(("watch", "readings", "names"), SPIKES.values(), ids=SPIKES.keys())
def test_spikes_are_told_once(watch: dict[str, Any], readings: list[Any], names: list[str]) -> None:
    assert told(watching(**watch), *readings) == names


@pytest.mark.parametrize("sustained_for", [0, 10])
def test_a_spike_of_thousands_of_nodes_is_told_once(sustained_for: float) -> None:
    hysteresis = watching(sustained_for=sustained_for)
    hot = stats(**{f"node-{number}": 95.0 for number in range(2500)})
    found = [len(hysteresis.add(hot, 10.0 * reading)) for reading in range(5)]
    assert sorted(found) == [0, 0, 0, 0, 2500]


def test_hot_node_says_when_the_next_reading_is_due() -> None:
    hysteresis = watching(sustained_for=20, reading_interval=15)
    told(hysteresis, HOT)
    assert hysteresis.running
    assert hysteresis.pause(0.0) == 15
    told(hysteresis, COOL)
    assert not hysteresis.running


class TestRestart:
    @pytest.mark.parametrize("require", ["any", "all"])
    def test_node_that_was_hot_is_not_told_again(self, require: Any) -> None:
        before, after = watching(require=require), watching(require=require)
        told(before, {"a": 90})
        assert after.restore(json.loads(json.dumps(before.to_dict())))
        assert after.hot == before.hot
        assert told(after, {"a": 90}, {"a": 5}, {"a": 90}) == ["", "", "a"]

    @pytest.mark.parametrize(
        "stored",
        [
            None,
            "hot",
            [],
            {},
            {"version": 2, "hot": ["id_a"]},
            {"version": 1},
            {"version": 1, "hot": "id_a"},
            {"version": 1, "hot": [1]},
            {"version": 1, "hot": [["id_a"]]},
            {"version": 1, "hot": None},
        ],
    )
    def test_stored_state_that_is_not_understood_changes_nothing(self, stored: object) -> None:
        hysteresis = watching()
        assert not hysteresis.restore(stored)
        assert told(hysteresis, {"a": 90}) == ["a"]

    def test_nodes_that_never_come_back_do_not_pile_up(self) -> None:
        hysteresis = watching()
        for number in range(1100):
            hysteresis.add(stats(**{f"n{number}": 90.0}), float(number))
        assert len(hysteresis.hot) == 1000
        assert hysteresis.hot[-1] == "id_n1099"


def test_the_state_that_is_kept_is_bounded() -> None:
    hysteresis = watching()
    hysteresis.add(stats(**{f"node-{number}": 95.0 for number in range(2500)}), 0.0)
    kept = hysteresis.to_dict()["hot"]
    assert kept == list(hysteresis.hot[-1000:])
    again = watching()
    assert again.restore({"version": 1, "hot": list(hysteresis.hot)})
    assert list(again.hot) == kept


@pytest.mark.parametrize("clear_below", [0, -1, 85.1, float("nan")])
def test_where_it_clears_lies_below_the_threshold(clear_below: float) -> None:
    with pytest.raises(ValueError, match=r"^clear_below is a percentage above 0 and up to the threshold \(85\)"):
        watching(clear_below=clear_below)
