"""The sensor of hot nodes: its arguments, what it returns, and what becomes of it when its trigger broke."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.triggers.cluster import CpuSensorTrigger
from airflow_provider_mediaops.version_compat import AirflowSensorTimeout, AirflowSkipException
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering
from tests.unit.permanent import permanent
from tests.unit.search_cluster import connection, error, http, node_id, replied, stats
from tests.unit.sensor_forms import FORMS, run

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor

HOT, COOL = replied(stats({"node-1": 95, "node-2": 90})), replied(stats({"node-1": 5, "node-2": 5}))
SILENT = replied(stats({"node-1": None}))
DOWN = replied(error(503, "master_not_discovered_exception", "no master"), 503)


def wait(supervisor: Supervisor, form: str, *answers: Response, **arguments: Any) -> Any:
    """Run the sensor at a cluster that gives these answers, the last for ever."""
    with Loopback(answering(*map(http, answers))) as server:
        supervisor.connect("mediaops_cluster_default", connection(server.base))

        def make(**form: Any) -> ClusterCpuSensor:
            return ClusterCpuSensor(task_id="watch", poke_interval=0.01, **{"timeout": 20, **arguments}, **form)

        found = run(make, form)
        # One session serves all looks of a process.
        assert server.accepted == 1 or form != "poke"
        return found


@pytest.mark.parametrize("form", FORMS)
class TestEveryForm:
    def test_sensor_returns_the_nodes_and_their_cpu(self, supervisor: Supervisor, form: str) -> None:
        found = wait(supervisor, form, COOL, COOL, HOT, threshold=92)
        assert found == [
            {"node_id": node_id("node-1"), "name": "node-1", "host": "node-1.example", "percent": 95.0, "source": "os"}
        ]
        assert json.loads(json.dumps(found)) == found

    @pytest.mark.parametrize(
        ("partly", "warning"),
        [
            (stats({"node-1": 95}, failures=("node-2 timed out",)), "the cluster gave no statistics of 1 node"),
            (stats({"node-1": 95, "node-2": None}), "not known of node-2"),
            (stats({"node-1": 95}), "the cluster knows no node node-2"),
        ],
        ids=["failed", "no figure", "left"],
    )
    def test_one_hot_node_is_not_all_while_nothing_is_known_of_another(
        self, supervisor: Supervisor, form: str, partly: Any, warning: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = [log_lines(monkeypatch, kind) for kind in (ClusterCpuSensor, CpuSensorTrigger)]
        found = wait(supervisor, form, replied(partly), HOT, threshold=85, require="all", nodes="node-1,node-2")
        assert [node["name"] for node in found] == ["node-1", "node-2"]
        (told,) = {line for line in chain(*lines) if line.startswith("WARNING")}
        assert f"Only some of the nodes are watched, so require=all is not met: {warning}" in told

    @pytest.mark.parametrize(
        ("flag", "kind"), [({}, AirflowSensorTimeout), ({"soft_fail": True}, AirflowSkipException)]
    )
    @pytest.mark.parametrize(
        ("answer", "failed"),
        [
            (DOWN, "; no reading worked since .* UTC. The last error: .*no master.*"),
            (SILENT, "; no reading worked since .* UTC. The last error: no node reports its CPU"),
            (COOL, "."),
        ],
        ids=["down", "no figure", "cool"],
    )
    def test_timeout_says_what_no_reading_could_tell(
        self, supervisor: Supervisor, form: str, *, answer: Response, failed: str, flag: Any, kind: Any
    ) -> None:
        with pytest.raises(kind, match=f"found nothing within its timeout of 0.1 s{failed}$"):
            # With sustained_for, the triggerer makes all of the readings.
            wait(supervisor, form, answer, timeout=0.1, sustained_for=0.05, **flag)

    @pytest.mark.parametrize("wrong", [{"threshold": 850}, {"nodes": ""}, {"cluster_conn_id": " "}])
    @pytest.mark.parametrize("flag", [{}, {"silent_fail": True}])
    def test_arguments_that_are_wrong_when_rendered_fail_it_at_once(
        self, form: str, wrong: dict[str, Any], flag: dict[str, Any]
    ) -> None:
        def rendered(**more: Any) -> ClusterCpuSensor:
            arguments: dict[str, Any] = {**dict.fromkeys(wrong, "{{ x }}"), **flag, **more}
            task = ClusterCpuSensor(task_id="watch", poke_interval=0.01, timeout=0.3, **arguments)
            for name, value in wrong.items():
                setattr(task, name, value)
            return task

        # There is no connection, so a request would be another error.
        with pytest.raises(permanent(InvalidArgumentError)):
            run(rendered, form)


def resumed_by_a_trigger_that_broke(**flag: Any) -> Any:
    task = ClusterCpuSensor(task_id="watch", deferrable=True, **flag)
    return task.resume_execution("__fail__", {"error": "Trigger failure"}, {})


@pytest.mark.parametrize("flag", [{}, {"soft_fail": True}])
def test_trigger_that_broke_fails_the_task(flag: dict[str, bool]) -> None:
    with pytest.raises(AirflowException, match="Trigger failure") as caught:
        resumed_by_a_trigger_that_broke(**flag)
    assert not isinstance(caught.value, AirflowSkipException)


def test_trigger_that_broke_skips_the_task_that_never_fails() -> None:
    with pytest.raises(AirflowSkipException, match="Trigger failure"):
        resumed_by_a_trigger_that_broke(never_fail=True)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"threshold": 101}, "threshold"),
        ({"threshold": 0.85, "nodes": "{{ x }}"}, "threshold"),
        ({"deferrable": "perhaps"}, "deferrable"),
        ({"reading_interval": "often"}, "reading_interval"),
        ({"sustained_for": -1}, "sustained_for"),
        ({"sustained_for": timedelta(hours=2), "timeout": 3600}, "sustained_for"),
        ({"sustained_for": 60, "timeout": 60}, "sustained_for"),
        ({"nodes": []}, "nodes"),
        ({"require": "most"}, "require"),
    ],
)
def test_wait_that_can_never_end_well_is_refused_when_the_dag_is_parsed(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word} "):
        ClusterCpuSensor(task_id="watch", **arguments)


def test_templates_are_rendered_to_what_they_mean() -> None:
    texts: dict[str, Any] = {
        "threshold": "{{ '90' }}",
        "sustained_for": "{{ 2 * 60 }}",
        "reading_interval": "{{ 5 }}",
        "nodes": "{{ 'a,b' }}",
    }
    wait = ClusterCpuSensor(task_id="watch", **texts)
    wait.render_template_fields({})
    values: dict[str, Any] = {"threshold": 90, "sustained_for": 120, "reading_interval": 5, "nodes": ["a", "b"]}
    assert wait.make_watch() == ClusterCpuSensor(task_id="t", **values).make_watch()
