from __future__ import annotations

import json
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    QuotaExceededError,
    RateLimitedError,
    ServiceUnavailableError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.http.auth import Auth, RefreshTokenAuth
from airflow_provider_mediaops.http.exchange import Call, Emit, Failure, Request, Response, TransportError, Wait
from airflow_provider_mediaops.http.reply import read_json
from airflow_provider_mediaops.http.retry import Attempts, RetryPolicy
from tests.unit.call_flows import FakeClock, pauses_of, replay, requests_of, text_call
from tests.unit.http.asking import BROKEN, DOWN, GOOD, REFUSED, SLOW, error_of, make, refused
from tests.unit.http.rate_limit.keys import GAP, WINDOW, limiter_of, next_step

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Step

LIMIT = Response(429, {"retry-after": "3"})
#: Replies to a write that show that it was not done.
NOT_DONE: list[Response | TransportError] = [REFUSED, TransportError(Failure.TLS, "untrusted"), LIMIT]
ANY_REPLY = st.sampled_from([GOOD, DOWN, BROKEN, SLOW, *NOT_DONE])


@pytest.mark.parametrize(
    "failure", [DOWN, REFUSED, BROKEN, SLOW, Response(429), Response(408), Response(503, {"retry-after": "0"})]
)
def test_a_read_is_tried_again_with_growing_pauses_that_say_why(failure: Response | TransportError) -> None:
    fake, steps = FakeClock(), list["Step"]()
    assert replay(make(fake).ask(text_call()), [failure] * 4 + [GOOD], steps=steps, clock=fake) == "good"
    assert pauses_of(steps) == [0.5, 1.0, 2.0, 4.0]
    assert len(requests_of(steps)) == 5
    reasons = [step.reason for step in steps if isinstance(step, Wait)]
    assert all(f"Error, try {number}: The thing service" in reason for number, reason in enumerate(reasons, 2))


@pytest.mark.parametrize(
    ("reply", "cls"),
    [
        (refused(400), BadRequestError),
        (refused(401), AuthenticationError),
        (refused(403, "quotaSpent"), QuotaExceededError),
        (Response(302, {"location": "/in"}), InvalidReplyError),
    ],
)
def test_call_that_will_fail_again_is_sent_once(reply: Response, cls: type[MediaOpsError]) -> None:
    assert type(error_of(make(FakeClock()), text_call(), [reply])) is cls


def test_pause_that_the_service_asks_for_is_waited_in_full() -> None:
    fake, steps = FakeClock(), list["Step"]()
    # The second pause is longer than any that the service did not ask for.
    date = {"retry-after": "Sat, 14 Mar 2026 20:01:00 GMT", "date": "Sat, 14 Mar 2026 20:00:10 GMT"}
    replies = [Response(429, {"retry-after": "7"}), Response(503, date), GOOD]
    replay(make(fake).ask(text_call()), replies, steps=steps, clock=fake)
    assert pauses_of(steps) == [7.0, 50.0]


def test_a_longer_pause_than_the_call_may_take_is_left_to_the_caller() -> None:
    fake = FakeClock()
    reply = Response(429, {"retry-after": "90"})
    error = error_of(make(fake, retry=RetryPolicy(max_wait=60.0)), text_call(), [reply], fake)
    assert type(error) is RateLimitedError
    assert error.retry_after == 90.0


def test_pauses_double_up_to_a_cap() -> None:
    fake = FakeClock()
    attempts = Attempts(RetryPolicy(9, 1e9, 0.5, 10.0), fake.clock)
    pauses = [attempts.pause_after(ServiceUnavailableError("down")) for _ in range(9)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, None]
    # Full jitter: each was drawn from nothing at all up to its bound.
    assert [low for low, _ in fake.drawn] == [0.0] * 8


# Writes. tests/unit/test_post_statuses.py has each status.


@pytest.mark.parametrize(
    "lost",
    [
        BROKEN,
        SLOW,
        TransportError(Failure.TOO_LARGE, "large"),
        TransportError(Failure.UNREADABLE, "odd"),
        DOWN,
        # It cannot be read.
        Response(200, {}, b"{cut"),
    ],
)
def test_a_write_whose_fate_is_not_known_is_not_repeated(lost: Response | TransportError) -> None:
    call = Call(Request("POST", "/thing", idempotent=False), read_json)
    error = error_of(make(FakeClock()), call, [lost])
    assert type(error) is UncertainDeliveryError
    assert "not known whether POST /thing took effect" in error.message
    assert "tried again" not in error.message


@given(
    replies=st.lists(ANY_REPLY, min_size=8, max_size=8),
    write=st.booleans(),
    max_attempts=st.integers(1, 8),
    max_wait=st.floats(0, 40),
    share=st.floats(0, 1),
)
def test_no_call_is_sent_too_often_or_too_late(
    replies: list[Response | TransportError], max_attempts: int, max_wait: float, share: float, *, write: bool
) -> None:
    fake = FakeClock(share)
    client = make(fake, retry=RetryPolicy(max_attempts, max_wait))
    flow = client.ask(text_call("POST" if write else "GET", idempotent=not write))
    sent: list[Response | TransportError] = []
    not_carried_out = 0
    step = next(flow)
    try:
        while True:
            if isinstance(step, Wait):
                fake.wait(step.seconds)
                assert fake.seconds <= max_wait + 1e-6
                step = next(flow)
                continue
            if isinstance(step, Emit):
                not_carried_out += 1
                step = next(flow)
                continue
            reply = replies[len(sent)]
            sent.append(reply)
            step = flow.throw(reply) if isinstance(reply, TransportError) else flow.send(reply)
    except (StopIteration, MediaOpsError) as end:
        ended = end
    if isinstance(ended, StopIteration):
        assert (ended.value, sent[-1]) == ("good", GOOD)
    elif isinstance(ended, UncertainDeliveryError):
        assert write
        assert sent[-1] not in NOT_DONE
    else:
        assert ended.temporary
        assert not write or sent[-1] in NOT_DONE
    assert len(sent) <= max_attempts
    assert not_carried_out == (sum(reply in NOT_DONE for reply in sent) if write else 0)
    # Whatever may have been done is the last that was sent.
    assert not write or all(reply in NOT_DONE for reply in sent[:-1])


# Several hosts.


def hosts_asked(client: Client, replies: list[Any], fake: FakeClock, call: Call[str] | None = None) -> list[str]:
    steps: list[Step] = []
    replay(client.ask(call or text_call()), replies, steps=steps, clock=fake)
    return [request.host for request in requests_of(steps)]


@pytest.mark.parametrize("failure", [REFUSED, BROKEN, SLOW, DOWN])
def test_another_host_is_asked_and_kept(failure: Response | TransportError) -> None:
    fake = FakeClock()
    client = make(fake, base_urls=("http://one", "http://two", "http://three"))
    assert hosts_asked(client, [failure, failure, GOOD], fake) == ["one", "two", "three"]
    assert hosts_asked(client, [GOOD], fake) == ["three"]
    assert hosts_asked(client, [failure, GOOD], fake) == ["three", "one"]


UNTRUSTED = TransportError(Failure.UNTRUSTED, "certificate has expired")


def test_a_host_whose_certificate_is_refused_is_passed_over_at_once() -> None:
    fake = FakeClock()
    client = make(fake, base_urls=("http://one", "http://two"))
    write = text_call("POST", idempotent=False)
    assert hosts_asked(client, [UNTRUSTED, GOOD], fake, write) == ["one", "two"]
    assert hosts_asked(client, [GOOD], fake) == ["two"]
    # The other one is tried again, as if it were alone.
    assert hosts_asked(client, [DOWN, UNTRUSTED, GOOD], fake) == ["two", "one", "two"]


def test_certificates_that_are_refused_at_every_host_end_the_call() -> None:
    client = make(FakeClock(), base_urls=("http://one", "http://two"))
    error = error_of(client, text_call(), [UNTRUSTED, UNTRUSTED])
    assert isinstance(error, InvalidConnectionError)
    assert "certificate has expired" in error.message


def test_a_limit_holds_on_every_host() -> None:
    fake = FakeClock()
    client = make(fake, base_urls=("http://one", "http://two"))
    assert hosts_asked(client, [Response(429), GOOD], fake) == ["one", "one"]


def test_calls_that_fail_at_once_on_one_host_move_on_to_the_same() -> None:
    client = make(FakeClock(), base_urls=("http://one", "http://two"))
    both = [client.ask(text_call()), client.ask(text_call())]
    assert [request.host for request in requests_of([next(each) for each in both])] == ["one", "one"]
    assert all(isinstance(each.throw(REFUSED), Wait) for each in both)
    assert [request.host for request in requests_of([next(each) for each in both])] == ["two", "two"]


def test_a_write_moves_on_only_where_nothing_was_sent() -> None:
    fake = FakeClock()
    client = make(fake, base_urls=("http://one", "http://two"))
    assert hosts_asked(client, [REFUSED, GOOD], fake, text_call("POST", idempotent=False)) == ["one", "two"]
    assert type(error_of(client, text_call("POST", idempotent=False), [BROKEN])) is UncertainDeliveryError


# The rate.


def limited(fake: FakeClock, **more: Any) -> Client:
    """Return a client whose key may ask once a second."""
    return make(fake, **{"limiter": limiter_of(fake), **more})


@pytest.mark.parametrize("is_known", [True, False])
def test_a_request_that_was_or_may_have_been_sent_late_holds_back_the_next(*, is_known: bool) -> None:
    fake = FakeClock()
    client = limited(fake)
    caller = client.ask(text_call())
    next_step(caller)
    fake.wait(0.2)
    sent_at = fake.seconds
    next_step(caller, replace(GOOD, sent_at=sent_at if is_known else None))
    replay(client.ask(text_call()), [GOOD], clock=fake)
    assert fake.seconds - sent_at == pytest.approx(WINDOW)


@pytest.mark.parametrize(
    ("asked", "pause"), [("20", 20), pytest.param("86400", 60, id="no longer than a call may wait")]
)
def test_a_limit_reply_holds_back_every_call_with_the_key(asked: str, pause: float) -> None:
    fake, steps = FakeClock(seconds=1_000.0), list["Step"]()
    client = limited(fake, retry=RetryPolicy(max_attempts=1, max_wait=60.0))
    error_of(client, text_call(), [Response(429, {"retry-after": asked})])
    other = make(fake, limiter=client.limiter)
    for _ in range(2):
        replay(other.ask(text_call()), [GOOD], steps=steps, clock=fake)
    # After the pause it goes on more slowly, and with each second faster.
    assert sum(pauses_of(steps)) == pytest.approx(pause + GAP / 0.7 + GAP / 0.75, abs=0.01)


def test_a_limit_that_was_found_out_otherwise_holds_for_every_call_too() -> None:
    fake, steps = FakeClock(), list["Step"]()
    client = limited(fake)
    replay(client.report_limit(RateLimitedError("It was the limit.", retry_after=5.0)), [])
    replay(client.ask(text_call()), [GOOD], steps=steps, clock=fake)
    assert [step for step in steps if isinstance(step, Wait)] == [Wait(5.0, "the key's rate")]
    # A client without a rate has nobody to tell.
    replay(make(fake).report_limit(RateLimitedError("It was the limit.")), [])


def test_a_quota_that_is_known_to_be_spent_costs_no_request() -> None:
    fake = FakeClock()
    client = limited(fake)
    spent = refused(403, "quotaSpent", **{"retry-after": "14378"})
    assert error_of(client, text_call(), [spent]).status == 403
    for call in (text_call(), text_call("POST", idempotent=False)):
        error = error_of(client, call, [])
        assert type(error) is QuotaExceededError
        # Clocks that differ by seconds say the same time.
        assert "at the thing service is used up until 2026-03-15 00:00 UTC" in error.message
        assert error.retry_after == pytest.approx(14_380.0)
    fake.wait(14_381.0)
    assert replay(client.ask(text_call()), [GOOD], clock=fake) == "good"


def test_refusal_of_the_token_address_leaves_the_rate_of_the_key() -> None:
    fake = FakeClock()
    auth = RefreshTokenAuth(
        token_url="http://accounts/token",
        client_id="client",
        client_secret="secret",
        refresh_token="refresh",
        clock=fake.clock,
    )
    client = limited(fake, auth=auth, retry=RetryPolicy(max_attempts=1))
    error_of(client, text_call(), [Response(429, {"retry-after": "30"})])
    steps: list[Step] = []
    replay(limited(fake, limiter=client.limiter).ask(text_call()), [GOOD], steps=steps, clock=fake)
    # Neither a pause, nor a slot that the refused token call took.
    assert pauses_of(steps) == []


def test_the_wait_for_the_rate_uses_up_none_of_the_time_for_retries() -> None:
    fake, steps = FakeClock(), list["Step"]()
    client = limited(fake, retry=RetryPolicy(max_wait=60.0))
    callers_ahead = [client.ask(text_call()) for _ in range(150)]
    for caller in callers_ahead:
        next_step(caller)
    assert replay(client.ask(text_call()), [DOWN, GOOD], steps=steps, clock=fake) == "good"
    assert pauses_of(steps)[0] > 150.0
    assert len(requests_of(steps)) == 2


def test_the_time_for_retries_begins_at_the_first_permit_and_not_at_each() -> None:
    fake = FakeClock()
    client = limited(fake, retry=RetryPolicy(max_attempts=50, max_wait=5.0, base_seconds=2.0))
    # Pauses of 2 s and 4 s: the second would end 6 s after the first permit.
    error = error_of(client, text_call(), [DOWN, DOWN], fake)
    assert type(error) is ServiceUnavailableError


# Secrets: whatever a service, a parser or a proxy says, no error holds one.

SECRET = "s3cr3t/k+y ü"


@pytest.mark.parametrize(
    "auth", [Auth.bearer(SECRET), Auth.basic("me", SECRET), Auth(secrets=(SECRET,), params=(("key", SECRET),))]
)
@pytest.mark.parametrize("status", [200, 302, 400, 403, 503])
def test_a_service_that_echoes_the_credentials_does_not_make_them_public(auth: Auth, status: int) -> None:
    signed = auth.sign(Request("GET", "/thing"))
    echo = f"{signed.headers.get('Authorization', '')} {SECRET} {signed.url} s3cr3t%2Fk%2By%20%C3%BC"
    bodies = [
        f"<html>{echo}</html>",
        json.dumps([{"error": {"message": echo, "errors": [{"reason": SECRET}]}}], ensure_ascii=False),
        '{"error": {"message": "' + echo + '", "errors": [{"reason": "' + SECRET + '"}]}, cut short',
        # Where the text is cut for the log, half a secret must not be left.
        *("x" * length + echo for length in range(250, 300, 3)),
    ]
    for body in bodies:
        response = Response(status, {"location": f"http://two/{echo}"}, body.encode())
        client = make(FakeClock(), auth=auth, retry=RetryPolicy(max_attempts=1))
        error = error_of(client, Call(signed, read_json), [response])
        told = "".join(traceback.format_exception(error)) + repr(error.to_dict()) + repr(client)
        for half in ("s3cr", "czNjcjN0"):
            assert half not in told, body


@pytest.mark.parametrize("cls", [InvalidReplyError, ServiceUnavailableError])
def test_error_of_a_parser_holds_no_secret(cls: type[MediaOpsError]) -> None:
    def parse(response: Response) -> str:
        raise cls(f"This is odd: {response.text}", status=200, excerpt=response.text, reason="odd")

    client = make(FakeClock(), auth=Auth("s3cr3t", ("s3cr3t",)), retry=RetryPolicy(max_attempts=1))
    error = error_of(client, Call(Request("GET", "/thing"), parse), [Response(200, {}, b"you sent s3cr3t")])
    assert (type(error), error.excerpt, error.reason, error.status) == (cls, "you sent ***", "odd", 200)
    told = "".join(traceback.format_exception(error))
    assert "This is odd: you sent ***" in told
    assert "s3cr3t" not in told
    assert error.__context__ is None


@pytest.mark.parametrize(
    "failure",
    [OverflowError("s3cr3t"), RecursionError("s3cr3t"), ValueError("Exceeds the limit (4300 digits): s3cr3t")],
    ids=lambda failure: type(failure).__name__,
)
def test_a_reply_that_breaks_its_parser_is_an_invalid_reply(failure: Exception) -> None:
    def parse(_: Response) -> str:
        raise failure

    error = error_of(make(FakeClock()), Call(Request("GET", "/thing"), parse), [Response(200, {}, b"1e999")])
    assert type(error) is InvalidReplyError
    assert f"cannot be read ({type(failure).__name__})" in error.message
    assert "s3cr3t" not in "".join(traceback.format_exception(error))


def test_no_reply_makes_a_long_message() -> None:
    def parse(response: Response) -> str:
        raise InvalidReplyError(f"Its kind is {response.text!r}.", reason=response.text)

    error = error_of(make(FakeClock()), Call(Request("GET", "/thing"), parse), [Response(200, {}, b"x" * 10_000_000)])
    assert len(repr(error.to_dict())) < 3_000
