"""
The schedule of a key: who may send when. Pure: a state, the time and a question give the next state and an answer.

The key has a clock of its own. It runs along with the back end's clock, stands still during a pause, and runs slower
after a refusal. A slot is a reading of this clock. So a pause or a lower speed moves all callers that wait, keeps their
order, and costs no request to the back end.

1. A caller *reserves* the next free slot and sleeps until it is due. So callers are served in turn, evenly spaced.
2. It then *confirms* the slot. The log of the latest sends decides: no window holds more of them than the limit,
   however late callers wake up. A caller that finds the window full comes back later and confirms again.
3. A request that left late, because a connection had to be opened, moves its entry in the log.

Times are seconds of the back end's clock. Callers get seconds from now, so their own clocks do not matter. Rates are
requests a second.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TypeAlias

#: Slots are this much wider than the rate allows, and the window that much longer, which absorbs jitter on the way. The
#: difference lets requests that fell behind their slots catch up.
GUARD, WINDOW_GUARD = 1.03, 1.02
#: The largest number of sends in a window; a faster rate is counted over less than a second.
MOST_IN_WINDOW = 256
#: Waits shorter than this are not slept.
NEGLIGIBLE_SECONDS = 0.0005
#: Sends may fall this far behind their slots before the key's clock stops to wait for them.
BEHIND_SECONDS = 0.2
#: Slots that passed unused may be taken for this long. So a single caller that is held up now and then uses 97 % of a
#: key of 50 a second; without this, 90 %.
CATCH_UP_SECONDS = 0.3
#: A refusal multiplies the speed by SLOWER, down to LEAST_SPEED. Each second with requests adds FASTER.
SLOWER, LEAST_SPEED, FASTER, FASTER_SECONDS = 0.7, 1 / 16, 0.05, 1.0
#: Refusals of unknown requests within this time count once.
SAME_BURST_SECONDS = 1.0
#: No slot is reserved further ahead than this time or, at a slow rate, this number of slots.
HORIZON_SECONDS, HORIZON_SLOTS = 3600.0, 10
#: An exhausted quota is believed this much longer than the service says, because clocks differ.
QUOTA_GRACE_SECONDS = 2.0
#: The longest pause, whatever the service asks for. After it, a request tests whether the limit still holds.
LONGEST_PAUSE_SECONDS = 86_400.0
#: A clock that was set back by less than this is taken to stand still; by more, the schedule begins anew.
CLOCK_STEP_SECONDS = 1.0
#: No schedule has a longer text, or a faster rate.
LONGEST_TEXT, FASTEST_RATE = 16_384, 100_000.0


@dataclass(frozen=True)
class Schedule:
    """The state that all who use a key share. Slots are readings of the key's clock."""

    reading: float  # of the key's clock at the time ``at``
    at: float  # the key's clock stands still until this time, and runs from then on
    next_free: float  # the first slot that nobody has reserved
    # The fastest of the connections that use the key at present: it decides how many sends a window may hold. The slots
    # of each lie as far apart as its own rate demands.
    rate: float
    speed: float = 1.0  # of the key's clock; below 1 after a refusal
    faster_at: float = 0.0  # the time when the speed last changed
    slowed_at: float = 0.0  # the time when a refusal last lowered the speed
    again_at: float = 0.0  # the time when the latest caller that found the window full comes back
    blocked_until: float = 0.0  # the reset of an exhausted quota
    sent: tuple[float, ...] = ()  # the times of the sends in the latest window, in order


@dataclass(frozen=True, slots=True)
class Granted:
    """Permission to send at once. The time is the entry in the log."""

    at: float


@dataclass(frozen=True, slots=True)
class Later:
    """A slot that is to be confirmed in so many seconds."""

    slot: float
    seconds: float


@dataclass(frozen=True, slots=True)
class QuotaExhausted:
    """The key's quota is used up, and restored in so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class BookedOut:
    """Nothing was reserved: the next free slot is so many seconds away."""

    seconds: float


Answer: TypeAlias = Granted | Later | QuotaExhausted | BookedOut


def begin(now: float, rate: float, *, at_once: bool = False) -> Schedule:
    """
    Begin a schedule.

    Its first slot is due at once, or else a window away, because nobody knows the sends of a schedule that was lost.
    """
    return Schedule(reading=now, at=now if at_once else now + _window(rate)[1], next_free=now, rate=rate)


def reserve(schedule: Schedule, now: float, rate: float) -> tuple[Schedule, Answer]:
    """Reserve the next free slot, and confirm it if it is due."""
    if schedule.blocked_until > now:
        return schedule, QuotaExhausted(schedule.blocked_until - now)
    if schedule.speed < 1.0 and now - schedule.faster_at >= FASTER_SECONDS:
        schedule = _at_speed(schedule, now, min(1.0, schedule.speed + FASTER))
    gap, (_, window) = GUARD / rate, _window(rate)
    reading, next_free, fastest = reading_at(schedule, now), schedule.next_free, max(rate, schedule.rate)
    if now - max((schedule.at, *schedule.sent[-1:])) > window + 2 * gap / schedule.speed:
        # Slots were due and nobody came: those who reserved them have died. If one lives, it reserves again.
        next_free, fastest = min(next_free, reading), rate
    slot = max(reading - max(0.0, CATCH_UP_SECONDS - gap), next_free)
    if (slot - reading) / schedule.speed > max(HORIZON_SECONDS, HORIZON_SLOTS * gap):
        return schedule, BookedOut(_seconds_until(schedule, now, slot))
    return confirm(replace(schedule, next_free=slot + gap, rate=fastest), now, rate, slot)


def confirm(schedule: Schedule, now: float, rate: float, slot: float) -> tuple[Schedule, Answer]:
    """Permit a request in a slot, if the slot is due and the window has room."""
    if schedule.blocked_until > now:
        return schedule, QuotaExhausted(schedule.blocked_until - now)
    if slot >= schedule.next_free:
        # The state that had this reservation is lost.
        return reserve(schedule, now, rate)
    seconds = _seconds_until(schedule, now, slot)
    if seconds > NEGLIGIBLE_SECONDS:
        return schedule, Later(slot, seconds)
    limit, window = _window(max(rate, schedule.rate))
    room_at = schedule.sent[-limit] + window if len(schedule.sent) >= limit else now
    if room_at - now > NEGLIGIBLE_SECONDS:
        # Callers come back one after the other: together, they would all ask for the same place.
        again_at = max(room_at, schedule.again_at + window / limit)
        schedule = replace(schedule, again_at=again_at)
        return _paused(schedule, now, again_at - BEHIND_SECONDS), Later(slot, again_at - now)
    recent = [moment for moment in schedule.sent if moment > now - window]
    return replace(schedule, sent=(*recent, now)[-MOST_IN_WINDOW:]), Granted(now)


def sent_late(schedule: Schedule, now: float, at: float, delay: float) -> Schedule:
    """Move an entry of the log, because its request left so many seconds after it was permitted."""
    if at not in schedule.sent:
        return schedule
    sent = list(schedule.sent)
    sent.remove(at)
    return replace(schedule, sent=tuple(sorted([*sent, min(at + delay, now)])))


def slow_down(schedule: Schedule, now: float, at: float | None, pause: float) -> Schedule:
    """
    Pause after a refusal, and lower the speed: once for all requests that were permitted before.

    If it is not known when the request was permitted, it is taken to be SAME_BURST_SECONDS ago.
    """
    schedule = _paused(schedule, now, now + min(pause, LONGEST_PAUSE_SECONDS))
    if (now - SAME_BURST_SECONDS if at is None else at) <= schedule.slowed_at:
        return schedule
    return replace(_at_speed(schedule, now, max(LEAST_SPEED, schedule.speed * SLOWER)), slowed_at=now)


def exhaust(schedule: Schedule, now: float, seconds: float) -> Schedule:
    """Permit nothing until the quota is restored in so many seconds."""
    until = now + min(seconds, LONGEST_PAUSE_SECONDS) + QUOTA_GRACE_SECONDS
    return replace(schedule, blocked_until=max(schedule.blocked_until, until))


def restore(schedule: Schedule, now: float) -> Schedule:
    """Permit requests again, because the service answers although the quota was exhausted."""
    return schedule if schedule.blocked_until <= now else replace(schedule, blocked_until=now)


def reading_at(schedule: Schedule, now: float) -> float:
    """Return what the key's clock reads."""
    return schedule.reading + max(0.0, now - schedule.at) * schedule.speed


def to_text(schedule: Schedule) -> str:
    """Return a state as JSON."""
    return json.dumps(vars(schedule))


def from_text(text: str, now: float) -> Schedule | None:
    """Read a state; None if it is not that of a schedule, or if the clock was set back since."""
    try:
        fields = json.loads(text) if len(text) <= LONGEST_TEXT else {}
        figures = {name: float(number) for name, number in fields.items() if name != "sent"}
        sent = tuple(map(float, fields["sent"]))
        schedule = Schedule(**figures, sent=sent)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError):
        return None
    # A damaged state would stop all who use the key, perhaps for ever.
    ahead = max(schedule.at, schedule.again_at, schedule.blocked_until, schedule.faster_at)
    is_sound = (
        all(map(math.isfinite, (*figures.values(), *sent)))
        and LEAST_SPEED <= schedule.speed <= 1.0
        and 1 / FASTEST_RATE <= schedule.rate <= FASTEST_RATE
        and schedule.reading <= schedule.at
        and schedule.next_free - reading_at(schedule, now) <= LONGEST_PAUSE_SECONDS
        and ahead - now <= 2 * LONGEST_PAUSE_SECONDS
        and max((schedule.slowed_at, *sent)) - now <= CLOCK_STEP_SECONDS
        and list(sent) == sorted(sent)
        and len(sent) <= MOST_IN_WINDOW
    )
    return schedule if is_sound else None


def _window(rate: float) -> tuple[int, float]:
    """Return how many sends a window may hold, and its length."""
    limit = min(max(1, int(rate)), MOST_IN_WINDOW)
    return limit, WINDOW_GUARD * limit / rate


def _seconds_until(schedule: Schedule, now: float, slot: float) -> float:
    """Return how soon a slot may be due: sooner than at the present speed, if that recovers as fast as it can."""
    ahead, speed, gain = max(0.0, slot - reading_at(schedule, now)), schedule.speed, FASTER / FASTER_SECONDS
    seconds = (math.sqrt(speed**2 + 2 * gain * ahead) - speed) / gain
    recovered = (1.0 - speed) / gain
    if seconds > recovered:
        seconds = ahead + (1.0 - speed) * recovered / 2
    return max(0.0, schedule.at - now) + seconds


def _paused(schedule: Schedule, now: float, until: float) -> Schedule:
    if until <= max(now, schedule.at):
        return schedule
    return replace(schedule, reading=reading_at(schedule, now), at=until)


def _at_speed(schedule: Schedule, now: float, speed: float) -> Schedule:
    at = max(now, schedule.at)
    return replace(schedule, reading=reading_at(schedule, now), at=at, speed=speed, faster_at=at)
