"""Every argument of operators, sensors and notifiers: templated or not for a reason, read or refused in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, ObjectStoragePath

from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError
from airflow_provider_mediaops.hooks.base import ServiceHook
from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier, PostBulletinNotifier
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from airflow_provider_mediaops.sensors.base import ServiceSensor
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
from airflow_provider_mediaops.version_compat import AirflowFailException
from tests.contract.tasks import OUTPUT, TASKS

#: The arguments that Airflow does not render, and why.
NOT_TEMPLATED = {
    "deferrable": "Airflow decides before the task runs whether a triggerer is needed",
    "context": "Airflow passes it",
}


@dataclass(frozen=True)
class Kind:
    """A class with arguments, and one valid set of them."""

    cls: Any
    arguments: Mapping[str, Any]
    #: An argument, and the other one whose place it takes.
    instead: tuple[str, str] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the arguments that are this provider's own."""
        parameters = dict(inspect.signature(self.cls).parameters)
        if issubclass(self.cls, ServiceSensor):
            parameters["deferrable"] = inspect.signature(ServiceSensor).parameters["deferrable"]
        return [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]

    @property
    def fields(self) -> set[str]:
        """The arguments that become template fields."""
        return set(self.cls.template_fields)

    def make(self, **given: Any) -> Any:
        arguments = {**self.arguments, **given}
        if self.instead and self.instead[0] in given:
            del arguments[self.instead[1]]
        if hasattr(self.cls, "task_type"):
            arguments["task_id"] = "_".join(["task", *given])
        return self.cls(**arguments)


# One of them alone is refused.
KEPT_IN_A_JOURNAL = {"journal": f"{OUTPUT}/bulletins", "once_per": "2026-11-23"}
KINDS = [
    *(Kind(task.kind, task.arguments, task.instead) for task in TASKS if task.kind is not PostBulletinOperator),
    Kind(PostBulletinOperator, {"text": "New in the catalogue", **KEPT_IN_A_JOURNAL}),
    Kind(CaptureHotThreadsNotifier, {"destination": f"{OUTPUT}/failure.txt"}),
    Kind(PostBulletinNotifier, {"text": "It failed", **KEPT_IN_A_JOURNAL}),
]
TEMPLATED = [(kind, name) for kind in KINDS for name in sorted(kind.fields)]
TEXTS = [
    "",
    " ",
    "None",
    "maybe",
    "True",
    "5",
    "0.85",
    "1e400",
    "a,,b",
    "['a']",
    "\0",
    "9" * 5000,
    "/",
    "://",
    "no://x.txt",
]
VALUES: list[Any] = [None, True, 0, -1, 0.85, 1e300, float("nan"), 10**400, [], [1], ["a", None], ["a", ["b"]], ("a",)]
VALUES += [{}, {"a": 1}, {"a", "b"}, b"a", object(), timedelta(seconds=5), timedelta.max, datetime.now(timezone.utc)]
VALUES += [Path("a.txt"), ObjectStoragePath("memory://a/b.jsonl"), [Path("a")]]


def name_of(value: Any) -> str:
    return value.cls.__name__ if isinstance(value, Kind) else str(value)


class ReachedTheServiceError(Exception):
    """The arguments have been read, and the connection is asked for."""


def refused_in_words(error: Exception) -> bool:
    """Return whether an error is one that the provider raises on purpose."""
    return type(error) is not ValueError and len(str(error)) > 20


def run(made: Any) -> None:
    """Let it do its work; without a service, which it may or may not come to ask for."""
    try:
        made.execute({}) if hasattr(made, "execute") else made.notify({})
    except ReachedTheServiceError:
        return
    except (MediaOpsError, ValueError, OSError, AirflowFailException) as error:
        if not refused_in_words(error):
            raise


@pytest.fixture(autouse=True)
def _no_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(conn_id: object) -> None:
        assert isinstance(conn_id, str)
        assert conn_id.strip()
        raise ReachedTheServiceError

    monkeypatch.setattr(ServiceHook, "get_connection", staticmethod(refuse))
    # Some of the texts are relative paths.
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_every_argument_is_a_template_field_or_has_a_reason_not_to_be(kind: Kind) -> None:
    assert set(kind.names) - kind.fields <= set(NOT_TEMPLATED)
    assert kind.fields <= set(kind.names)


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_a_callable_is_called_when_the_task_runs(kind: Kind) -> None:
    with DAG("contract", schedule=None):
        made = {name: kind.make(**{name: _from_the_context}) for name in kind.fields}
    for argument, task in made.items():
        task.render_template_fields({"value": f"the {argument}"})
        assert getattr(task, argument) == f"the {argument}"


def _from_the_context(context: Mapping[str, Any], jinja_env: object) -> Any:
    assert jinja_env
    return context["value"]


@pytest.mark.parametrize(("kind", "argument"), TEMPLATED, ids=name_of)
def test_a_rendered_value_is_read_or_refused_in_words(kind: Kind, argument: str) -> None:
    for value in [*TEXTS, *VALUES]:
        made = kind.make(**{argument: "{{ value }}"})
        setattr(made, argument, value)
        run(made)


@pytest.mark.parametrize(("kind", "argument"), TEMPLATED, ids=name_of)
def test_a_value_is_taken_or_refused_in_words_when_the_dag_is_parsed(kind: Kind, argument: str) -> None:
    for value in [*TEXTS, *VALUES]:
        try:
            kind.make(**{argument: value})
        except ValueError as error:
            if not refused_in_words(error):
                raise


SHARES: list[tuple[str, Callable[..., Any]]] = [
    ("when_cpu_above", lambda **given: CaptureHotThreadsOperator(task_id="t", destination="/out/hot.txt", **given)),
    ("threshold", lambda **given: ClusterCpuSensor(task_id="t", **given)),
    ("threshold", lambda **given: HighCpuTrigger(**given).serialize()),
    ("clear_below", lambda **given: HighCpuTrigger(**given).serialize()),
]


@pytest.mark.parametrize(("argument", "make"), SHARES)
def test_a_share_in_the_place_of_a_percentage_is_refused_with_what_was_probably_meant(
    argument: str, make: Callable[..., Any]
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^{argument} is in percent, .* not 0\.7: .* write 70\."):
        make(**{argument: 0.7})


LISTS = [(kind, name) for kind in KINDS for name in sorted(kind.fields & {"nodes", "formats", "ids", "part", "isbns"})]
LISTS += [(kind, name) for kind in KINDS for name in sorted(kind.fields & {"for_channel_ids", "keep_columns"})]


@pytest.mark.parametrize(("kind", "argument"), LISTS, ids=name_of)
def test_the_text_of_a_list_is_refused_with_the_filter_that_joins_it(kind: Kind, argument: str) -> None:
    given: dict[str, Any] = {"mine": False} if argument == "ids" and "mine" in kind.arguments else {}
    given |= {"source": "/in.csv"} if argument == "keep_columns" else {}
    with pytest.raises(InvalidArgumentError, match=r"\| join\(','\)"):
        kind.make(**{argument: "['a', 'b']"}, **given)
