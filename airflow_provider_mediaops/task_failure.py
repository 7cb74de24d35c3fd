"""How a typed error ends an Airflow task: at once where it is permanent, after the service's own pause where not."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_mediaops.exceptions import MediaOpsError, PermanentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import BaseOperator, Context

try:
    from airflow.sdk import RetryDecision, RetryPolicy

    HAS_RETRY_POLICY = True
except ImportError:  # Airflow below 3.3
    HAS_RETRY_POLICY = False

# A bad argument stays bad: a ValueError is as permanent as what the service refuses for good.
PERMANENT = (PermanentError, ValueError)

if HAS_RETRY_POLICY:

    class TypedErrorRetryPolicy(RetryPolicy):
        """
        The retry policy that every operator and sensor of this provider has unless it is given another.

        Permanent errors fail the task at once; after a temporary one Airflow waits what the service asked for, if that
        is longer than nothing; everything else follows the task's own ``retries`` and ``retry_delay``.
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
                return RetryDecision.fail(reason=f"{type(exception).__name__}: another try will meet it again")
            if isinstance(exception, MediaOpsError) and exception.retry_after:
                delay = timedelta(seconds=exception.retry_after)
                return RetryDecision.retry(delay=delay, reason=f"the {exception.service} asked to wait")
            return RetryDecision.default()


def use_retry_policy(task: BaseOperator) -> None:
    """
    Give a task the provider's retry policy, unless it has one, or Airflow knows of none (below 3.3).

    :param task: an operator or sensor, at the end of its constructor.
    """
    if HAS_RETRY_POLICY and task.retry_policy is None:
        task.retry_policy = TypedErrorRetryPolicy()


@contextmanager
def ending_task() -> Iterator[None]:
    """
    Let typed errors end the task as they should: below Airflow 3.3 a permanent one becomes ``AirflowFailException``.

    :raises AirflowFailException: for a permanent error, where Airflow has no retry policies.
    """
    try:
        yield
    except PERMANENT as error:
        if HAS_RETRY_POLICY:
            raise
        raise AirflowFailException(str(error)) from error


def is_templated(*values: Any) -> bool:
    """
    Say whether any value is known only when the task runs, so that its check has to wait until then.

    :param values: arguments of an operator: texts, lists of texts, XComArgs, numbers.
    :returns: True for a template, or for what another task will return.
    """
    return any(_is_templated(value) for value in values)


def _is_templated(value: Any) -> bool:
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, (list, tuple, set)):
        return is_templated(*value)
    return hasattr(value, "operator") or hasattr(value, "resolve")


def is_end_templated(path: object) -> bool:
    """
    Say whether the suffix of a path is known only when the task runs.

    :param path: a text, a path on object storage, or what another task will return.
    :returns: True where a template stands in the last part of the path, and no suffix behind it.
    """
    # A path is no text, but what is templated in it shows in its text.
    text = str(path)
    end = max(text.rfind("}}"), text.rfind("%}"))
    return is_templated(text) and not {".", "/"} & set(text[end + 2 :])
