"""
The schedule of a key: the state that a store keeps for all who use the key. ``operations`` change it. Pure.

Times are seconds on the store's clock. Callers get seconds from now, so their own clocks do not matter.

1. A caller *reserves* the next free slot and sleeps until it is due. Slots make requests evenly spaced and fair.
2. It then *confirms* the slot. The log of the latest requests decides whether it may send at once: no window holds more
   requests than the limit, however late callers wake up. Otherwise it enters the earliest possible time into the log,
   sleeps until then, and confirms again. So no caller sends after a sleep without confirming.
3. A request that may have reached the service late moves its entry in the log, after its reply came late.

What a constant earns was measured with many callers in made-up time (tests/unit/http/rate_limit/test_together.py).

A slot has a *position*, which never changes. Its time is the position plus the shift. A pause, or requests that fall
behind their slots, increase the shift: all waiting callers are put off and keep their order, however many they are, and
without asking the store. Without the shift by requests that fall behind, 5 of 2,000 requests of a thousand callers are
refused, and 2 after an outage of the store; with it, none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Waits shorter than this are not slept.
NEGLIGIBLE_SECONDS = 0.0005
#: A caller that confirms its slot later than this has lost it, and reserves another. If it kept the slot, a third more
#: requests would be refused on a machine that stalls for seconds.
SLOT_LOST_SECONDS = 0.5
#: Slots that passed unused may still be taken for this long. The log prevents bursts. A single caller that is held up
#: now and then uses 98 % of a key of 50 a second; without this, 91 %.
CATCH_UP_SECONDS = 0.5
#: A caller that confirms this little late counts as punctual: the guard band absorbs it. This earns 0.1 to 0.3 % of the
#: rate.
PUNCTUAL_SECONDS = 0.003
#: Requests may fall this far behind their slots before all slots are put off. With more, requests bunch and are refused
#: on a busy machine: 11 of 7,000 with 0.5 s, and none with this. With less, one late request holds up others that need
#: not wait for it: 0.1 s costs 0.8 % of the rate.
BEHIND_SECONDS = 0.2
#: A rate limit reply multiplies the rate by DECREASE, down to LEAST_FACTOR. While requests are made, the factor
#: recovers by RECOVERY every RECOVERY_SECONDS.
DECREASE, LEAST_FACTOR = 0.7, 1 / 16
RECOVERY, RECOVERY_SECONDS = 0.05, 1.0
#: Rate limit replies to unknown requests count once within this time.
SAME_BURST_SECONDS = 1.0
#: A quota is taken to be exhausted this much longer than the service says, because clocks differ.
QUOTA_GRACE_SECONDS = 2.0
#: A clock that is set back by no more than this is taken to stand still. After a larger step the schedule begins anew.
CLOCK_STEP_SECONDS = 1.0
#: The smallest difference of two times that every store can represent.
TICK_SECONDS = 0.000001
#: The maximum number of released slots that are kept for reuse. Further ones pass unused.
MOST_VACANT = 1000
#: The maximum number of entries in the log; more than the limit of any caller, so that only old ones are dropped.
MOST_SENT = 1000
#: The longest pause and the longest time without quota, whatever the service asks for. After it, a request tests
#: whether the limit still holds.
LONGEST_PAUSE_SECONDS = 86_400.0
#: No time of a schedule lies further ahead: the longest pause, and behind it the slots of the slowest rate.
FURTHEST_SECONDS = 2 * LONGEST_PAUSE_SECONDS
#: The maximum of the shift: thirty years of pauses. With more, times would lose their microseconds.
MOST_SHIFT_SECONDS = 1e9

#: The names of the constants that ``schedule.lua`` is given.
CONSTANTS = (
    "NEGLIGIBLE_SECONDS",
    "SLOT_LOST_SECONDS",
    "CATCH_UP_SECONDS",
    "PUNCTUAL_SECONDS",
    "BEHIND_SECONDS",
    "DECREASE",
    "LEAST_FACTOR",
    "RECOVERY",
    "RECOVERY_SECONDS",
    "SAME_BURST_SECONDS",
    "QUOTA_GRACE_SECONDS",
    "CLOCK_STEP_SECONDS",
    "TICK_SECONDS",
    "MOST_VACANT",
    "MOST_SENT",
    "FURTHEST_SECONDS",
    "MOST_SHIFT_SECONDS",
)


@dataclass(frozen=True, slots=True)
class Slot:
    """
    A reservation: when the caller may come back to confirm.

    :param epoch: the epoch of the schedule that gave it.
    :param position: its place in the schedule.
    :param due: its time on the store's clock.
    :param wait: seconds until then.
    :param entry: the caller's entry in the log, if the log put it off; None otherwise.
    """

    epoch: float
    position: float
    due: float
    wait: float
    entry: float | None = None


@dataclass(frozen=True, slots=True)
class Granted:
    """
    Permission to send at once.

    :param epoch: the epoch of the schedule.
    :param at: the request's entry in the log.
    """

    epoch: float
    at: float


@dataclass(frozen=True, slots=True)
class QuotaExhausted:
    """
    The key's quota is used up.

    :param seconds: until it is restored.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Overbooked:
    """
    No slot is free before the horizon. Nothing was reserved.

    :param seconds: until the next free slot.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """
    The state that all who use a key share.

    :param epoch: the time when all earlier slots became void; slots of another epoch are void.
    :param seen: the time of the latest change.
    :param shift: seconds from a position to its time.
    :param paused_until: the end of the latest pause; no request before.
    :param next_free: the position after the last slot.
    :param rate_factor: the share of the rate that is used.
    :param recovered_at: when the factor last changed.
    :param blocked_until: when the key's quota is restored, if it is exhausted; in the past otherwise.
    :param vacant: positions of released slots, in order.
    :param sent: the log: when the latest requests may have reached the service, in order.
    """

    epoch: float
    seen: float
    shift: float
    paused_until: float
    next_free: float
    rate_factor: float
    recovered_at: float
    blocked_until: float
    vacant: tuple[float, ...] = ()
    sent: tuple[float, ...] = ()

    @classmethod
    def begin(cls, now: float, cooldown: float) -> Schedule:
        """
        Begin a schedule.

        :param now: the time.
        :param cooldown: seconds before its first slot, because requests of a lost schedule may just have been sent.
        :returns: the schedule, with no slot taken.
        """
        return cls(
            epoch=now,
            seen=now,
            shift=0.0,
            paused_until=now + cooldown,
            next_free=now,
            rate_factor=1.0,
            recovered_at=now,
            blocked_until=0.0,
        )

    def restarted(self, now: float, cooldown: float, ahead: float) -> Schedule:
        """
        Begin anew on a clock that was set, and keep the quota and the rate factor.

        :param now: the time on the clock as it is now.
        :param cooldown: seconds before the first slot.
        :param ahead: by how many seconds the former clock was ahead.
        :returns: the new schedule.
        """
        return replace(
            Schedule.begin(now, cooldown), rate_factor=self.rate_factor, blocked_until=self.blocked_until - ahead
        )

    def is_plausible(self, now: float) -> bool:
        """
        Return whether operations may have made this schedule.

        A damaged one would stop all who use the key, perhaps for ever. No time in the past does, however old.

        :param now: the time. After the clock was set back, the time of the latest change counts instead.
        """
        ahead = max(now, self.seen) + FURTHEST_SECONDS
        times = (self.epoch, self.paused_until, self.next_free + self.shift, self.recovered_at, self.blocked_until)
        return (
            LEAST_FACTOR <= self.rate_factor <= 1.0
            and 0.0 <= self.shift <= MOST_SHIFT_SECONDS
            and max(*times, *self.sent[-1:]) <= ahead
            # Slots that are free again lie before the last one.
            and max(self.vacant, default=self.next_free) <= self.next_free
            and len(self.vacant) <= MOST_VACANT
            and len(self.sent) <= MOST_SENT
        )

    def position(self, now: float) -> float:
        """Return the position that is due at a time."""
        return max(now, self.paused_until) - self.shift

    def put_off(self, now: float, until: float) -> Schedule:
        """Put off all future slots, the first of them to a time. Do nothing if they are already."""
        by = until - max(now, self.paused_until)
        return replace(self, shift=self.shift + by, paused_until=until) if by > 0 else self
