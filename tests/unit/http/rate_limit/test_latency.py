from __future__ import annotations

import random

import pytest

from airflow_provider_mediaops.http.rate_limit.latency import Latency

# What is told leaves out the 5 ms that are not noticed in any reply.


def test_of_the_first_reply_all_of_the_time_may_be_delay() -> None:
    assert Latency().delay(0.3) == pytest.approx(0.295)
    assert Latency().delay(0.003) == 0.0


def test_the_second_should_take_no_longer() -> None:
    latency = Latency()
    latency.delay(0.1)
    assert latency.delay(0.16) == pytest.approx(0.055)
    # What took longer has not become what is usual.
    assert latency.delay(0.5) == pytest.approx(0.395, abs=0.02)


def test_of_the_first_few_short_ones_all_of_the_time_may_be_delay_too() -> None:
    latency = Latency()
    # That of a process which wakes up late each time: what one takes that does not, is not known yet.
    assert [latency.delay(0.03) for _ in range(4)] == pytest.approx([0.025] * 4)
    assert latency.delay(0.03) == 0.0


def test_a_first_that_took_long_says_nothing_of_the_others() -> None:
    latency = Latency()
    latency.delay(0.4)
    assert latency.delay(0.002) == 0.0
    assert latency.delay(0.05) == pytest.approx(0.045)


def test_one_that_takes_longer_than_they_usually_do_is_noticed() -> None:
    latency = Latency()
    for _ in range(20):
        latency.delay(0.2)
    assert latency.delay(0.203) == 0.0
    assert latency.delay(0.26) == pytest.approx(0.055)
    # And again, for what was held up once says little of what is usual.
    assert latency.delay(0.26) == pytest.approx(0.055)


def test_where_they_always_differ_little_is_noticed() -> None:
    latency, chance = Latency(), random.Random(5)  # noqa: S311 no secret is made of it
    delays = [latency.delay(chance.uniform(0.2, 5.0)) for _ in range(300)]
    assert sum(delay > 0 for delay in delays[1:]) <= 3


def test_where_many_are_slower_it_is_the_service_that_works() -> None:
    latency, chance = Latency(), random.Random(5)  # noqa: S311 no secret is made of it
    delays = [latency.delay(chance.choice([0.01, 0.4])) for _ in range(300)]
    assert sum(delay > 0 for delay in delays[16:]) <= 9


def test_where_few_are_slower_they_were_held_up() -> None:
    latency = Latency()
    for _ in range(8):
        assert [latency.delay(seconds) for seconds in (0.2, 0.201, 0.2, 0.202, 0.2)][1:] == [0.0] * 4
        assert latency.delay(0.6) == pytest.approx(0.395)


def test_where_they_are_short_any_that_takes_longer_is_noticed() -> None:
    latency, chance = Latency(), random.Random(5)  # noqa: S311 no secret is made of it
    for _ in range(100):
        latency.delay(chance.choice([0.002, 0.002, 0.002, 0.02]))
    assert latency.delay(0.02) > 0.005
    assert latency.delay(0.005) == 0.0


def test_what_is_usual_changes_with_the_service() -> None:
    latency = Latency()
    for _ in range(20):
        latency.delay(0.1)
    slower = [latency.delay(1.0) for _ in range(60)]
    assert slower[0] > 0.8
    assert not any(slower[-20:])
