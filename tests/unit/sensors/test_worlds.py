"""
Every form of every wait in the same worlds: the verdicts and the lines of the log are the same.

The rules are those of ``airflow_provider_mediaops.waiting.lets_wait`` and of ``docs/guides/waiting.md``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import AuthenticationError, TemporaryError
from airflow_provider_mediaops.hooks.base import ServiceHook
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.sensors.video import SubscriptionSensor
from airflow_provider_mediaops.task_failure import PERMANENT
from airflow_provider_mediaops.triggers.base import value_of
from airflow_provider_mediaops.triggers.books import BookTrigger
from airflow_provider_mediaops.triggers.cluster import CaptureHotThreadsTrigger, CpuSensorTrigger, HighCpuTrigger
from airflow_provider_mediaops.triggers.video import SubscriptionTrigger
from airflow_provider_mediaops.version_compat import AirflowSensorTimeout, AirflowSkipException
from tests.airflow_names import AirflowRescheduleException, TaskDeferred
from tests.memory_rates import forget_rates
from tests.unit.log_lines import log_lines
from tests.unit.permanent import permanent
from tests.unit.sensor_forms import first_event, made_again
from tests.unit.sensors.worlds import Script, State, World, living_in

if TYPE_CHECKING:
    from tests.unit.conftest import Supervisor

LIMIT = 600
FORMS = ("poke", "reschedule", "deferrable")
SENSORS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "video": (SubscriptionSensor, SubscriptionTrigger, {"mine": True}),
    "books": (BookSensor, BookTrigger, {"isbn": "0-14-044913-2"}),
    "cluster": (ClusterCpuSensor, CpuSensorTrigger, {"nodes": "node-1"}),
}
COOL, HOT, GONE, DOWN, BUSY = State.COOL, State.HOT, State.GONE, State.DOWN, State.BUSY
DENIED, GARBAGE, SILENT, BUG = State.DENIED, State.GARBAGE, State.SILENT, State.BUG

#: The worlds, and how each wait ends in them.
WORLDS: dict[str, tuple[Script, str]] = {
    "hot at once": (((0, HOT),), "done"),
    "hot later": (((0, COOL), (25, HOT)), "done"),
    "never hot": (((0, COOL),), "timeout"),
    "down for a while": (((0, DOWN), (95, HOT)), "done"),
    "down in between": (((0, COOL), (15, DOWN), (45, COOL), (75, HOT)), "done"),
    "down for ever": (((0, DOWN),), "timeout"),
    "busy for a while": (((0, BUSY), (5, HOT)), "done"),
    "silent for a while": (((0, COOL), (5, SILENT), (25, HOT)), "done"),
    "denied at once": (((0, DENIED), (25, HOT)), "AuthenticationError"),
    "denied later": (((0, COOL), (15, DENIED), (45, HOT)), "AuthenticationError"),
    "denied after a failure": (((0, DOWN), (5, DENIED)), "AuthenticationError"),
    "garbage later": (((0, COOL), (15, GARBAGE), (45, HOT)), "InvalidReplyError"),
    "an error of ours at once": (((0, BUG), (25, HOT)), "retried"),
    "an error of ours later": (((0, COOL), (15, BUG), (45, HOT)), "retried"),
}
#: Nodes that have answered exist, so they are waited for; nothing else comes back.
GONE_WORLDS: dict[str, tuple[Script, dict[str, str]]] = {
    "gone at once": (((0, GONE), (25, HOT)), {"cluster": "NotFoundError", "video": "NotFoundError"}),
    "gone in between": (((0, COOL), (15, GONE), (45, HOT)), {"cluster": "done", "video": "NotFoundError"}),
}
#: With silent_fail, and in the trigger that starts DAGs, nothing ends a wait but the condition.
SILENT_WORLDS: dict[str, Script] = {
    "denied at first": ((0, DENIED), (25, HOT)),
    "denied in between": ((0, COOL), (15, DENIED), (45, HOT)),
    "gone at first": ((0, GONE), (25, HOT)),
    "garbage in between": ((0, COOL), (15, GARBAGE), (45, HOT)),
    "an error of ours in between": ((0, COOL), (15, BUG), (45, HOT)),
}


def verdict_of(run: Callable[[], Any]) -> str:
    """Run a task; give what becomes of it."""
    try:
        run()
    except AirflowSensorTimeout:
        return "timeout"
    except Exception as error:  # noqa: BLE001 all of them are verdicts
        # Below 3.3, Airflow's own exception fails a task for good.
        told = error.__cause__ if type(error).__name__ == "AirflowFailException" else error
        return type(told).__name__ if isinstance(told, PERMANENT) else "retried"
    return "done"


def in_form(make: Callable[..., Any], world: World, form: str) -> Any:
    """Run a sensor to its end as Airflow does, each part in a process of its own."""
    if form == "deferrable":
        try:
            return make(deferrable=True).execute({"ti": world})
        except TaskDeferred as deferred:
            return resumed(make, world, deferred)
    while True:
        try:
            return make(mode=form).execute({"ti": world})
        except AirflowRescheduleException as later:
            world.sleep(later.reschedule_date.timestamp() - world.monotonic())


def resumed(make: Callable[..., Any], world: World, deferred: TaskDeferred) -> Any:
    """Run the trigger of a deferred task, and resume the task."""
    trigger = made_again(deferred.trigger)
    # Without Airflow's own limit of a deferral, which is the backstop: dag.test() has none either.
    payload = world.on_a_loop(asyncio.wait_for(first_event(trigger), 2 * LIMIT + 3600))
    return make(deferrable=True).resume_execution(deferred.method_name, {"event": payload}, {"ti": world})


def waits_of(lines: list[str]) -> list[str]:
    """
    Give the lines about the wait.

    A part of a wait in a process of its own logs the state anew, with the pause of then: a state counts once.
    """
    about = [line for line in lines if re.match(r"\w+: (Waiting: |Trying again |Only some )", line)]
    # The rest of such a line is a traceback, which differs.
    about = [re.sub(r" in \d+ s", "", line.partition("unexpected error:\n")[0]) for line in about]
    return [line for line, _ in groupby(about)]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the lines of the log of all that waits, in one list."""
    kinds = [kind for sensor, trigger, _ in SENSORS.values() for kind in (sensor, trigger)]
    every = log_lines(monkeypatch, HighCpuTrigger)
    for kind in (*kinds, CaptureHotThreadsOperator, CaptureHotThreadsTrigger):
        monkeypatch.setattr(kind, "log", HighCpuTrigger.log, raising=False)
    return every


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor, lines: list[str]) -> Any:
    """Give what runs a wait in a world: the verdict, when the readings were made, and the lines of the log."""

    def run(
        service: str, script: Script, wait: Callable[[World], Any], max_attempts: int = 1
    ) -> tuple[str, list[float], list[str]]:
        lines.clear()
        # The limit of a key lasts into the next run.
        forget_rates()
        with living_in(World(service, script, max_attempts), monkeypatch, supervisor) as world:
            verdict = verdict_of(lambda: wait(world))
            return verdict, world.readings, list(lines)

    return run


def sensor(service: str, **arguments: Any) -> Callable[..., Any]:
    kind, _, own = SENSORS[service]

    def make(**form: Any) -> Any:
        return kind(task_id="wait", **{"poke_interval": 10, "timeout": LIMIT, **own, **arguments, **form})

    return make


def compared(live: Any, service: str, script: Script, verdict: str, **arguments: Any) -> None:
    """Run a sensor in all its forms, and compare."""
    make = sensor(service, **arguments)
    found = {form: live(service, script, lambda world, form=form: in_form(make, world, form)) for form in FORMS}
    assert {form: seen[0] for form, seen in found.items()} == dict.fromkeys(FORMS, verdict)
    expected = waits_of(found["poke"][2])
    assert {form: waits_of(seen[2]) for form, seen in found.items()} == dict.fromkeys(FORMS, expected)
    assert {form: seen[1] for form, seen in found.items()} == dict.fromkeys(
        FORMS, pytest.approx(found["poke"][1], abs=1)
    )


@pytest.mark.parametrize("service", SENSORS)
@pytest.mark.parametrize("world", WORLDS)
def test_a_sensor_decides_the_same_in_every_form(live: Any, service: str, world: str) -> None:
    script, verdict = WORLDS[world]
    compared(live, service, script, verdict)


@pytest.mark.parametrize("service", ["cluster", "video"])
@pytest.mark.parametrize("world", GONE_WORLDS)
def test_only_nodes_that_have_answered_may_come_back(live: Any, service: str, world: str) -> None:
    script, verdicts = GONE_WORLDS[world]
    compared(live, service, script, verdicts[service])


@pytest.mark.parametrize(("form", "verdict"), [*zip(FORMS, ("NotFoundError", "done", "NotFoundError"), strict=True)])
def test_a_rescheduled_poke_takes_an_earlier_one_for_an_answer(live: Any, form: str, verdict: str) -> None:
    """The one verdict that differs: Airflow keeps nothing between pokes but when the first one was."""
    script = ((0, DOWN), (5, GONE), (45, HOT))
    assert live("cluster", script, lambda world: in_form(sensor("cluster"), world, form))[0] == verdict


GROWING: dict[str, Any] = {"timeout": 3600, "exponential_backoff": True}
DOUBLED: list[float] = [0, 60, 180, 420, 900, 1860, 3600]
#: The world, the arguments of the wait, and when the readings come: the last one at the time limit.
PACES: dict[str, tuple[Script, dict[str, Any], list[float]]] = {
    "a limit between readings": (((0, COOL),), {"timeout": 100}, [0, 60, 100]),
    "a limit at a reading": (((0, COOL),), {"timeout": 60}, [0, 60]),
    "no time at all": (((0, COOL),), {"timeout": 0}, [0]),
    "bounded pauses": (((0, COOL),), {**GROWING, "timeout": 700, "max_wait": 200}, [0, 60, 180, 380, 580, 700]),
    "growing pauses": (((0, COOL),), GROWING, DOUBLED),
    "growing pauses, hot at the last moment": (((0, COOL), (3590, HOT)), GROWING, DOUBLED),
    "growing pauses, down in between": (((0, COOL), (100, DOWN), (500, COOL)), GROWING, DOUBLED),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("service", SENSORS)
@pytest.mark.parametrize("pace", PACES)
def test_readings_come_at_the_same_times_in_every_form(live: Any, service: str, pace: str, form: str) -> None:
    script, arguments, times = PACES[pace]
    make = sensor(service, poke_interval=60, **arguments)
    verdict, readings, _ = live(service, script, lambda at: in_form(make, at, form))
    assert verdict == ("done" if HOT in dict(script).values() else "timeout")
    assert readings == pytest.approx(times, abs=1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("service", SENSORS)
def test_retries_within_readings_have_no_lines_of_their_own_in_any_form(
    live: Any, monkeypatch: pytest.MonkeyPatch, service: str, form: str
) -> None:
    retries = log_lines(monkeypatch, ServiceHook)
    verdict, readings, lines = live(
        service, ((0, BUSY), (160, HOT)), lambda at: in_form(sensor(service), at, form), max_attempts=3
    )
    assert (verdict, readings) == ("done", [0, 50, 100, 150, 200])
    assert len(waits_of(lines)) == 1
    assert [line for line in retries if ", try " in line] == []


# The key of the book database has a rate: there the last reading waits for its turn.
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("service", ["cluster", "video"])
def test_a_service_that_asks_for_a_pause_beyond_the_time_limit_ends_the_wait_in_every_form(
    live: Any, service: str, form: str
) -> None:
    make = sensor(service, poke_interval=60, timeout=100)
    verdict, readings, _ = live(service, ((0, COOL), (50, BUSY)), lambda at: in_form(make, at, form))
    assert verdict == "timeout"
    assert readings == [0, 60, 100]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("service", SENSORS)
@pytest.mark.parametrize(
    ("flag", "outcomes"),
    [
        # An error of ours reaches a deferred task as a temporary one.
        ("soft_fail", (AirflowSkipException, permanent(AuthenticationError), (TypeError, TemporaryError))),
        ("never_fail", (AirflowSkipException, AirflowSkipException, AirflowSkipException)),
    ],
)
def test_flags_decide_the_same_in_every_form(
    live: Any, service: str, form: str, flag: str, outcomes: tuple[Any, ...]
) -> None:
    make = sensor(service, **{flag: True})
    # The log has the error even if the task is skipped.
    worlds: list[tuple[State, str]] = [
        (COOL, ""),
        (DENIED, "ERROR: AuthenticationError: "),
        (BUG, "ERROR: The sensor is skipped because of never_fail." if flag == "never_fail" else ""),
    ]

    def end(at: World, outcome: type[Exception]) -> None:
        with pytest.raises(outcome):
            in_form(make, at, form)

    for (state, told), outcome in zip(worlds, outcomes, strict=True):
        # Another exception would be a verdict of its own.
        verdict, _, lines = live(service, ((0, COOL), (15, state)), partial(end, outcome=outcome))
        assert verdict == "done"
        assert sum(line.startswith(told) for line in lines if told) == bool(told)


# A book that is not found is what its sensor waits for.
@pytest.mark.parametrize(
    ("service", "world"),
    [
        (service, world)
        for service in SENSORS
        for world in SILENT_WORLDS
        if (service, world) != ("books", "gone at first")
    ],
)
def test_with_silent_fail_every_error_is_waited_out(live: Any, service: str, world: str) -> None:
    compared(live, service, SILENT_WORLDS[world], "done", silent_fail=True)


STREAKS: dict[str, tuple[Script, str]] = {
    "long enough": (((0, COOL), (15, HOT)), "done"),
    "too short": (((0, COOL), (15, HOT), (35, COOL)), "timeout"),
    "with a failure in it": (((0, HOT), (5, DOWN), (15, HOT)), "done"),
    "with the cluster away for longer": (((0, HOT), (5, DOWN), (55, COOL)), "timeout"),
    "with the nodes away": (((0, HOT), (5, GONE), (15, HOT)), "done"),
    "with wrong credentials": (((0, HOT), (5, DENIED), (15, HOT)), "AuthenticationError"),
    "with an error of ours": (((0, HOT), (5, BUG), (15, HOT)), "retried"),
}


@pytest.mark.parametrize("world", STREAKS)
def test_a_streak_counts_the_same_in_every_form(live: Any, world: str) -> None:
    script, verdict = STREAKS[world]
    compared(live, "cluster", script, verdict, sustained_for=25)


def capture(destination: Path, **arguments: Any) -> CaptureHotThreadsOperator:
    return CaptureHotThreadsOperator(
        task_id="capture",
        destination=str(destination),
        nodes="node-1",
        when_cpu_above=85,
        poll_interval=10,
        wait_timeout=LIMIT,
        on_timeout="fail",
        **arguments,
    )


def test_captures_that_wait_in_one_triggerer_share_the_readings(live: Any, tmp_path: Path) -> None:
    def captured(world: World) -> None:
        context: Any = {"ti": world}
        triggers = []
        for number in range(20):
            with pytest.raises(TaskDeferred) as deferred:
                capture(tmp_path / f"{number}.txt", deferrable=True).execute(context)
            triggers.append(made_again(deferred.value.trigger))

        async def together() -> list[Any]:
            return await asyncio.gather(*map(first_event, triggers))

        assert all(len(value_of(event)["captures"]) == 1 for event in world.on_a_loop(together()))
        asked = [path.rpartition("/")[2] for _, path in world.asked]
        assert (asked.count("os,process"), asked.count("hot_threads")) == (4, 20)

    assert live("cluster", ((0, COOL), (25, HOT)), captured)[0] == "done"


@pytest.mark.parametrize("deferrable", [False, True], ids=["worker", "triggerer"])
@pytest.mark.parametrize("world", [*WORLDS, *GONE_WORLDS, *STREAKS])
def test_a_capture_decides_as_the_sensor_does(
    live: Any,
    world: str,
    tmp_path: Path,
    deferrable: bool,  # noqa: FBT001 given by pytest
) -> None:
    if world in STREAKS:
        script, verdict = STREAKS[world]
    else:
        script, verdict = WORLDS.get(world) or (GONE_WORLDS[world][0], GONE_WORLDS[world][1]["cluster"])
    sustained_for = 25 if world in STREAKS else 0
    make = partial(capture, tmp_path / "hot.txt", sustained_for=sustained_for)

    def captured(world: World) -> Any:
        try:
            context: Any = {"ti": world}
            return make(deferrable=deferrable).execute(context)
        except TaskDeferred as deferred:
            return resumed(make, world, deferred)

    watched = sensor("cluster", sustained_for=sustained_for)
    expected = live("cluster", script, lambda world: in_form(watched, world, "poke"))
    found = live("cluster", script, captured)
    assert expected[0] == verdict
    # A sensor's timeout is Airflow's; a capture that knows nothing of the CPU does not say that there was no spike.
    assert found[0] == ("retried" if world == "down for ever" else verdict)
    assert waits_of(found[2]) == waits_of(expected[2])
    assert found[1] == pytest.approx(expected[1], abs=1)


@pytest.mark.parametrize("world", [*WORLDS, *SILENT_WORLDS])
def test_the_trigger_that_starts_dags_decides_as_a_sensor_that_fails_silently(live: Any, world: str) -> None:
    script = SILENT_WORLDS.get(world) or WORLDS[world][0]

    def watched(world: World) -> Any:
        trigger = made_again(
            HighCpuTrigger(
                cluster_conn_id="mediaops_cluster_default", nodes="node-1", sustained_for=0, poll_interval=10
            )
        )
        try:
            return world.on_a_loop(asyncio.wait_for(first_event(trigger), LIMIT))
        except asyncio.TimeoutError:
            raise AirflowSensorTimeout from None

    silent = sensor("cluster", silent_fail=True)
    expected = live("cluster", script, lambda world: in_form(silent, world, "poke"))
    found = live("cluster", script, watched)
    assert found[0] == expected[0]
    assert waits_of(found[2]) == waits_of(expected[2])
    # It has no time limit, and so no last reading at it; the test may end before or after one that is due then.
    within = [[at for at in times if at < LIMIT or found[0] == "done"] for times in (found[1], expected[1])]
    assert within[0] == pytest.approx(within[1], abs=1)
