"""The waiting in the triggerer: what ends it, and what it never does; shown with the wait for a subscription."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from airflow_provider_mediaops.exceptions import AuthenticationError, TemporaryError
from airflow_provider_mediaops.triggers.base import value_of
from airflow_provider_mediaops.triggers.video import SubscriptionTrigger
from tests.unit.log_lines import log_lines
from tests.unit.sensor_forms import a_day, first_event, made_again
from tests.unit.triggers.exports import Platform, refusal
from tests.unit.triggers.exports import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.until import until
from tests.unit.video_platform import page_reply
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable


def waiting(**arguments: Any) -> Any:
    """Run a trigger as it comes from the database; give its first event."""
    usual = {"conn_id": "video_1", "watch": {"mine": True}, **a_day()}
    return first_event(made_again(SubscriptionTrigger(**{**usual, **arguments})))


def test_result_is_handed_to_the_task(platform: Platform) -> None:
    platform.replies = [page_reply(), page_reply(7)]
    assert value_of(in_virtual_time(waiting())) == {"id": "sub-7", "title": "Channel 7"}
    # A reply takes a second.
    assert [at for at, _ in platform.asked] == [0, 61]
    assert platform.open == 0


def test_a_permanent_error_reaches_the_task_with_its_type(platform: Platform) -> None:
    platform.replies = [refusal(401, "authError")]
    with pytest.raises(AuthenticationError, match="authError") as caught:
        value_of(in_virtual_time(waiting()))
    assert caught.value.status == 401
    assert platform.open == 0


@pytest.mark.parametrize(
    "odd",
    [{"watch": {"of_another_version": 1}}, {"watch": {"mine": "many"}}, {"pace": {"of_another_version": 1}}],
)
def test_a_wait_that_cannot_be_made_is_one_of_another_version(platform: Platform, odd: dict[str, Any]) -> None:
    with pytest.raises(TemporaryError, match="Another version of this provider made this trigger"):
        value_of(in_virtual_time(waiting(**odd)))
    assert not platform.asked


def failing(fault: Exception) -> Callable[[], NoReturn]:
    def fail() -> NoReturn:
        raise fault

    return fail


@pytest.mark.parametrize("fault", [ValueError("s3cr3t"), KeyError("s3cr3t")])
def test_a_fault_of_this_program_is_retried_with_its_traceback_in_the_log(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    lines = log_lines(monkeypatch, SubscriptionTrigger)
    platform.replies = [failing(fault)]
    with pytest.raises(TemporaryError, match=rf"unexpected {type(fault).__name__}\.") as caught:
        value_of(in_virtual_time(waiting()))
    assert "s3cr3t" not in str(caught.value)
    assert lines == ["ERROR: The trigger ended with an unexpected error. (with a traceback)"]


async def test_being_cancelled_closes_the_session(platform: Platform) -> None:
    running = asyncio.ensure_future(waiting())
    await until(lambda: bool(platform.asked))
    assert platform.open == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert platform.open == 0
