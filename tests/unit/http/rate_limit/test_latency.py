from __future__ import annotations

import random

import pytest

from airflow_provider_mediaops.http.rate_limit.latency import Latency


def counted(latency: Latency, *replies: float) -> list[float]:
    return [latency.delay(seconds) for seconds in replies]


def test_the_first_reply_counts_whole() -> None:
    # A name was looked up for it, and a connection made.
    assert Latency().delay(0.3) == pytest.approx(0.3)
    assert Latency().delay(0.003) == 0.0


def test_the_first_reply_over_a_connection_that_was_made_is_the_services_work() -> None:
    assert Latency().delay(0.3, was_connected=True) == 0.0
    # Unless it is so short that it may be all waiting.
    assert Latency().delay(0.02, was_connected=True) == pytest.approx(0.02)


def test_the_second_and_third_reply_may_differ_as_much_as_later_ones() -> None:
    latency = Latency()
    assert [latency.delay(seconds, was_connected=True) for seconds in (0.06, 0.1, 0.08, 0.3)] == pytest.approx(
        [0.0, 0.0, 0.0, 0.24]
    )


def test_a_first_reply_that_took_long_does_not_hide_later_ones() -> None:
    assert counted(Latency(), 0.4, 0.002, 0.05)[1:] == pytest.approx([0.0, 0.05])


def test_the_first_few_short_replies_count_whole() -> None:
    # A process that wakes up late each time: how fast a reply is otherwise is not known yet.
    assert counted(Latency(), *[0.02] * 5) == pytest.approx([0.02] * 4 + [0.0])


def test_a_reply_that_is_slower_than_usual_is_noticed() -> None:
    latency = Latency()
    counted(latency, *[0.2] * 20)
    # And again: being late once says little of what is usual.
    assert counted(latency, 0.203, 0.26, 0.26) == pytest.approx([0.0, 0.06, 0.06])


def test_the_jitter_of_a_service_is_not_taken_for_lateness() -> None:
    """80 ms ± 30 %: no reply is late."""
    latency, chance = Latency(), random.Random(5)  # noqa: S311 no secret is made of it
    delays = [latency.delay(chance.uniform(0.056, 0.104)) for _ in range(500)]
    assert sum(delay > 0 for delay in delays[16:]) <= 5


def test_a_late_reply_is_noticed_beside_the_jitter() -> None:
    latency, chance = Latency(), random.Random(5)  # noqa: S311 no secret is made of it
    for _ in range(50):
        latency.delay(chance.uniform(0.056, 0.104))
    assert latency.delay(0.08 + 0.2) > 0.2


def test_a_service_that_takes_any_time_is_never_late() -> None:
    latency, chance = Latency(), random.Random(5)  # noqa: S311 no secret is made of it
    delays = [latency.delay(chance.uniform(0.2, 5.0)) for _ in range(300)]
    assert sum(delay > 0 for delay in delays[1:]) <= 3


def test_if_many_replies_are_slower_the_service_works() -> None:
    latency, chance = Latency(), random.Random(5)  # noqa: S311 no secret is made of it
    delays = [latency.delay(chance.choice([0.01, 0.4])) for _ in range(300)]
    assert sum(delay > 0 for delay in delays[16:]) <= 9


def test_if_few_replies_are_slower_they_were_late() -> None:
    latency = Latency()
    for _ in range(8):
        assert counted(latency, 0.2, 0.201, 0.2, 0.202, 0.2)[1:] == [0.0] * 4
        assert latency.delay(0.6) == pytest.approx(0.4)


def test_a_rate_store_is_late_whenever_it_takes_longer() -> None:
    """On a machine that is so busy that answers differ widely."""
    latency, chance = Latency(has_work=False), random.Random(5)  # noqa: S311 no secret is made of it
    for _ in range(50):
        latency.delay(chance.choice([0.002, 0.1, 0.2]))
    assert latency.delay(0.1) == pytest.approx(0.098)


def test_short_replies_of_a_busy_machine_are_noticed() -> None:
    latency, chance = Latency(), random.Random(5)  # noqa: S311 no secret is made of it
    for _ in range(100):
        latency.delay(chance.choice([0.002, 0.002, 0.02]))
    assert latency.delay(0.02) == pytest.approx(0.018)
    assert latency.delay(0.005) == 0.0


def test_what_is_usual_changes_with_the_service() -> None:
    latency = Latency()
    counted(latency, *[0.1] * 20)
    slower = counted(latency, *[1.0] * 60)
    assert slower[0] > 0.8
    assert not any(slower[-20:])
