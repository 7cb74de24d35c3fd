"""A set of many texts in little memory."""

from __future__ import annotations

from array import array
from mmap import MADV_DONTNEED, mmap
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIRST_SIZE = 1024
# Moving all of it takes as long as what was added; a table of 2 MB may rather be too large for a while.
_SMALL = 1 << 18
# What a large table has in memory is let go of after so many texts, each of which may have brought in 64 kB; and after
# so many slots when it is moved.
_BETWEEN, _A_PART = 64, 1 << 15
_ZEROS = bytes(1 << 16)


class FingerprintSet:
    """
    A set that keeps 8 bytes of each text, and can only grow.

    The first 170,000 texts take up to 3 MB of memory. From there on it is kept in a temporary file (a million texts
    take 17 MB on the disk), where one can be had, and takes no more. Two texts pass for one with a probability of 1 to
    2⁶⁴; that any two of a million do, with 1 to 37 million. It is a table with open addressing.

    :param in_memory: the largest table that is kept in memory, in slots of 8 bytes; a power of 2.
    """

    def __init__(self, in_memory: int = _SMALL) -> None:
        self._in_memory = in_memory
        self._slots: array[int] | memoryview[int] = array("q", bytes(8 * _FIRST_SIZE))
        self._mapped: mmap | None = None
        self._count = 0
        self._most = 2 * _FIRST_SIZE // 3
        self._until_release = _BETWEEN

    def __len__(self) -> int:
        return self._count

    def add(self, texts: Iterable[str]) -> list[bool]:
        """
        Add texts.

        :param texts: what to add.
        :returns: of each whether it is new.
        """
        slots = self._slots
        mask = len(slots) - 1
        new: list[bool] = []
        for text in texts:
            # 0 marks a free slot.
            fingerprint = hash(text) or 1
            at = fingerprint & mask
            while (there := slots[at]) and there != fingerprint:
                at = (at + 1) & mask
            new.append(not there)
            if not there:
                slots[at] = fingerprint
                self._count += 1
                if self._count > self._most:
                    slots = self._grown()
                    mask = len(slots) - 1
        self._until_release -= len(new)
        if self._until_release <= 0:
            self._release()
        return new

    def _grown(self) -> array[int] | memoryview[int]:
        before, mapped = self._slots, self._mapped
        size = len(before)
        mask = (4 if size < _SMALL else 2) * size - 1
        slots = self._table(mask + 1)
        for place, fingerprint in enumerate(before):
            if fingerprint:
                at = fingerprint & mask
                while slots[at]:
                    at = (at + 1) & mask
                slots[at] = fingerprint
            if not place % _A_PART:
                self._release()
                if mapped:
                    mapped.madvise(MADV_DONTNEED)
        self._slots = slots
        self._most = 2 * mask // 3
        return slots

    def _table(self, size: int) -> array[int] | memoryview[int]:
        self._mapped = None
        if size > self._in_memory:
            try:
                with TemporaryFile(prefix="mediaops-") as file:
                    # Written, for a file with holes would end this process where the disk is full.
                    for _ in range(0, 8 * size, len(_ZEROS)):
                        file.write(_ZEROS)
                    file.flush()
                    self._mapped = mmap(file.fileno(), 8 * size)
                return memoryview(self._mapped).cast("q")
            except OSError:
                # Without room for it there is still the memory.
                pass
        return array("q", bytes(8 * size))

    def _release(self) -> None:
        # What was changed stays in the file, and comes back when it is looked at.
        if self._mapped:
            self._mapped.madvise(MADV_DONTNEED)
        self._until_release = _BETWEEN
