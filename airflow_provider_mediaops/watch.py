"""What a sensor waits for, and the verdict of a reading. It loads no requests: constructors check with it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Ask, CallFlow


@dataclass(frozen=True, slots=True)
class Waiting:
    """The verdict that the condition is not met yet."""

    seen: str = ""  # for the log; the text stays the same while nothing changes
    # The most seconds until the next reading, if the condition may soon be met; None for the interval.
    within: float | None = None
    remark: str = ""  # a part of the condition that cannot be observed, for a warning in the log


@dataclass(frozen=True, slots=True)
class Done:
    """The verdict that the condition is met."""

    value: Any  # the result
    remark: str = ""  # as for :class:`Waiting`
    seen: str = ""  # as for :class:`Waiting`; empty for no line in the log


Verdict = Waiting | Done


class Watch(Protocol):
    """The condition that a sensor waits for, shared by ``poke`` and the trigger: a dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    #: Whether something that is not found any more may come back, as a node does that restarts.
    may_return: ClassVar[bool] = False

    @abstractmethod
    def look(self, ask: Ask) -> CallFlow[Any]:
        """Return a call flow that makes one reading; it raises a MediaOpsError if the service fails."""

    def judge(self, monotonic: Callable[[], float]) -> Callable[[Any], Verdict]:
        """Return the function that judges readings, of which None failed; here, the readings are verdicts."""
        return _given

    def result(self, value: Any) -> Any:
        """Return the sensor's result, small enough for XCom, from the value of the verdict."""
        return value


def _given(verdict: Verdict | None) -> Verdict:
    return verdict or Waiting()
