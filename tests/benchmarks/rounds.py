"""Contenders that take turns, so that a busy moment of the machine does not fall on one of them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


def in_rounds(
    contenders: Mapping[str, Callable[[], T]], rounds: int, *, has_practice: bool = True
) -> dict[str, list[T]]:
    """
    Measure each contender once a round.

    :param rounds: how many rounds count.
    :param has_practice: whether a round goes before them, which writes byte code and loads what is loaded once.
    """
    if has_practice:
        for measure in contenders.values():
            measure()
    found: dict[str, list[T]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            found[name].append(measure())
    return found
