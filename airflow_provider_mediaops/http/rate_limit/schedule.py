"""
The schedule of a key's slots: what a store keeps for all who use the key, and how it changes. No clock and no store.

The stores that keep it in Python apply these operations as they are; ``schedule.lua`` says the same in the language
of Redis, and one table of tests holds all of them together. Times are seconds on the clock of the store; what a caller
is told are seconds from now, so that its own clock does not matter.

A slot stands at a *position*, which does not change. When all slots have to be put off, for a pause that the service
asked for or because requests have fallen behind, only the shift from positions to times grows: those who wait keep
their order. Slots are what makes requests evenly spaced and fair; that no second holds too many, even where a caller
wakes up late, is seen to by the log of the latest requests when one is about to be sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeVar

#: A slot that moved by less is used as it is.
MOVED = 0.002
#: A wait that is not worth sleeping for.
NOTHING = 0.0005
#: Slots that passed unused within this time, where they are that close, are given to who comes late for them.
CATCH_UP = 0.1
#: A caller that comes so much later has lost its slot: others have passed it by.
TOO_LATE = 0.5
#: By so much requests may fall behind their slots, before all slots are put off. If they fell behind by a second, one
#: would be given its time before it is known that another was late.
BEHIND = 0.2
#: What a limit reply makes of the pace, and the least that is left of it.
BACK_OFF, LEAST_PACE = 0.7, 1 / 16
#: By how much of the rate the pace recovers, and how many seconds apart, as long as requests are made.
RECOVERY, RECOVERY_EVERY = 0.05, 1.0
#: A limit that is told without naming the request counts once in so many seconds.
ONE_LIMIT = 1.0
#: Seconds after a quota's reset, for clocks that do not quite agree.
GRACE = 2.0
#: What the clock of every store can tell from no time at all.
LATER = 0.000001


@dataclass(frozen=True, slots=True)
class Slot:
    """
    When a caller may come back to send.

    :param epoch: the epoch of the schedule that gave it.
    :param position: where it stands in the schedule.
    :param due: its time when it was given or last looked at.
    :param wait: the seconds until then.
    """

    epoch: float
    position: float
    due: float
    wait: float


@dataclass(frozen=True, slots=True)
class Granted:
    """
    That a caller may send.

    :param epoch: the epoch of the schedule.
    :param at: the time of the request in the schedule's log.
    :param wait: the seconds until then; 0.0 but where a request before it was late.
    """

    epoch: float
    at: float
    wait: float


@dataclass(frozen=True, slots=True)
class QuotaExhausted:
    """
    That the key's quota is used up.

    :param seconds: until it comes back.
    """

    seconds: float


# What comes of an operation.
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Schedule:
    """
    What all who use a key share.

    :param epoch: since when slots are given as they are now; a slot of another epoch is void.
    :param seen: the latest time at which it was changed.
    :param shift: seconds from a position to its time.
    :param resumes: the end of the pause, where slots are put off; in the past otherwise.
    :param next_free: the position of the next free slot.
    :param pace: the share of the rate that is used.
    :param paced: when that last changed.
    :param blocked_until: when the key's quota comes back, where it is used up; in the past otherwise.
    :param sent: when the latest requests were sent, the latest last.
    """

    epoch: float
    seen: float
    shift: float
    resumes: float
    next_free: float
    pace: float
    paced: float
    blocked_until: float
    sent: tuple[float, ...] = ()

    @classmethod
    def begin(cls, now: float, quiet: float) -> Schedule:
        """
        Begin a schedule.

        :param now: the time.
        :param quiet: seconds before its first slot: where one was lost, requests may just have been sent.
        :returns: the schedule, with no slot taken.
        """
        return cls(
            epoch=now, seen=now, shift=quiet, resumes=now + quiet, next_free=now, pace=1.0, paced=now, blocked_until=0.0
        )

    def as_of(self, now: float) -> Schedule:
        """Give the schedule as it stands at a time; where the clock was set back, all that is to come goes with it."""
        if now >= self.seen:
            return self
        back = now - self.seen
        return replace(
            self,
            seen=now,
            shift=self.shift + back,
            resumes=self.resumes + back,
            paced=self.paced + back,
            blocked_until=self.blocked_until + back,
            sent=tuple(moment + back for moment in self.sent),
        )

    def position(self, now: float) -> float:
        """Give the position that is reached at a time."""
        return max(now, self.resumes) - self.shift

    def put_off(self, now: float, until: float) -> Schedule:
        """Put off all slots to come, the first of them to a time; nothing is done where they are already."""
        by = until - max(now, self.resumes)
        return replace(self, shift=self.shift + by, resumes=until) if by > 0 else self

    def due(self, held: Slot, now: float) -> float | None:
        """Give the time of a slot that was taken; None where it does not hold any more."""
        # A position that is free again is one that the store has forgotten to have given.
        if held.epoch != self.epoch or held.position >= self.next_free:
            return None
        due = held.position + self.shift
        if max(now, self.resumes) - due > TOO_LATE:
            return None
        # One that had just passed when all were put off comes at the end of the pause.
        return due if now >= self.resumes else max(due, self.resumes)


class Operation(Protocol[A_co]):
    """What is done with a schedule, in one step that nothing comes between."""

    #: Its name in ``schedule.lua``.
    name: ClassVar[str]

    def apply(self, schedule: Schedule, now: float) -> tuple[Schedule, A_co]:
        """Give the schedule as it is afterwards, and the answer."""
        ...

    def figures(self) -> tuple[float | None, ...]:
        """Give its parameters, in the order in which ``schedule.lua`` reads them."""
        ...


def applied(operation: Operation[A], schedule: Schedule | None, now: float, quiet: float = 0.0) -> tuple[Schedule, A]:
    """
    Do something with a schedule.

    :param operation: what to do.
    :param schedule: the schedule; None where the store has none, so that one begins.
    :param now: the time.
    :param quiet: seconds before the first slot of one that begins.
    :returns: the schedule as it is afterwards, and the answer.
    """
    return operation.apply((schedule or Schedule.begin(now, quiet)).as_of(now), now)


@dataclass(frozen=True, slots=True)
class Reserve:
    """
    Take the next free slot, or come back for the slot that was taken; where it is time, send.

    :param gap: seconds from this slot to the next, at full pace.
    :param most: how many requests may be sent ``within`` some time.
    :param within: that time in seconds.
    :param held: the slot that was waited for.
    """

    gap: float
    most: int
    within: float
    held: Slot | None = None
    name: ClassVar[str] = "reserve"

    def apply(self, schedule: Schedule, now: float) -> tuple[Schedule, Slot | Granted | QuotaExhausted]:
        """Give the schedule as it is afterwards, and what the caller may do."""
        if schedule.blocked_until > now:
            return schedule, QuotaExhausted(schedule.blocked_until - now)
        held = self.held
        due = schedule.due(held, now) if held else None
        if held is None or due is None:
            return self._take(schedule, now)
        if due > now and due - held.due > MOVED:
            return schedule, replace(held, due=due, wait=due - now)
        return self._send(schedule, now)

    def _take(self, schedule: Schedule, now: float) -> tuple[Schedule, Slot | Granted]:
        pace, paced = schedule.pace, schedule.paced
        if pace < 1.0 and now - paced >= RECOVERY_EVERY:
            pace, paced = min(1.0, pace + RECOVERY), now
        gap = self.gap / pace
        missed = max(0.0, CATCH_UP - gap) if now >= schedule.resumes else 0.0
        position = max(schedule.next_free, schedule.position(now) - missed)
        due = position + schedule.shift
        after = replace(schedule, seen=now, next_free=position + gap, pace=pace, paced=paced)
        if due - now <= NOTHING:
            return self._send(after, now)
        return after, Slot(schedule.epoch, position, due, due - now)

    def _send(self, schedule: Schedule, now: float) -> tuple[Schedule, Granted]:
        sent = schedule.sent
        at = max(now, sent[-self.most] + self.within) if len(sent) >= self.most else now
        # A caller with a slower rate of its own leaves the log as long as others need it, and waits without them.
        recent = sum(moment > now - self.within for moment in sent)
        log = tuple(sorted((*sent, at)))[-max(self.most, recent) :]
        behind = max(0.0, at - now - BEHIND) if recent <= self.most else 0.0
        return replace(schedule, seen=now, shift=schedule.shift + behind, sent=log), Granted(
            schedule.epoch, at, at - now
        )

    def figures(self) -> tuple[float | None, ...]:
        """Give the parameters."""
        held = (self.held.epoch, self.held.position, self.held.due) if self.held else (None, None, None)
        return (self.gap, self.most, self.within, *held)


@dataclass(frozen=True, slots=True)
class Delayed:
    """
    Say that a request may have reached the service late, so that those behind keep their distance from it.

    :param at: its time in the schedule's log.
    :param by: the seconds by which it may have been late.
    """

    at: float
    by: float
    name: ClassVar[str] = "delayed"

    def apply(self, schedule: Schedule, now: float) -> tuple[Schedule, None]:
        """Give the schedule as it is afterwards."""
        late = self.at + min(self.by, TOO_LATE)
        sent = tuple(sorted(late if moment == self.at else moment for moment in schedule.sent))
        return replace(schedule, sent=sent), None

    def figures(self) -> tuple[float | None, ...]:
        """Give the parameters."""
        return (self.at, self.by)


@dataclass(frozen=True, slots=True)
class SlowDown:
    """
    Give out fewer slots, because the service said that the limit is reached.

    What was sent before the last slowing down tells nothing new: the requests of one burst slow down once.

    :param gap: seconds from one slot to the next, at full pace.
    :param pause: seconds in which nothing is sent at all, as the service asked for.
    :param epoch: that of the request that was refused; None where it is not known.
    """

    gap: float
    pause: float = 0.0
    epoch: float | None = None
    name: ClassVar[str] = "slow_down"

    def apply(self, schedule: Schedule, now: float) -> tuple[Schedule, None]:
        """Give the schedule as it is afterwards."""
        schedule = replace(schedule.put_off(now, now + self.pause), seen=now)
        is_news = abs(now - schedule.epoch) >= ONE_LIMIT if self.epoch is None else self.epoch == schedule.epoch
        if not is_news or schedule.pace <= LEAST_PACE:
            return schedule, None
        pace = max(LEAST_PACE, schedule.pace * BACK_OFF)
        after = replace(
            schedule,
            # Those who wait are given new slots when they come for theirs, so that they are slower too.
            epoch=max(now, schedule.epoch + LATER),
            next_free=schedule.position(now) + self.gap / pace,
            pace=pace,
            paced=max(now, schedule.resumes),
        )
        return after, None

    def figures(self) -> tuple[float | None, ...]:
        """Give the parameters."""
        return (self.gap, self.pause, self.epoch)


@dataclass(frozen=True, slots=True)
class Cooldown:
    """
    Give out no slot for a while, because the store may have lost the latest ones.

    :param seconds: how long.
    """

    seconds: float
    name: ClassVar[str] = "cooldown"

    def apply(self, schedule: Schedule, now: float) -> tuple[Schedule, None]:
        """Give the schedule as it is afterwards."""
        return schedule.put_off(now, now + self.seconds), None

    def figures(self) -> tuple[float | None, ...]:
        """Give the parameters."""
        return (self.seconds,)


@dataclass(frozen=True, slots=True)
class ExhaustQuota:
    """
    Give out no slot until the key's quota comes back.

    :param seconds: until then.
    """

    seconds: float
    name: ClassVar[str] = "exhaust_quota"

    def apply(self, schedule: Schedule, now: float) -> tuple[Schedule, None]:
        """Give the schedule as it is afterwards."""
        until = max(schedule.blocked_until, now + self.seconds + GRACE)
        return replace(schedule, seen=now, blocked_until=until), None

    def figures(self) -> tuple[float | None, ...]:
        """Give the parameters."""
        return (self.seconds,)


@dataclass(frozen=True, slots=True)
class RestoreQuota:
    """Give out slots again, because the service answers although the quota was used up."""

    name: ClassVar[str] = "restore_quota"

    def apply(self, schedule: Schedule, now: float) -> tuple[Schedule, None]:
        """Give the schedule as it is afterwards."""
        return replace(schedule, blocked_until=min(schedule.blocked_until, now)), None

    def figures(self) -> tuple[float | None, ...]:
        """Give no parameters, for there are none."""
        return ()
