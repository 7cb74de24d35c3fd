"""Fail or retry an Airflow task by its error: fail at once if it is permanent, else retry as the service asks."""

from __future__ import annotations

import math
import re
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
from airflow_provider_mediaops.version_compat import HAS_RETRY_POLICY, AirflowFailException

if HAS_RETRY_POLICY:
    from airflow_provider_mediaops.version_compat import RetryDecision, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow.sdk import BaseOperator, Context

# A bad argument stays bad. A ValueError of another kind, such as a JSON parser's, may be gone at the next try.
PERMANENT = (PermanentError, InvalidArgumentError)

if HAS_RETRY_POLICY:

    class TypedErrorRetryPolicy(RetryPolicy):
        """
        The default retry policy of every operator and sensor of this provider.

        A permanent error fails the task at once. After a temporary one the next try waits as long as the service asked,
        up to a day, if that is longer than the task's own delay (``retry_delay``, backoff included). Everything else
        follows the task's own ``retries`` and ``retry_delay``.
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
                if asked > _own_delay_seconds(context["task"] if context else None, try_number):
                    reason = f"{type(exception).__name__}: a retry before then would fail"
                    return RetryDecision.retry(delay=timedelta(seconds=asked), reason=reason)
            return RetryDecision.default()


def _own_delay_seconds(task: Any, try_number: int) -> float:
    """Return the shortest delay that Airflow itself would choose (``TaskInstance.next_retry_datetime``)."""
    if task is None:
        return 0.0
    delay: float = task.retry_delay.total_seconds()
    # Airflow reads True as 2, from the time when it was a flag.
    backoff = 2.0 if task.retry_exponential_backoff is True else float(task.retry_exponential_backoff or 0.0)
    if backoff in (0.0, 1.0):
        return delay
    from airflow_provider_mediaops.version_compat import conf

    longest = float(conf.getint("core", "max_task_retry_delay", fallback=86_400))
    if task.max_retry_delay:
        longest = min(longest, task.max_retry_delay.total_seconds())
    try:
        return min(max(1.0, math.ceil(delay * backoff ** (try_number - 1))), longest)
    except OverflowError:
        return longest


@contextmanager
def constructing(task: BaseOperator, given: Mapping[str, Any]) -> Iterator[None]:
    """
    Check the arguments of a task in its constructor, and then set the provider's retry policy on it.

    The policy is not set if the task has one, or Airflow has none (below 3.3). If the check names arguments that come
    from ``default_args``, which Airflow adds to those given, its error says so.
    """
    try:
        yield
    except InvalidArgumentError as error:
        defaults = given.get("default_args") or {}
        own = {name for name, value in defaults.items() if getattr(task, name, None) == value}
        # What stands in quotation marks is a value.
        words = re.findall(r"\w+", re.sub(r"'[^']*'|\"[^\"]*\"", "", str(error)))
        if not (named := [word for word in dict.fromkeys(words) if word in own]):
            raise
        names = " and ".join(named)
        raise InvalidArgumentError(
            f"{error} This task has its {names} from default_args: set {names} on the task itself."
        ) from None
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


def is_end_templated(path: object) -> bool:
    """
    Return whether the suffix of a path is known only when the task runs.

    A template stands in the last part of the path, and no suffix behind it; or Airflow makes the whole path.
    """
    if not (isinstance(path, str) or is_path(path)):
        return is_templated(path)
    text = str(path)
    end = max(text.rfind("}}"), text.rfind("%}"))
    return is_templated(text) and not {".", "/"} & set(text[end + 2 :])
