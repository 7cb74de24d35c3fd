"""A bulletin's delivery with a record in the task's state store: what the record says at each step around the post."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import TaskStoppedError, UncertainDeliveryError
from airflow_provider_mediaops.http.auth import RefreshTokenAuth
from airflow_provider_mediaops.http.exchange import Failure, TransportError, Wait
from airflow_provider_mediaops.http.runner import run
from airflow_provider_mediaops.video.at_most_once import RECORD_KEY, Delivery, Entry
from tests.unit.call_flows import START
from tests.unit.task_state import KeptState
from tests.unit.video.delivering import ACTIVITY, BASE, FIRST, KEY, Platform, begun, posting, reply
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from airflow_provider_mediaops.video.models import Activity

AT = START.isoformat()
CLEARED = FIRST.model_copy(update={"attempt": 2, "max_tries": 4})
INTENDED = Entry(state="intended", key=KEY, by=FIRST, token="earlier", at=AT).model_dump()
POSTED = Entry(state="posted", key=KEY, by=FIRST, token="earlier", at=AT, activity=ACTIVITY).model_dump()


def post(platform: Platform, delivery: Delivery, auth: RefreshTokenAuth | None = None) -> Activity:
    return run(posting(delivery, auth), platform.send, platform.sleep)


def refreshing() -> RefreshTokenAuth:
    return RefreshTokenAuth(
        token_url=f"{BASE}/token", client_id="id", client_secret="client-secret", refresh_token="refresh-me", scopes=""
    )


@pytest.mark.parametrize(
    "value",
    [
        "posted",
        {},
        {**POSTED, "version": 2},
        {**POSTED, "state": "lost"},
        {**POSTED, "activity": "act-1"},
        {**POSTED, "activity": None},
        {**POSTED, "activity": {"snippet": 5}},
        {**POSTED, "key": {"task": "another"}},
        {**POSTED, "token": None},
        {**INTENDED, "by": {**INTENDED["by"], "max_tries": None}},
        {**INTENDED, "by": {**INTENDED["by"], "attempt": "one"}},
        # Errors and logs would quote these.
        {**INTENDED, "by": {**INTENDED["by"], "task": "t" * 1_001}},
        {**INTENDED, "at": "2026-11-23" * 7},
    ],
)
def test_record_of_another_kind_is_uncertain(value: object) -> None:
    with pytest.raises(UncertainDeliveryError, match="cannot be read"):
        begun(KeptState({RECORD_KEY: value}), CLEARED, post_again_on_clear=True)


def test_intent_names_the_moment_and_the_try_but_not_the_text() -> None:
    platform = Platform(KeptState(), TransportError(Failure.TIMEOUT, "late"))

    with pytest.raises(UncertainDeliveryError):
        post(platform, begun(platform.store))

    record = platform.store.values[RECORD_KEY]
    assert record == {**INTENDED, "token": record["token"]}
    assert "Hi" not in str(record)


def test_token_is_fetched_before_the_intent_is_written() -> None:
    token = {"access_token": "of-an-hour", "expires_in": 3600}
    platform = Platform(KeptState(), reply(token), reply(error(401, "authError"), 401), reply(token), reply())

    post(platform, begun(platform.store), refreshing())

    calls = [("/token", None), ("/v3/activities", "intended")]
    assert platform.seen == [*calls, *calls]


def test_pause_after_a_refusal_is_spent_without_an_intent() -> None:
    busy = reply(error(403, "rateLimitExceeded"), 403)
    platform = Platform(KeptState(), busy, TransportError(Failure.BROKEN, "gone"))

    with pytest.raises(UncertainDeliveryError):
        post(platform, begun(platform.store))

    assert platform.seen == [("/v3/activities", "intended"), ("pause", None), ("/v3/activities", "intended")]
    assert platform.state == "intended"


def test_unwritable_result_is_logged_and_the_activity_returned() -> None:
    told: list[str] = []
    platform = Platform(KeptState(failing=("set posted",)), reply())

    activity = post(platform, begun(platform.store, told=told))

    assert activity.id == "act-1"
    assert [line for line in told if "Bulletin act-1 was posted, but" in line] == told != []
    # What the store says of itself is not repeated.
    assert "open-sesame" not in str(told)
    assert platform.state == "intended"


def test_task_stopped_while_it_waits_to_send_again_leaves_no_record() -> None:
    class Impatient(Platform):
        def sleep(self, wait: Wait) -> None:
            super().sleep(wait)
            raise TaskStoppedError

    store = KeptState()
    platform = Impatient(store, reply(error(429, "rateLimitExceeded"), 429))
    with pytest.raises(TaskStoppedError):
        post(platform, begun(store))

    assert platform.seen == [("/v3/activities", "intended"), ("pause", None)]
    assert store.values == {}
