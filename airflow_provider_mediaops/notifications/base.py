"""Base class of the notifiers: it completes the context of a callback, renders the templates, and calls the service."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping
from copy import copy
from functools import partial
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow.sdk import BaseNotifier

from airflow_provider_mediaops.arguments import read_iso_time
from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError
from airflow_provider_mediaops.hooks.threads import in_thread

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import DAG, Context

    from airflow_provider_mediaops.hooks.base import ServiceHook
    from airflow_provider_mediaops.http.exchange import CallFlow

# Of the names of a run's fields that hold a time.
_TIMES = ("_at", "_after", "_date", "_decision", "_end", "_start", "_time")


class ServiceNotifier(BaseNotifier):
    """
    Base class for notifiers that call a service when a task or a run ends.

    It serves the ``on_*_callback`` of tasks and DAGs, and deadline alerts. A failure never fails a task or a run: it is
    logged. One of a deadline alert is raised, so that Airflow logs it and notes it as the state of the callback.

    :param context: the event's context, if Airflow gives it beforehand (deadline alerts).
    """

    #: The class's own arguments, which may be templated.
    own_arguments: ClassVar[tuple[str, ...]]
    #: The hook of the service, as ``module:class``, and the argument with the connection's id.
    hook_class: ClassVar[str]
    conn_id_field: ClassVar[str]

    def __init__(self, *, context: Context | None = None) -> None:
        super().__init__(context)

    @abstractmethod
    def _flow(self, hook: Any, context: Context) -> CallFlow[None]:
        """Return the call flow that calls the service; to read arguments and files is a blocking step of it."""

    def notify(self, context: Context) -> None:
        """Call the service; raise if that fails."""
        with self._make_hook() as hook:
            hook.run(self._flow(hook, context))

    async def async_notify(self, context: Context) -> None:
        """Call the service on the event loop; raise if that fails."""
        # In a thread: it imports the service's modules.
        with await in_thread(self._make_hook) as hook:
            await hook.arun(self._flow(hook, context))

    def _make_hook(self) -> ServiceHook:
        hook: ServiceHook = resolve_name(self.hook_class)(getattr(self, self.conn_id_field))
        return hook

    def __call__(self, *args: Any) -> None:
        """Render the templates and call the service; Airflow calls this with the context."""
        [context] = args
        try:
            event, completed = self._event(context)
            event.notify(completed)
        except Exception as error:
            if "deadline" in context:
                raise
            expected = isinstance(error, (MediaOpsError, ValueError, OSError))
            self.log.error(  # noqa: TRY400 - a traceback helps only if the sentence does not
                "%s failed, and the run goes on: %s: %s",
                type(self).__name__,
                type(error).__name__,
                error,
                exc_info=not expected,
            )

    def __await__(self) -> Generator[Any, Any, None]:
        """Render the templates and call the service on the event loop; Airflow awaits this for a deadline alert."""
        return self._notify_on_loop().__await__()

    async def _notify_on_loop(self) -> None:
        # In a thread: it imports modules, and a template may take long.
        event, context = await in_thread(partial(self._event, self.context))
        await event.async_notify(context)

    def _event(self, given: Context) -> tuple[ServiceNotifier, Context]:
        """Give a notifier whose templates are rendered, and the context: one notifier may serve many tasks."""
        context = _complete(given)
        event = copy(self)
        event.render_template_fields(context)
        return event, context

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """
        Render the templates in place.

        Airflow 3.1 calls no callable, and keeps a template that renders to nothing as it is; this does the same in all
        versions.
        """
        environment = jinja_env or self.get_template_env(context.get("dag"))
        for name in self.template_fields:
            value = getattr(self, name)
            try:
                if callable(value):
                    rendered = value(context=context, jinja_env=environment)
                else:
                    rendered = self.render_template(value, context, environment)
            except Exception as error:
                what = f"{name} cannot be rendered from {value!r}"
                raise InvalidArgumentError(f"{what}: {type(error).__name__}: {error}.") from error
            setattr(self, name, rendered)

    def get_template_env(self, dag: DAG | None = None) -> jinja2.Environment:
        """
        Return the environment of the DAG, or an own one in which an unknown name is an error, too.

        A deadline alert has no DAG, and that of a DAG's callback in ``dag.test()`` has none (apache/airflow#64649).
        """
        if hasattr(dag, "get_template_env"):
            return super().get_template_env(dag)
        from jinja2 import StrictUndefined

        environment = super().get_template_env()
        environment.undefined = StrictUndefined
        return environment


def _complete(context: Context) -> Context:
    """
    Copy a context, and add what is known of the run.

    Airflow gives a deadline alert its run as the REST API shows it: texts for times, ``dag_run_id`` for ``run_id``,
    and none of the names beside it. The copy has them as in a task: those of the logical date only if the run has one.
    The callback of a task whose worker was lost has no ``exception``; the copy says None.
    """
    given = cast("Mapping[str, Any]", context)
    if "deadline" in given:
        return cast("Context", {**given, **_names_of_the_run(given)})
    # Airflow gives a reason to the callbacks of DAGs only.
    return cast("Context", {**given} if "reason" in given else {"exception": None, **given})


def _names_of_the_run(given: Mapping[str, Any]) -> dict[str, Any]:
    from airflow.sdk.timezone import coerce_datetime

    run = _object(given["dag_run"])
    run.run_id = run.dag_run_id
    known = {"dag_run": run, "deadline": _object(given["deadline"]), "run_id": run.run_id}
    known |= {name: getattr(run, name) for name in ("partition_key", "partition_date") if hasattr(run, name)}
    if run.logical_date is not None:
        ds, ts = f"{run.logical_date:%Y-%m-%d}", run.logical_date.isoformat()
        known |= {
            "logical_date": coerce_datetime(run.logical_date),
            "data_interval_start": coerce_datetime(run.data_interval_start),
            "data_interval_end": coerce_datetime(run.data_interval_end),
            "ds": ds,
            "ds_nodash": ds.replace("-", ""),
            "ts": ts,
            "ts_nodash": f"{run.logical_date:%Y%m%dT%H%M%S}",
            "ts_nodash_with_tz": ts.replace("-", "").replace(":", ""),
        }
    return known


def _object(fields: Mapping[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(
        **{name: (read_iso_time(value) or value) if name.endswith(_TIMES) else value for name, value in fields.items()}
    )
