"""What works beside a soak ends with it, and its error is not lost."""

from __future__ import annotations

import threading

import pytest

from tests.soak.background import Background


class Counting(Background):
    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error
        self.begun = threading.Event()
        self.has_ended = False

    def work(self) -> None:
        self.begun.set()
        if self.error:
            raise self.error
        assert self.over.wait(240)
        self.has_ended = True


def in_a_block(counting: Counting, error: Exception | None = None) -> None:
    """Let it work, and end the block by itself or by an error."""
    with counting:
        assert counting.begun.wait(240)
        assert not counting.has_ended
        if error:
            raise error


def test_it_works_until_the_block_ends() -> None:
    counting = Counting()
    in_a_block(counting)

    assert counting.has_ended


def test_its_error_is_raised_where_the_block_ends() -> None:
    with pytest.raises(OSError, match="gone"):
        in_a_block(Counting(OSError("gone")))


def test_an_error_of_the_block_is_not_replaced() -> None:
    with pytest.raises(ValueError, match="of the block"):
        in_a_block(Counting(OSError("gone")), ValueError("of the block"))
