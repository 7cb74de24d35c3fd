"""A bulletin's delivery with a record in the task's state store: what is written around the post, and what follows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    BadRequestError,
    QuotaExceededError,
    TaskStoppedError,
    TemporaryError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.http.auth import RefreshTokenAuth
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError, Wait
from airflow_provider_mediaops.http.runner import arun, run
from airflow_provider_mediaops.storage.record import StateRecord
from airflow_provider_mediaops.video.arguments import Bulletin
from airflow_provider_mediaops.video.at_most_once import (
    RECORD_KEY,
    AlreadyPosted,
    Author,
    Delivery,
    Entry,
    fingerprint_of,
)
from tests.unit.call_flows import START, on_a_loop
from tests.unit.task_state import KeptState
from tests.unit.video.delivering import ACTIVITY, BASE, FIRST, KEY, Platform, begun, posting, reply
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.video.models import Activity

AT = START.isoformat()
RETRY = FIRST.model_copy(update={"attempt": 2})
CLEARED = RETRY.model_copy(update={"max_tries": 4})
INTENDED = Entry(state="intended", key=KEY, by=FIRST, token="earlier", at=AT).model_dump()
POSTED = Entry(state="posted", key=KEY, by=FIRST, token="earlier", at=AT, activity=ACTIVITY).model_dump()


def changed(by: Author) -> Author:
    return by.model_copy(update={"contents": "another"})


def post(platform: Platform, delivery: Delivery, auth: RefreshTokenAuth | None = None) -> Activity:
    return run(posting(delivery, auth), platform.send, platform.sleep)


def refreshing() -> RefreshTokenAuth:
    return RefreshTokenAuth(
        token_url=f"{BASE}/token", client_id="id", client_secret="client-secret", refresh_token="refresh-me", scopes=""
    )


def decide(value: Any, by: Author, told: list[str] | None = None, **rules: Any) -> AlreadyPosted | None:
    store = KeptState({} if value is None else {RECORD_KEY: value})
    delivery = Delivery(StateRecord(store, RECORD_KEY), KEY, by, ([] if told is None else told).append, **rules)
    delivery.begin()
    return delivery.already_posted


class TestDecision:
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
    def test_record_of_another_kind_is_uncertain(self, value: object) -> None:
        with pytest.raises(UncertainDeliveryError, match="cannot be read"):
            decide(value, CLEARED, post_again_on_clear=True)

    @pytest.mark.parametrize("value", [INTENDED, POSTED])
    @pytest.mark.parametrize("by", [CLEARED, changed(CLEARED)])
    def test_clear_posts_again_where_the_user_asks_for_it(self, value: object, by: Author) -> None:
        told: list[str] = []
        assert decide(value, by, told, post_again_on_clear=True) is None
        assert ["The task was cleared" in line for line in told] == [True]

    def test_fingerprint_differs_between_bulletins_and_connections(self) -> None:
        bulletins = [Bulletin("a"), Bulletin("b"), Bulletin("a", video_id="v"), Bulletin("a", playlist_id="v")]
        assert len({fingerprint_of(bulletin, conn_id) for bulletin in bulletins for conn_id in ("one", "two")}) == 8
        assert fingerprint_of(Bulletin("a"), "one") == fingerprint_of(Bulletin("a"), "one")


class TestAroundThePost:
    def test_intent_is_written_before_the_post_and_the_activity_after_it(self) -> None:
        platform = Platform(KeptState(), reply())

        activity = post(platform, begun(platform.store))

        assert activity.to_dict() == ACTIVITY
        assert platform.seen == [("/v3/activities", "intended")]
        record = platform.store.values[RECORD_KEY]
        assert record == {**POSTED, "token": record["token"]}

    def test_intent_names_the_moment_and_the_try_but_not_the_text(self) -> None:
        platform = Platform(KeptState(), TransportError(Failure.TIMEOUT, "late"))

        with pytest.raises(UncertainDeliveryError):
            post(platform, begun(platform.store))

        record = platform.store.values[RECORD_KEY]
        assert record == {**INTENDED, "token": record["token"]}
        assert "Hi" not in str(record)

    def test_token_is_fetched_before_the_intent_is_written(self) -> None:
        token = {"access_token": "of-an-hour", "expires_in": 3600}
        platform = Platform(KeptState(), reply(token), reply(error(401, "authError"), 401), reply(token), reply())

        post(platform, begun(platform.store), refreshing())

        calls = [("/token", None), ("/v3/activities", "intended")]
        assert platform.seen == [*calls, *calls]

    def test_refused_token_leaves_no_intent(self) -> None:
        platform = Platform(KeptState(), reply({"error": "invalid_grant"}, 400))

        with pytest.raises(BadRequestError, match="invalid_grant"):
            post(platform, begun(platform.store), refreshing())

        assert platform.store.retentions == []

    def test_pause_after_a_refusal_is_spent_without_an_intent(self) -> None:
        busy = reply(error(403, "rateLimitExceeded"), 403)
        platform = Platform(KeptState(), busy, TransportError(Failure.BROKEN, "gone"))

        with pytest.raises(UncertainDeliveryError):
            post(platform, begun(platform.store))

        assert platform.seen == [("/v3/activities", "intended"), ("pause", None), ("/v3/activities", "intended")]
        assert platform.state == "intended"

    @pytest.mark.parametrize(
        ("refusal", "expected"),
        [
            (reply(error(400, "bulletinTextRequired"), 400), BadRequestError),
            (reply(error(403, "quotaExceeded"), 403), QuotaExceededError),
        ],
    )
    @pytest.mark.parametrize(
        ("before", "by"), [({}, FIRST), ({RECORD_KEY: POSTED}, CLEARED), ({RECORD_KEY: INTENDED}, CLEARED)]
    )
    def test_refusal_leaves_the_record_as_it_was(
        self, refusal: Response, expected: type[Exception], before: dict[str, Any], by: Author
    ) -> None:
        platform = Platform(KeptState(before), refusal)

        with pytest.raises(expected):
            post(platform, begun(platform.store, by, post_again_on_clear=True))

        assert platform.seen == [("/v3/activities", "intended")]
        assert platform.store.values == before

    def test_task_that_is_broken_off_leaves_the_intent(self) -> None:
        class TimeIsUp(BaseException):
            """As Airflow's own, at the end of a task's execution_timeout."""

        platform = Platform(KeptState(), TimeIsUp())

        with pytest.raises(TimeIsUp):
            post(platform, begun(platform.store))

        assert platform.state == "intended"

    def test_delivery_on_an_event_loop_writes_the_same(self) -> None:
        platform = Platform(KeptState(), reply(error(403, "rateLimitExceeded"), 403), reply())

        async def send(request: Request) -> Response:
            return platform.send(request)

        async def sleep(wait: Wait) -> None:
            platform.sleep(wait)

        activity = on_a_loop(arun(posting(begun(platform.store)), send, sleep, in_thread=asyncio.to_thread))

        assert activity.id == "act-1"
        assert platform.seen == [("/v3/activities", "intended"), ("pause", None), ("/v3/activities", "intended")]
        assert platform.state == "posted"


class TestAStoreThatFails:
    @pytest.mark.parametrize("failing", [("set",), ("set", "delete")])
    def test_unwritable_intent_keeps_the_bulletin_from_being_sent(self, failing: Sequence[str]) -> None:
        platform = Platform(KeptState(failing=tuple(failing)))

        with pytest.raises(TemporaryError, match=r"was not sent: .* could not be written to .* \(ConnectionError\)"):
            post(platform, begun(platform.store))

        assert platform.seen == []

    def test_unwritable_result_is_logged_and_the_activity_returned(self) -> None:
        told: list[str] = []
        platform = Platform(KeptState(failing=("set posted",)), reply())

        activity = post(platform, begun(platform.store, told=told))

        assert activity.id == "act-1"
        assert [line for line in told if "Bulletin act-1 was posted, but" in line] == told != []
        assert platform.state == "intended"

    def test_words_of_the_store_are_not_repeated(self) -> None:
        told: list[str] = []
        platform = Platform(KeptState(failing=("set posted",)), reply())
        post(platform, begun(platform.store, told=told))
        with pytest.raises(TemporaryError) as caught:
            begun(KeptState(failing=("get",)))

        assert "open-sesame" not in f"{told} {caught.value}"


class TestStopping:
    """Airflow stops the task: a bulletin that was not sent is known not to be posted; one under way is uncertain."""

    @pytest.mark.parametrize(("before", "by"), [({}, FIRST), ({RECORD_KEY: INTENDED}, RETRY)])
    def test_task_stopped_before_it_sends_leaves_the_record_as_it_was(self, before: Any, by: Author) -> None:
        store = KeptState(before)
        platform = Platform(store, TaskStoppedError(sent=False))
        with pytest.raises(TaskStoppedError):
            post(platform, begun(store, by, on_uncertain="retry"))

        assert store.values == before

    def test_task_stopped_while_it_sends_is_uncertain(self) -> None:
        store = KeptState()
        platform = Platform(store, TaskStoppedError(sent=True))
        with pytest.raises(TaskStoppedError):
            post(platform, begun(store))

        assert platform.state == "intended"
        with pytest.raises(UncertainDeliveryError):
            begun(store, RETRY)

    def test_task_stopped_while_it_waits_to_send_again_leaves_no_record(self) -> None:
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
