"""What every sensor promises, in each of its forms; shown with the one that waits for hot nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.cpu import CpuWatch
from airflow_provider_mediaops.exceptions import (
    InvalidArgumentError,
)
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.version_compat import (
    HAS_RETRY_POLICY,
    AirflowFailException,
    AirflowSkipException,
)
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering
from tests.unit.search_cluster import connection, error, http, replied, stats
from tests.unit.sensor_forms import FORMS, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor
    from tests.unit.sensors.conftest import StartService

HOT, COOL = replied(stats({"node-1": 95})), replied(stats({"node-1": 5}))
UNAUTHORIZED = replied(error(401, "security_exception", "unable to authenticate"), 401)

every_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture
def cluster(supervisor: Supervisor, start_service: StartService) -> Callable[..., list[bytes]]:
    """Start the cluster of the default connection, which gives these answers in turn and the last for ever."""

    def start(*answers: Response) -> list[bytes]:
        base, seen = start_service(*map(http, answers))
        supervisor.connect("mediaops_cluster_default", connection(base))
        return seen

    return start


def sensor(**arguments: Any) -> Any:
    """Give what makes a sensor of the form's arguments."""

    def make(**form: Any) -> ClusterCpuSensor:
        return ClusterCpuSensor(task_id="watch", **{"poke_interval": 0.01, "timeout": 240, **arguments, **form})

    return make


@every_form
class TestEveryForm:
    def test_a_skip_because_of_wrong_credentials_is_told_in_the_log(
        self, cluster: Any, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, ClusterCpuSensor)
        cluster(UNAUTHORIZED)
        with pytest.raises(AirflowSkipException):
            run(sensor(never_fail=True), form)
        errors = [line for line in lines if line.startswith("ERROR: AuthenticationError")]
        assert len(errors) == 1
        assert "unable to authenticate" in errors[0]

    def test_an_error_of_this_package_skips_the_task_that_never_fails_with_its_traceback_in_the_log(
        self, cluster: Any, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def slip(*_: object) -> None:
            raise KeyError("a slip")

        cluster(COOL, HOT)
        monkeypatch.setattr(CpuWatch, "seen", slip)
        lines = log_lines(monkeypatch, ClusterCpuSensor)
        with pytest.raises(AirflowSkipException, match="never_fail"):
            run(sensor(never_fail=True), form)
        assert any(line.startswith("ERROR: The sensor is skipped because of never_fail") for line in lines)

    @pytest.mark.parametrize(
        "wrong", [{"threshold": "{{ 850 }}"}, {"nodes": "{{ nothing }}"}, {"cluster_conn_id": "{{ blank }}"}]
    )
    @pytest.mark.parametrize("flag", [{}, {"silent_fail": True}])
    def test_arguments_that_are_wrong_when_rendered_fail_it_at_once(
        self, cluster: Any, form: str, wrong: dict[str, str], flag: dict[str, bool]
    ) -> None:
        seen = cluster(HOT)

        def rendered(**more: Any) -> ClusterCpuSensor:
            task: ClusterCpuSensor = sensor(timeout=0.3, **wrong, **flag)(**more)
            task.threshold = 850 if "threshold" in wrong else task.threshold
            task.nodes = "" if "nodes" in wrong else task.nodes
            task.cluster_conn_id = " " if "cluster_conn_id" in wrong else task.cluster_conn_id
            return task

        with pytest.raises(InvalidArgumentError if HAS_RETRY_POLICY else AirflowFailException):
            run(rendered, form)
        assert not seen


class TestInTheWorker:
    def test_one_connection_serves_all_looks(self, supervisor: Supervisor) -> None:
        with Loopback(answering(*map(http, (COOL, COOL, COOL, HOT)))) as server:
            supervisor.connect("mediaops_cluster_default", connection(server.base))
            run(sensor(), "poke")
            assert server.accepted == 1


class TestAfterTheTriggerer:
    @pytest.mark.parametrize("flag", [{}, {"soft_fail": True}])
    def test_a_trigger_that_broke_fails_the_task(self, flag: dict[str, bool]) -> None:
        from airflow.sdk.exceptions import AirflowException

        with pytest.raises(AirflowException, match="Trigger failure") as caught:
            sensor(**flag)(deferrable=True).resume_execution("__fail__", {"error": "Trigger failure"}, {})
        assert not isinstance(caught.value, AirflowSkipException)

    def test_a_trigger_that_broke_skips_the_task_that_never_fails(self) -> None:
        with pytest.raises(AirflowSkipException, match="Trigger failure"):
            sensor(never_fail=True)(deferrable=True).resume_execution("__fail__", {"error": "Trigger failure"}, {})
