"""A bulletin's delivery: what is written down around the post, and what a later try makes of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    PermanentError,
    QuotaExceededError,
    TaskStoppedError,
    TemporaryError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.http.auth import RefreshTokenAuth
from airflow_provider_mediaops.http.drivers import arun, run
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError, Wait
from airflow_provider_mediaops.video.arguments import Bulletin
from airflow_provider_mediaops.video.at_most_once import (
    RECORD_KEY,
    AlreadyPosted,
    Delivery,
    Intended,
    Post,
    Posted,
    Try,
    Unreadable,
    decide,
    digest_of,
    read_record,
    write_record,
)
from tests.unit.conversations import START, on_a_loop
from tests.unit.task_state import KeptState
from tests.unit.video.delivering import ACTIVITY, BASE, FIRST, Platform, begun, posting, reply
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.video.models import Activity

RETRY = replace(FIRST, number=2)
CLEARED = replace(FIRST, number=2, max_tries=4)
INTENDED = Intended(FIRST, "2026-03-14T20:00:00+00:00")
POSTED = Posted(FIRST, ACTIVITY)


def changed(this: Try) -> Try:
    return replace(this, contents="another")


def post(platform: Platform, delivery: Delivery, auth: RefreshTokenAuth | None = None) -> Activity:
    return run(posting(delivery, auth), platform.send, platform.sleep)


def refreshing() -> RefreshTokenAuth:
    return RefreshTokenAuth(
        token_url=f"{BASE}/token", client_id="id", client_secret="client-secret", refresh_token="refresh-me", scopes=""
    )


class TestRecord:
    @pytest.mark.parametrize("record", [INTENDED, POSTED])
    def test_what_is_written_can_be_read(self, record: Intended | Posted) -> None:
        assert read_record(json.loads(json.dumps(write_record(record)))) == record

    def test_no_value_is_no_record(self) -> None:
        assert read_record(None) is None

    @pytest.mark.parametrize(
        "value",
        [
            "posted",
            {},
            {**write_record(POSTED), "state": "lost"},
            {**write_record(POSTED), "activity": "act-1"},
            {**write_record(POSTED), "max_tries": None},
            {**write_record(INTENDED), "try": "one"},
        ],
    )
    def test_what_is_of_another_kind_is_unreadable(self, value: object) -> None:
        assert read_record(value) == Unreadable()

    def test_the_text_is_not_in_the_intent(self) -> None:
        assert "Hi" not in json.dumps(write_record(INTENDED))

    def test_the_digest_tells_bulletins_and_connections_apart(self) -> None:
        bulletins = [Bulletin("a"), Bulletin("b"), Bulletin("a", video_id="v"), Bulletin("a", playlist_id="v")]
        assert len({digest_of(bulletin, conn_id) for bulletin in bulletins for conn_id in ("one", "two")}) == 8
        assert digest_of(Bulletin("a"), "one") == digest_of(Bulletin("a"), "one")


class TestDecision:
    @pytest.mark.parametrize("this", [FIRST, RETRY, CLEARED])
    def test_without_a_record_it_is_posted(self, this: Try) -> None:
        assert decide(None, this) == Post()

    @pytest.mark.parametrize(
        ("this", "found"),
        [
            (RETRY, AlreadyPosted(ACTIVITY, 1, changed=False)),
            (CLEARED, AlreadyPosted(ACTIVITY, 1, changed=False)),
            (changed(RETRY), AlreadyPosted(ACTIVITY, 1, changed=True)),
        ],
    )
    def test_what_is_posted_is_not_posted_again(self, this: Try, found: AlreadyPosted) -> None:
        assert decide(POSTED, this) == found
        assert decide(POSTED, this, on_uncertain="retry") == found

    def test_other_contents_after_a_clear_are_left_to_the_person_who_cleared(self) -> None:
        with pytest.raises(PermanentError, match=r"Try 1 .* posted bulletin act-1\. .* or set post_again_on_clear"):
            decide(POSTED, changed(CLEARED))

    @pytest.mark.parametrize("this", [RETRY, CLEARED, changed(RETRY)])
    def test_an_intent_without_a_result_is_uncertain(self, this: Try) -> None:
        with pytest.raises(UncertainDeliveryError, match=r"Try 1 .* at 2026-03-14T20.* delete mediaops_bulletin from"):
            decide(INTENDED, this)

    def test_an_unreadable_record_is_uncertain(self) -> None:
        with pytest.raises(UncertainDeliveryError, match="cannot be read"):
            decide(Unreadable(), CLEARED, post_again_on_clear=True)

    @pytest.mark.parametrize("record", [INTENDED, Unreadable()])
    def test_what_is_uncertain_is_posted_where_that_is_asked_for(self, record: Intended | Unreadable) -> None:
        decision = decide(record, RETRY, on_uncertain="retry")
        assert isinstance(decision, Post)
        assert "perhaps for the second time" in decision.remark

    @pytest.mark.parametrize("record", [INTENDED, POSTED])
    @pytest.mark.parametrize("this", [CLEARED, changed(CLEARED)])
    def test_a_clear_posts_again_where_that_is_asked_for(self, record: Intended | Posted, this: Try) -> None:
        decision = decide(record, this, post_again_on_clear=True)
        assert isinstance(decision, Post)
        assert "The task was cleared" in decision.remark

    def test_a_retry_is_no_clear(self) -> None:
        assert isinstance(decide(POSTED, RETRY, post_again_on_clear=True), AlreadyPosted)
        with pytest.raises(UncertainDeliveryError):
            decide(INTENDED, RETRY, post_again_on_clear=True)


class TestAroundThePost:
    def test_the_intent_is_written_before_and_the_activity_after(self) -> None:
        platform = Platform(KeptState(), reply())

        activity = post(platform, begun(platform.store))

        assert activity.to_dict() == ACTIVITY
        assert platform.seen == [("/v3/activities", "intended")]
        assert platform.store.values == {RECORD_KEY: write_record(POSTED)}

    def test_the_intent_names_the_moment_and_the_try(self) -> None:
        platform = Platform(KeptState(), TransportError(Failure.TIMEOUT, "late"))

        with pytest.raises(UncertainDeliveryError):
            post(platform, begun(platform.store))

        assert platform.store.values == {RECORD_KEY: write_record(Intended(FIRST, START.isoformat()))}

    def test_a_token_is_fetched_before_anything_is_intended(self) -> None:
        token = {"access_token": "of-an-hour", "expires_in": 3600}
        platform = Platform(KeptState(), reply(token), reply(error(401, "authError"), 401), reply(token), reply())

        post(platform, begun(platform.store), refreshing())

        calls = [("/token", None), ("/v3/activities", "intended")]
        assert platform.seen == [*calls, *calls]

    def test_nothing_is_written_where_no_token_is_to_be_had(self) -> None:
        platform = Platform(KeptState(), reply({"error": "invalid_grant"}, 400))

        with pytest.raises(AuthenticationError):
            post(platform, begun(platform.store), refreshing())

        assert platform.store.retentions == []

    def test_a_pause_after_a_refusal_is_spent_without_an_intent(self) -> None:
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
        ("before", "this"),
        [({}, FIRST), ({RECORD_KEY: write_record(POSTED)}, CLEARED), ({RECORD_KEY: write_record(INTENDED)}, CLEARED)],
    )
    def test_a_refusal_leaves_the_record_as_it_was(
        self, refusal: Response, expected: type[Exception], before: dict[str, Any], this: Try
    ) -> None:
        platform = Platform(KeptState(before), refusal)

        with pytest.raises(expected):
            post(platform, begun(platform.store, this, post_again_on_clear=True))

        assert platform.seen == [("/v3/activities", "intended")]
        assert platform.store.values == before

    @pytest.mark.parametrize("lost", [TransportError(Failure.BROKEN, "gone"), reply("<html>"), reply({}, 503)])
    def test_a_lost_reply_leaves_the_intent(self, lost: Response | TransportError) -> None:
        platform = Platform(KeptState(), lost)

        with pytest.raises(UncertainDeliveryError):
            post(platform, begun(platform.store))

        assert (platform.seen, platform.state) == ([("/v3/activities", "intended")], "intended")

    def test_a_task_that_is_broken_off_leaves_the_intent(self) -> None:
        class TimeIsUp(BaseException):
            """As Airflow's own, at the end of a task's execution_timeout."""

        platform = Platform(KeptState(), TimeIsUp())

        with pytest.raises(TimeIsUp):
            post(platform, begun(platform.store))

        assert platform.state == "intended"

    def test_the_record_is_kept_as_long_as_is_asked_for(self) -> None:
        kept_for = START - START.replace(year=2020)
        platform = Platform(KeptState(), reply(error(403, "rateLimitExceeded"), 403), reply())

        post(platform, begun(platform.store, retention=kept_for))

        assert set(platform.store.retentions) == {kept_for}

    def test_it_is_the_same_on_an_event_loop(self) -> None:
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
    def test_nothing_is_sent_where_the_record_cannot_be_read(self) -> None:
        with pytest.raises(TemporaryError, match=r"was not sent: .* could not be read .* \(ConnectionError\)"):
            begun(KeptState(failing=("get",)))

    @pytest.mark.parametrize("failing", [("set",), ("set", "delete")])
    def test_nothing_is_sent_where_the_intent_cannot_be_written(self, failing: Sequence[str]) -> None:
        platform = Platform(KeptState(failing=tuple(failing)))

        with pytest.raises(TemporaryError, match=r"was not sent: .* could not be written to .* \(ConnectionError\)"):
            post(platform, begun(platform.store))

        assert platform.seen == []

    def test_a_bulletin_that_is_posted_is_returned_all_the_same(self) -> None:
        told: list[str] = []
        platform = Platform(KeptState(failing=("set posted",)), reply())

        activity = post(platform, begun(platform.store, told=told))

        assert activity.id == "act-1"
        assert [line for line in told if "Bulletin act-1 was posted, but" in line] == told != []
        assert platform.state == "intended"

    def test_a_refusal_is_told_all_the_same(self) -> None:
        told: list[str] = []
        platform = Platform(KeptState(failing=("delete",)), reply(error(400, "invalidMetadata"), 400))

        with pytest.raises(BadRequestError):
            post(platform, begun(platform.store, told=told))

        assert [line for line in told if "Nothing was posted, but" in line] == told != []

    def test_what_the_store_says_is_not_repeated(self) -> None:
        told: list[str] = []
        platform = Platform(KeptState(failing=("set posted",)), reply())
        post(platform, begun(platform.store, told=told))
        with pytest.raises(TemporaryError) as caught:
            begun(KeptState(failing=("get",)))

        assert "open-sesame" not in f"{told} {caught.value}"


class TestStopping:
    """Airflow stops the task: a bulletin that was not sent is known not to be posted; one under way is uncertain."""

    def test_before_it_is_sent_the_record_is_as_it_was(self) -> None:
        store = KeptState()
        platform = Platform(store, TaskStoppedError(sent=False))
        with pytest.raises(TaskStoppedError):
            post(platform, begun(store))

        assert store.values == {}

    def test_before_it_is_sent_again_after_an_uncertain_try_the_record_stays_uncertain(self) -> None:
        store = KeptState({RECORD_KEY: write_record(INTENDED)})
        platform = Platform(store, TaskStoppedError(sent=False))
        with pytest.raises(TaskStoppedError):
            post(platform, begun(store, RETRY, on_uncertain="retry"))

        assert read_record(store.values[RECORD_KEY]) == INTENDED

    def test_while_it_is_under_way_it_is_uncertain(self) -> None:
        store = KeptState()
        platform = Platform(store, TaskStoppedError(sent=True))
        with pytest.raises(TaskStoppedError):
            post(platform, begun(store))

        assert platform.state == "intended"
        with pytest.raises(UncertainDeliveryError):
            begun(store, RETRY)

    def test_while_it_waits_to_be_sent_again_nothing_is_recorded(self) -> None:
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
