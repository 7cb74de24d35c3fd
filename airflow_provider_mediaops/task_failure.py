"""
End an Airflow task: by its error, at once if it is permanent, else by a retry as the service asks; or as it is stopped.

Beside it is what tells a template from an argument that is known when a DAG file is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from inspect import signature
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import is_path
from airflow_provider_mediaops.exceptions import (
    LONGEST_RETRY_AFTER_SECONDS,
    InvalidArgumentError,
    MediaOpsError,
    PermanentError,
)
from airflow_provider_mediaops.http.stop import Stop
from airflow_provider_mediaops.version_compat import HAS_RETRY_POLICY, AirflowFailException

if HAS_RETRY_POLICY:
    from airflow_provider_mediaops.version_compat import RetryDecision, RetryPolicy

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

# A bad argument stays bad. A ValueError of another kind, such as a JSON parser's, may be gone at the next try.
PERMANENT = (PermanentError, InvalidArgumentError)

if HAS_RETRY_POLICY:

    class TypedErrorRetryPolicy(RetryPolicy):
        """
        The default retry policy of every operator and sensor of this provider.

        A permanent error fails the task at once. After a temporary one the next try waits as long as the service asked,
        up to a day, if that is longer than the task's ``retry_delay``. Everything else follows the task's own
        ``retries`` and ``retry_delay``.
        """

        def evaluate(
            self,
            exception: BaseException,
            try_number: int,
            max_tries: int,
            context: Context | None = None,
        ) -> RetryDecision:
            """Decide on a failure; see :class:`airflow.sdk.RetryPolicy`."""
            if isinstance(exception, PERMANENT):
                return RetryDecision.fail(reason=f"{type(exception).__name__}: a retry would fail in the same way")
            if isinstance(exception, MediaOpsError) and exception.retry_after:
                asked = min(exception.retry_after, LONGEST_RETRY_AFTER_SECONDS)
                own: Any = context["task"].retry_delay if context else timedelta()
                if asked > own.total_seconds():
                    reason = f"{type(exception).__name__}: a retry before then would fail"
                    return RetryDecision.retry(delay=timedelta(seconds=asked), reason=reason)
            return RetryDecision.default()


def use_retry_policy(task: BaseOperator) -> None:
    """Give a task the provider's retry policy, unless it has one, or Airflow has none (below 3.3)."""
    if HAS_RETRY_POLICY and task.retry_policy is None:
        task.retry_policy = TypedErrorRetryPolicy()


@contextmanager
def ending_task() -> Iterator[None]:
    """Fail a task at once after a permanent error, also on an Airflow without retry policies (below 3.3)."""
    try:
        yield
    except PERMANENT as error:
        if HAS_RETRY_POLICY:
            raise
        raise AirflowFailException(str(error)) from error


class StoppableTask:
    """
    Base of the operators and sensors, before Airflow's own: a stopped task sends nothing more.

    Airflow's handler of SIGTERM calls :meth:`on_kill` in the task's thread and does nothing else; five seconds later
    the supervisor kills the process. Airflow also calls it after ``execution_timeout``.
    """

    @property
    def stop(self) -> Stop:
        """Whether this task is to end; hooks and waits of the task look at it."""
        # Made at first use: Airflow copies operators, and a copy shares nothing with the original before it runs.
        stop: Stop = self.__dict__.setdefault("_stop", Stop())
        return stop

    def on_kill(self) -> None:
        """End the request or the wait that is under way, by a TaskStoppedError in the task, and let no other begin."""
        self.stop.request()


def templated_arguments(constructor: Callable[..., None]) -> tuple[str, ...]:
    """Return the template fields of an operator or a notifier: all its own arguments but how it is run."""
    own = (each for each in signature(constructor).parameters.values() if each.kind is each.KEYWORD_ONLY)
    return tuple(each.name for each in own if each.name not in ("deferrable", "context"))


def given_arguments(called: Any) -> dict[str, Any]:
    """Return the own arguments of an operator or a notifier by name; they are rendered once it is called."""
    return {name: getattr(called, name) for name in called.own_arguments}


def is_templated(*values: Any) -> bool:
    """
    Return whether any value is known only when the task runs, so that its check has to wait until then.

    It is a template, the result of another task, or a callable, which Airflow calls when it renders the templates.
    """
    return any(_is_templated(value) for value in values)


def _is_templated(value: Any) -> bool:
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, (list, tuple, set)):
        return is_templated(*value)
    if is_path(value):
        # Its method resolve() is not that of the result of another task.
        return _is_templated(str(value))
    return callable(value) or hasattr(value, "operator") or hasattr(value, "resolve")
