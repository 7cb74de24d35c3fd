"""Base class of the notifiers: it renders the templates, and says of which callback one fails, and why."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseNotifier

from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError
from airflow_provider_mediaops.hooks.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Generator

    import jinja2
    from airflow.sdk import DAG, Context


class ServiceNotifier(BaseNotifier):
    """
    Base class for notifiers that call a service when a task or a run ends.

    It serves the ``on_*_callback`` of tasks and DAGs, and deadline alerts. A failure never fails a task or a run: it is
    logged. One of a deadline alert is raised, so that Airflow logs it and notes it as the state of the callback.

    :param context: the event's context, if Airflow gives it beforehand (deadline alerts).
    """

    #: The class's own arguments, which may be templated.
    own_arguments: ClassVar[tuple[str, ...]]

    def __init__(self, *, context: Context | None = None) -> None:
        super().__init__(context)

    @abstractmethod
    def notify(self, context: Context) -> None:
        """Call the service; raise if that fails."""

    @abstractmethod
    async def async_notify(self, context: Context) -> None:
        """Call the service on the event loop; raise if that fails."""

    def __call__(self, *args: Any) -> None:
        """Render the templates and call the service; Airflow calls this with the context."""
        [context] = args
        try:
            event, context = self._event(context)
            event.notify(context)
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
        """Render the templates and call the service; Airflow awaits this for a deadline alert."""
        return self._on_event_loop().__await__()

    async def _on_event_loop(self) -> None:
        # In a thread: it imports modules, and a template may take long.
        event, context = await in_thread(partial(self._event, self.context))
        await event.async_notify(context)

    def _event(self, given: Context) -> tuple[ServiceNotifier, Context]:
        """Give a notifier whose templates are rendered, and the context: one notifier may serve many tasks."""
        from airflow_provider_mediaops.notifications.contexts import complete

        context = complete(given)
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
                from airflow_provider_mediaops.notifications.contexts import about_missing_name

                raise InvalidArgumentError(
                    f"{name} cannot be rendered from {value!r}: {_reason(error)}.{about_missing_name(error, context)}"
                ) from error
            setattr(self, name, rendered)

    def get_template_env(self, dag: DAG | None = None) -> jinja2.Environment:
        """
        Return the environment of the DAG; one of its own for a deadline alert, which has no DAG.

        The DAG of a DAG's callback in ``dag.test()`` has none either (apache/airflow#64649).

        :param dag: the DAG of the context.
        :returns: an environment in which an unknown name is an error.
        """
        if hasattr(dag, "get_template_env"):
            return super().get_template_env(dag)
        from jinja2 import StrictUndefined

        environment = super().get_template_env()
        environment.undefined = StrictUndefined
        return environment


def _reason(error: Exception) -> str:
    from jinja2 import TemplateError

    return str(error) if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
