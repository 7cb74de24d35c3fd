"""Each spike told once, until it is over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.cpu import CpuWatch, Hysteresis
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


class TestAny:
    def test_a_spike_is_told_once(self) -> None:
        assert told(watching(), {"a": 5}, {"a": 90}, {"a": 95}, {"a": 99}) == ["", "a", "", ""]

    def test_a_node_that_cooled_down_can_run_hot_again(self) -> None:
        assert told(watching(), {"a": 90}, {"a": 84}, {"a": 90}) == ["a", "", "a"]

    def test_hot_node_has_to_fall_below_where_it_clears(self) -> None:
        readings = [{"a": cpu} for cpu in (90, 70, 90, 69.9, 84, 90)]
        assert told(watching(clear_below=70), *readings) == ["a", "", "", "", "", "a"]

    def test_another_node_has_a_spike_of_its_own(self) -> None:
        hysteresis = watching()
        assert told(hysteresis, {"a": 90, "b": 5}, {"a": 90, "b": 90}, {"a": 5, "b": 90}, {"a": 90, "b": 90}) == [
            "a",
            "b",
            "",
            "a",
        ]
        assert hysteresis.hot == ("id_b", "id_a")

    def test_nodes_that_run_hot_together_are_told_together_the_hottest_first(self) -> None:
        assert told(watching(), {"a": 90, "b": 95}) == ["b a"]

    @pytest.mark.parametrize("unknown", [{"a": None}, {}, {"b": 5}, None])
    def test_unknown_cpu_clears_nothing(self, unknown: dict[str, float | None] | None) -> None:
        assert told(watching(), {"a": 90}, unknown, {"a": 90}) == ["a", "", ""]

    def test_a_streak_goes_on_while_another_spike_is_told(self) -> None:
        both = {"a": 90.0, "b": 90.0}
        hysteresis = watching(sustained_for=20)
        assert told(hysteresis, {"a": 90, "b": 5}, both, both, both, both) == ["", "", "a", "b", ""]

    def test_a_streak_after_a_spike_has_to_be_long_enough_again(self) -> None:
        hot, cool = {"a": 90.0}, {"a": 5.0}
        assert told(watching(sustained_for=20), hot, hot, hot, cool, hot, hot, hot) == ["", "", "a", "", "", "", "a"]

    def test_a_failed_reading_breaks_no_streak_and_makes_none(self) -> None:
        hot = {"a": 90.0}
        assert told(watching(sustained_for=20), hot, None, hot) == ["", "", "a"]
        assert told(watching(sustained_for=20), hot, None, None, hot) == ["", "", "", ""]

    @pytest.mark.parametrize("sustained_for", [0, 10])
    def test_a_spike_of_thousands_of_nodes_is_told_once(self, sustained_for: float) -> None:
        hysteresis = watching(sustained_for=sustained_for)
        hot = stats(**{f"node-{number}": 95.0 for number in range(2500)})
        found = [len(hysteresis.add(hot, 10.0 * reading)) for reading in range(5)]
        assert sorted(found) == [0, 0, 0, 0, 2500]

    def test_hot_node_says_when_the_next_reading_is_due(self) -> None:
        hysteresis = watching(sustained_for=20, reading_interval=15)
        told(hysteresis, {"a": 90})
        assert hysteresis.running
        assert hysteresis.pause(0.0) == 15
        told(hysteresis, {"a": 5})
        assert not hysteresis.running


class TestAll:
    def test_the_nodes_have_a_spike_together(self) -> None:
        both, one = {"a": 90.0, "b": 95.0}, {"a": 90.0, "b": 5.0}
        assert told(watching(require="all"), one, both, both, one, both) == ["", "b a", "", "", "b a"]

    def test_spike_of_all_nodes_is_over_when_one_of_them_cools_down(self) -> None:
        hysteresis = watching(require="all", clear_below=50)
        both = {"a": 90.0, "b": 95.0}
        assert told(hysteresis, both, {"a": 60, "b": 60}, both, {"a": None}, both, {"a": 49}, both) == [
            "b a",
            "",
            "",
            "",
            "",
            "",
            "b a",
        ]

    def test_a_spike_is_told_once_however_long_it_lasts(self) -> None:
        both = {"a": 90.0, "b": 95.0}
        assert told(watching(require="all", sustained_for=20), *[both] * 8) == ["", "", "b a", *[""] * 5]


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
